"""`execution-metrics`: each limit is one thing checked; a measure that was not taken leaves the score unknown."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.reports.model import MessageEvent, SessionReport, ToolCallEvent, Usage
from eval_pipeline.scores.evaluate import build
from eval_pipeline_tests.builders import an_evaluator
from eval_pipeline_tests.scores.single_scores import a_report, score

USED = Usage(input_tokens=150, cached_input_tokens=50, output_tokens=25, cost_usd=0.02)
ASKED = MessageEvent(role="user", text="do it")


def a_session(*tools: str, **fields: Any) -> SessionReport:
    """A session with these calls and everything measured."""
    events = (ASKED, *(ToolCallEvent(tool=tool) for tool in tools))
    return a_report(**{"events": events, "usage": USED, "duration_ms": 1500.0, "model_calls": 3, **fields})


@pytest.mark.parametrize(
    ("limits", "value"),
    [
        pytest.param({"max_tool_calls": 4}, 1, id="tool-calls-at-the-limit"),
        pytest.param({"max_tool_calls": 3}, 0, id="tool-calls-above"),
        pytest.param({"max_llm_calls": 3}, 1, id="model-calls-at-the-limit"),
        pytest.param({"max_llm_calls": 2}, 0, id="model-calls-above"),
        pytest.param({"max_tokens": 125}, 1, id="tokens-without-what-came-from-the-cache"),
        pytest.param({"max_tokens": 124}, 0, id="tokens-above"),
        pytest.param({"max_cost_usd": 0.02}, 1, id="cost-at-the-limit"),
        pytest.param({"max_cost_usd": 0.01}, 0, id="cost-above"),
        pytest.param({"max_duration_ms": 1500}, 1, id="duration-at-the-limit"),
        pytest.param({"max_duration_ms": 1499}, 0, id="duration-above"),
        pytest.param({"target_exploration_ratio": 0.7}, 1, id="ratio-within-the-default-tolerance"),
        pytest.param({"target_exploration_ratio": 0.25}, 0, id="ratio-outside-the-default-tolerance"),
        pytest.param({"target_exploration_ratio": 0.25, "exploration_tolerance": 0.25}, 1, id="ratio-tolerated"),
        pytest.param({"maxToolCalls": 4, "maxCostUsd": 0.01}, 1 / 2, id="camel-case-one-of-two"),
        pytest.param({"max_tool_calls": 4, "max_tokens": 1, "max_duration_ms": 1}, 1 / 3, id="one-of-three"),
    ],
)
def test_the_value_is_the_share_of_limits_that_hold(limits: dict[str, float], value: float) -> None:
    result = score(an_evaluator("execution-metrics", **limits), a_session("Read", "grep", "Edit", "Bash"))

    assert result.value == pytest.approx(value)


def test_a_session_without_tool_calls_has_none_and_no_exploration_ratio() -> None:
    spec = an_evaluator("execution-metrics", max_tool_calls=0, target_exploration_ratio=0)

    result = score(spec, a_session())

    assert [finding.passed for finding in result.findings] == [True, False]
    assert result.value == 0.5


NOT_MEASURED = [
    pytest.param({"max_cost_usd": 1}, {"usage": Usage()}, "cost not measured", 0, id="cost"),
    pytest.param({"max_tokens": 9}, {"usage": Usage(input_tokens=1)}, "tokens not measured", 0, id="half-a-count"),
    pytest.param({"max_duration_ms": 9}, {"duration_ms": None}, "duration not measured", 0, id="duration"),
    pytest.param({"max_llm_calls": 9}, {"model_calls": None}, "model calls not measured", 0, id="model-calls"),
    pytest.param(
        {"max_cost_usd": 1, "max_tool_calls": 9}, {"usage": Usage()}, "cost not measured", 0.5, id="one-of-two"
    ),
    pytest.param(
        {"max_cost_usd": 1, "max_tool_calls": 9},
        {"events": (), "model_calls": None},
        "tool calls not measured",
        0,
        id="no-session-counts-for-everything-as-in-agentv",
    ),
]


@pytest.mark.parametrize(("limits", "fields", "reason", "failing"), NOT_MEASURED)
@pytest.mark.parametrize("on_missing", ["unscored", "fail"])
def test_what_was_not_measured_is_unknown_unless_missing_means_failing(
    limits: dict[str, float], fields: dict[str, Any], reason: str, failing: float, on_missing: str
) -> None:
    spec = an_evaluator("execution-metrics", **limits, on_missing=on_missing)

    result = score(spec, a_session("Read", **fields))

    assert result.value == (failing if on_missing == "fail" else None)
    assert result.reason == (f"unknown: {reason}" if on_missing == "fail" else reason)


@pytest.mark.parametrize(
    ("on_missing", "value", "reason"),
    [
        ("unscored", None, "tool calls not measured; model calls not measured; exploration ratio not measured"),
        ("fail", 0.75, "no tool call: there is no exploration ratio"),
    ],
)
def test_an_answer_alone_is_unknown_or_one_model_call_without_tools(
    on_missing: str, value: float | None, reason: str
) -> None:
    limits = {"max_tool_calls": 2, "max_llm_calls": 1, "max_cost_usd": 1, "target_exploration_ratio": 1}
    answer = (MessageEvent(role="assistant", phase="final", text="4"),)

    result = score(
        an_evaluator("execution-metrics", **limits, on_missing=on_missing),
        a_session("Read", events=answer, model_calls=None),
    )

    assert (result.value, result.reason) == (value, reason)


def test_each_limit_is_a_finding_that_names_amount_limit_and_unit() -> None:
    spec = an_evaluator("execution-metrics", max_tool_calls=1, max_cost_usd=0.01)

    result = score(spec, a_session("Read"))

    assert [(finding.text, finding.passed) for finding in result.findings] == [
        ("tool calls 1 is within 1", True),
        ("cost 0.02 USD exceeds 0.01 USD", False),
    ]
    assert result.reason == "cost 0.02 USD exceeds 0.01 USD"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        pytest.param({}, ": needs at least one of max_tool_calls", id="no-limit"),
        pytest.param({"exploration_tolerance": 0.1}, ": needs at least one of max_tool_calls", id="only-a-tolerance"),
        pytest.param({"max_tool_calls": "ten"}, " max_tool_calls: expected a number, got 'ten'", id="text"),
        pytest.param({"maxTokens": -1}, " max_tokens: expected a number of at least 0, got -1", id="below-0"),
        pytest.param({"max_tool_call": 1}, " max_tool_call: unknown argument; there are: max_tool_calls", id="unknown"),
    ],
)
def test_a_wrong_argument_is_named(config: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        build(an_evaluator("execution-metrics", **config))

    assert str(raised.value).startswith(f"execution-metrics{message}")
