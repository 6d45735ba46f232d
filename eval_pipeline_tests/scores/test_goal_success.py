"""`trajectory:goal-success`: a model is shown the session and says how far it got."""

from __future__ import annotations

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.reports.model import CommandEvent, MessageEvent, SessionReport, ToolCallEvent, ToolResultEvent
from eval_pipeline.scores.evaluate import build
from eval_pipeline.scores.grader_client import FakeGraderClient
from eval_pipeline_tests.builders import a_case, an_evaluator
from eval_pipeline_tests.scores.fake_grader import graded

NAME = "trajectory:goal-success"
SESSION = SessionReport(
    execution_id="e1",
    final_output="Refunded.",
    events=(
        MessageEvent(role="assistant", text="secret plan", phase="thinking"),
        ToolCallEvent(tool="find_order", arguments={"id": 7}),
        ToolResultEvent(tool="find_order", output="found"),
        CommandEvent(command="make refund", exit_code=0),
        MessageEvent(role="assistant", text="Refunded.", phase="final"),
    ),
)


@pytest.mark.parametrize("value", ["Refund order 7", {"goal": "Refund order 7"}], ids=["text", "mapping"])
def test_the_grader_is_shown_the_goal_and_what_happened(value: object) -> None:
    client = FakeGraderClient(['{"score": 0.9, "reason": "done"}'])

    score = graded(an_evaluator(NAME, value=value), SESSION, client=client)

    payload = client.requests[0][1].text
    assert (score.value, score.reason) == (0.9, "done")
    assert "Refund order 7" in payload
    assert '(call) find_order({"id":7})\n(result) found\n(command) make refund → exit code 0' in payload
    assert "\nRefunded.\nEND output" in payload
    assert "secret plan" not in payload


def test_without_a_goal_of_its_own_the_cases_criteria_are_the_goal() -> None:
    client = FakeGraderClient(['{"score": 1}'])

    graded(an_evaluator(NAME), SESSION, case=a_case(criteria="Refunds what was bought"), client=client)

    assert "Refunds what was bought" in client.requests[0][1].text


def test_without_any_goal_nothing_can_be_told_and_nobody_is_asked() -> None:
    client = FakeGraderClient(['{"score": 1}'])

    score = graded(an_evaluator(NAME), SESSION, client=client)

    assert (score.value, client.requests) == (None, [])
    assert score.reason.startswith("no goal")


@pytest.mark.parametrize("value", [5, "", {"aim": "x"}, {"goal": ""}, ["x"]], ids=str)
def test_a_goal_that_cannot_be_one_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="value: expected a text, or a mapping with goal"):
        build(an_evaluator(NAME, value=value))
