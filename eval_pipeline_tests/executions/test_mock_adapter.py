"""Answers written down in the runners file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.executions.adapters.mock import Mock
from eval_pipeline.executions.model import TargetFailure
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import normalize
from eval_pipeline_tests.builders import a_call, a_case, a_plan, a_runner, an_execution


def report(case: str = "c1", **settings: Any) -> SessionReport:
    runner = a_runner(adapter="mock", settings=settings)
    plan = a_plan(a_case(case), runner)
    raw = asyncio.run(Mock(runner).execute(a_call(Path("nowhere"), plan)))
    return normalize(an_execution(plan, raw=raw), plan.case, runner)


@pytest.mark.parametrize(
    ("response", "output"),
    [
        pytest.param("hello", "hello", id="text"),
        pytest.param('{"output": "4"}', '{"output": "4"}', id="json text stays as it is"),
        pytest.param({"answer": 4}, '{"answer":4}', id="value"),
        pytest.param(["a", 1], '["a",1]', id="list"),
        pytest.param(4, "4", id="number"),
        pytest.param({"text": "4", "usage": {"input_tokens": 3}}, "4", id="answer with what is known of it"),
        pytest.param([{"role": "assistant", "content": "4"}], "4", id="messages"),
    ],
)
def test_a_mock_gives_its_answer(response: Any, output: str) -> None:
    assert report(response=response).final_output == output


def test_a_case_may_have_an_answer_of_its_own() -> None:
    settings = {"response": "any", "responses": {"c2": "two", 3: "three"}}

    assert [report(case, **settings).final_output for case in ("c1", "c2", "3")] == ["any", "two", "three"]


def test_a_mock_may_use_tools_and_cost_something() -> None:
    call = {"tool": "add", "input": {"a": 2}, "output": 4}
    response = {"messages": [{"role": "assistant", "content": "4", "tool_calls": [call]}], "cost_usd": 0.5}

    normalized = report(response=response)

    assert [item.tool for item in normalized.tool_calls] == ["add"]
    assert normalized.usage.cost_usd == 0.5


def test_how_long_a_mock_takes_says_nothing() -> None:
    assert report(response="4").duration_ms is None
    assert report(response={"text": "4", "duration_ms": 7}).duration_ms == 7


def test_a_case_without_an_answer_fails() -> None:
    with pytest.raises(TargetFailure, match="no response for case 'c1', and none for all cases") as raised:
        report(responses={"c2": "two"})

    assert raised.value.failure.id == "recording-missing"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [({}, "response: expected an answer, or 'responses' by case id"), ({"responses": [1]}, "responses: expected a")],
)
def test_a_mock_without_answers_is_none(settings: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Mock(a_runner(settings=settings))
