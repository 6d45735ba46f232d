"""`expected-calls`: calls that have to be made, in order where that is asked for, and tools that must not be called."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.reports.model import MessageEvent, ToolCallEvent
from eval_pipeline.scores.evaluate import build
from eval_pipeline_tests.builders import an_evaluator
from eval_pipeline_tests.scores.single_scores import a_report, score

A, B = ToolCallEvent(tool="a", arguments={"n": 1, "more": True}), ToolCallEvent(tool="b", arguments={})


def _city(city: Any) -> ToolCallEvent:
    return ToolCallEvent(tool="a", arguments={"city": city})


def _value(*made: ToolCallEvent, **config: Any) -> tuple[float | None, str]:
    report = a_report(events=(MessageEvent(role="user", text="do it"), *made))
    result = score(an_evaluator("expected-calls", **config), report)
    return result.value, result.reason


@pytest.mark.parametrize(
    ("config", "made", "value"),
    [
        ({"calls": [{"tool": "a"}, {"tool": "b"}]}, [B, A], 1),
        ({"calls": [{"tool": "a"}, {"tool": "b"}], "in_order": True}, [B, A], 0.5),
        ({"calls": [{"tool": "a", "arguments": {"n": 1}}]}, [A], 1),
        ({"calls": [{"tool": "a", "arguments": {"n": 2}}]}, [A], 0),
        ({"calls": [{"tool": "a", "arguments": {"n": True}}]}, [A], 0),
        ({"calls": [{"tool": "a", "arguments": {"n": "{{ n }}"}}]}, [A], 1),
        ({"calls": [{"tool": "a", "arguments": {"city": "Ulm"}}]}, [_city("  ULM ")], 1),
        ({"calls": [{"tool": "a", "arguments": {"city": "Ulm"}}]}, [_city("Ulm, Germany")], 0),
        ({"calls": [{"tool": "a", "arguments": {"city": ["Ulm"]}}]}, [_city(["ulm"])], 0),
        ({"calls": [{"tool": "a", "arguments": {"city": "1"}}]}, [_city(1)], 0),
        ({"calls": [{"tool": "a"}, {"tool": "a"}]}, [A], 0.5),
        ({"calls": [{"tool": "a"}, {"tool": "a", "arguments": {"n": 1}}]}, [A, ToolCallEvent(tool="a")], 1),
        ({"calls": []}, [], 1),
        ({"calls": []}, [A], 0),
        ({"forbidden": ["b"]}, [A], 1),
        ({"forbidden": ["b"]}, [A, B], 0),
        ({"calls": [{"tool": "a"}], "forbidden": ["b"]}, [A, B], 0.5),
    ],
)
def test_the_value_is_the_share_of_expectations_that_hold(
    config: dict[str, Any], made: list[ToolCallEvent], value: float
) -> None:
    assert _value(*made, **config)[0] == value


def test_the_reason_tells_a_missing_call_from_other_arguments() -> None:
    assert _value(A, calls=[{"tool": "a", "arguments": {"n": 2}}, {"tool": "b"}])[1] == (
        "a with {'n': 2} is not called (it is, with other arguments); b is not called"
    )


def test_a_report_without_a_session_has_no_score() -> None:
    assert score(an_evaluator("expected-calls", calls=[{"tool": "a"}]), a_report("done")).value is None


def test_nothing_to_expect_is_an_error() -> None:
    with pytest.raises(InputError, match="expected a list of calls"):
        build(an_evaluator("expected-calls"))
