"""A case of an older generation in the form of a later one."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline.formats.connexity.generations import Generation, as_generation, generation_of, outcome_statement
from eval_pipeline.parsing.fields import DETACHED
from eval_pipeline.suites.conversion import ConversionLoss


def _converted(raw: dict[str, Any], target: Generation) -> tuple[dict[str, Any], list[str]]:
    lost = ConversionLoss()
    return as_generation(raw, DETACHED, target, lost), list(lost.notes())


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"name": "n"}, Generation.PAGE),
        ({"persona": {}}, Generation.PAGE),
        ({"expected_outcomes": {"a": True}}, Generation.PAGE),
        ({"persona_context": "p"}, Generation.PERSONA_TEXT),
        ({"expected_outcomes": ["a"]}, Generation.PERSONA_TEXT),
        ({"expected_tool_calls": [{"tool": "t", "mock_response": {}}]}, Generation.ANSWER_PER_CALL),
    ],
)
def test_fields_show_the_generation(raw: dict[str, Any], expected: Generation) -> None:
    assert generation_of(raw, DETACHED) is expected


def test_the_persona_becomes_a_text_the_opener_a_first_message_and_the_limit_is_lost() -> None:
    raw = {
        "name": "n",
        "persona": {"type": "commuter", "description": "Late.", "instructions": "Be brief."},
        "initial_message": "hi",
        "max_turns": 3,
        "expected_outcomes": {"bus_found": True, "fare": 3.5},
    }

    case, lost = _converted(raw, Generation.PERSONA_TEXT)

    assert case == {
        "name": "n",
        "persona_context": "[Persona type]\ncommuter\n\n[Description]\nLate.\n\n[Behavioral instructions]\nBe brief.",
        "first_message": "hi",
        "first_turn": "user",
        "expected_outcomes": ["bus found", "fare: 3.5"],
    }
    assert lost == ["'max_turns' (a setting of the run in this generation) (n)"]


def test_each_canned_answer_becomes_a_call_of_its_own() -> None:
    answers = [{"expected_params": {"a": 2}, "response": {"n": 1}}, {"response": {"n": 2}}]
    call = {"tool": "t", "expected_params": {"a": 1}, "mock_responses": answers}

    case, _ = _converted({"persona_context": "p", "expected_tool_calls": [call]}, Generation.ANSWER_PER_CALL)

    assert case["expected_tool_calls"] == [
        {"tool": "t", "expected_params": {"a": 2}, "mock_response": {"n": 1}},
        {"tool": "t", "expected_params": {"a": 1}, "mock_response": {"n": 2}},
    ]


def test_a_call_with_an_answer_of_its_own_loses_those_of_an_older_generation() -> None:
    call = {"tool": "t", "mock_response": {"n": 1}, "mock_responses": [{"response": {"n": 9}}]}

    case, _ = _converted({"persona_context": "p", "expected_tool_calls": [call]}, Generation.ANSWER_PER_CALL)

    assert case["expected_tool_calls"] == [{"tool": "t", "mock_response": {"n": 1}}]


def test_a_case_in_an_older_generation_says_what_is_lost() -> None:
    case, lost = _converted(
        {"persona_context": "p", "first_turn": "agent", "first_message": "Hi", "expected_outcomes": ["done"]},
        Generation.PAGE,
    )

    assert case == {
        "persona": {"type": "user", "description": "p", "instructions": ""},
        "expected_outcomes": {"done": True},
    }
    assert "'first_turn: agent'" in " ".join(lost)


@pytest.mark.parametrize(
    ("expected", "statement"), [(True, "bus found"), (False, "bus found: False"), ("x", "bus found: x")]
)
def test_an_outcome_as_a_statement(expected: Any, statement: str) -> None:
    assert outcome_statement("bus_found", expected) == statement
