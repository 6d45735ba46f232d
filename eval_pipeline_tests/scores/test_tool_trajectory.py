"""`tool-trajectory`: five ways to compare the calls that were made with those that were expected."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.reports.model import Event, MessageEvent, SessionReport, ToolCallEvent, ToolResultEvent
from eval_pipeline.scores.evaluate import build
from eval_pipeline_tests.builders import an_evaluator
from eval_pipeline_tests.scores.single_scores import a_report, score


def a_session(*calls: str | ToolCallEvent, **fields: Any) -> SessionReport:
    """A session that was asked something and made these calls."""
    events = [ToolCallEvent(tool=call) if isinstance(call, str) else call for call in calls]
    return a_report(events=(MessageEvent(role="user", text="do it"), *events), **fields)


def call(tool: str, **arguments: Any) -> ToolCallEvent:
    return ToolCallEvent(tool=tool, arguments=arguments)


@pytest.mark.parametrize(
    ("mode", "expected", "made", "value"),
    [
        pytest.param("in_order", "a b", "x a y b", 1, id="in-order-others-between"),
        pytest.param("in_order", "a b", "b a", 1 / 2, id="in-order-swapped"),
        pytest.param("in_order", "a b c", "a c", 1 / 3, id="in-order-nothing-is-found-after-a-missing-one"),
        pytest.param("in_order", "", "a", 1, id="in-order-nothing-expected"),
        pytest.param("in_order", "a", "", 0, id="in-order-nothing-made"),
        pytest.param("exact", "a b", "a b", 1, id="exact"),
        pytest.param("exact", "a b", "a x", 1 / 2, id="exact-one-wrong"),
        pytest.param("exact", "a b", "a", 1 / 2, id="exact-one-missing"),
        pytest.param("exact", "a b", "a b x", 2 / 3, id="exact-one-too-many"),
        pytest.param("exact", "", "", 1, id="exact-nothing-at-all"),
        pytest.param("exact", "", "a", 0, id="exact-nothing-expected"),
        pytest.param("superset", "a b", "x b a", 1, id="superset-in-any-order"),
        pytest.param("superset", "a a", "a", 1 / 2, id="superset-a-call-counts-once"),
        pytest.param("superset", "", "a", 1, id="superset-nothing-expected"),
        pytest.param("subset", "a b", "a a a", 1, id="subset-an-item-counts-often"),
        pytest.param("subset", "a", "a x", 1 / 2, id="subset-one-not-allowed"),
        pytest.param("subset", "a", "", 1, id="subset-nothing-made"),
        pytest.param("subset", "", "a", 0, id="subset-nothing-allowed"),
    ],
)
def test_the_value_is_the_share_that_came_true(mode: str, expected: str, made: str, value: float) -> None:
    spec = an_evaluator("tool-trajectory", mode=mode, expected=[{"tool": tool} for tool in expected.split()])

    result = score(spec, a_session(*made.split()))

    assert result.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("minimums", "value"),
    [
        pytest.param({"a": 2, "b": 1}, 1, id="met"),
        pytest.param({"a": 3, "b": 1}, 1 / 2, id="one-not-met"),
        pytest.param({"c": 0}, 1, id="none-needed"),
        pytest.param({}, 1, id="nothing-asked"),
    ],
)
def test_any_order_counts_the_calls_of_each_tool(minimums: dict[str, int], value: float) -> None:
    spec = an_evaluator("tool-trajectory", mode="any_order", minimums=minimums)

    result = score(spec, a_session("a", "b", "a"))

    assert result.value == value


@pytest.mark.parametrize(
    ("args", "args_match", "arguments", "value"),
    [
        pytest.param({"q": 1, "n": [1, {"k": True}]}, None, {"n": [1.0, {"k": True}], "q": 1}, 1, id="exact"),
        pytest.param({"q": 1}, None, {"q": 1, "x": 2}, 0, id="exact-with-one-too-many"),
        pytest.param({"q": 1}, None, {"q": True}, 0, id="true-is-not-1"),
        pytest.param({"q": ["a", "b"]}, None, {"q": ["b", "a"]}, 0, id="lists-have-an-order"),
        pytest.param({}, None, {}, 1, id="none-expected-none-given"),
        pytest.param({}, None, {"q": 1}, 0, id="none-expected-one-given"),
        pytest.param("any", "exact", {"q": 1}, 1, id="any"),
        pytest.param({"q": 1}, "ignore", {"q": 2}, 1, id="ignore"),
        pytest.param({"q": 1}, "superset", {"q": 1, "x": 2}, 1, id="superset"),
        pytest.param({"q": 1, "y": 2}, "superset", {"q": 1}, 0, id="superset-one-missing"),
        pytest.param({"q": 1, "y": 2}, "subset", {"q": 1}, 1, id="subset"),
        pytest.param({"q": 1}, "subset", {"q": 1, "x": 2}, 0, id="subset-one-too-many"),
        pytest.param({"c": {"q": 1, "f": 2}}, ["c.q"], {"c": {"q": 1, "f": 3}}, 1, id="path"),
        pytest.param({"q": 1}, ["q", "x"], {"q": 1, "x": 2}, 1, id="path-of-which-nothing-is-expected"),
        pytest.param({"c": {"q": 1}}, ["c.q"], {"c": "text"}, 0, id="path-that-leads-nowhere"),
        pytest.param({"q": 1}, [], {"q": 2}, 1, id="no-path-at-all"),
        pytest.param({"q": 1}, None, None, 0, id="arguments-not-told"),
        pytest.param({"q": 1}, "superset", "q", 0, id="arguments-that-are-a-text"),
    ],
)
@pytest.mark.parametrize("mode", ["exact", "in_order", "superset", "subset"])
def test_arguments_are_compared_as_asked(
    mode: str, args: object, args_match: object, arguments: object, value: float
) -> None:
    item = {"tool": "t", "args": args} | ({"args_match": args_match} if args_match is not None else {})
    spec = an_evaluator("tool-trajectory", mode=mode, expected=[item])

    result = score(spec, a_session(ToolCallEvent(tool="t", arguments=arguments)))

    assert result.value == value


def test_an_items_way_of_matching_overrides_the_evaluators() -> None:
    items = [{"tool": "t", "args": {"q": 1}}, {"tool": "t", "args": {"q": 1}, "argsMatch": "exact"}]
    spec = an_evaluator("tool-trajectory", mode="exact", args_match="superset", expected=items)

    result = score(spec, a_session(call("t", q=1, x=2), call("t", q=1, x=2)))

    assert [finding.passed for finding in result.findings] == [True, False]


@pytest.mark.parametrize(
    ("made", "passed"),
    [
        pytest.param([call("t", q=2), call("t", q=1), call("u")], [True, True], id="a-later-call-has-them"),
        pytest.param([call("t", q=2), call("u")], [False, True], id="no-call-has-them"),
        pytest.param([call("u"), call("t", q=1)], [True, False], id="what-stands-before-is-not-found"),
    ],
)
def test_in_order_an_item_takes_the_next_call_with_its_arguments(made: list[ToolCallEvent], passed: list[bool]) -> None:
    items = [{"tool": "t", "args": {"q": 1}}, {"tool": "u"}]
    spec = an_evaluator("tool-trajectory", mode="in_order", expected=items)

    result = score(spec, a_session(*made))

    assert [finding.passed for finding in result.findings] == passed


@pytest.mark.parametrize("mode", ["exact", "in_order"])
@pytest.mark.parametrize(
    ("tool", "duration_ms", "passed"),
    [
        pytest.param("t", 100.0, [True, True], id="at-the-limit"),
        pytest.param("t", 100.5, [True, False], id="above"),
        pytest.param("t", None, [True], id="not-measured-is-left-out"),
        pytest.param("u", 10.0, [False, False], id="another-call"),
    ],
)
def test_a_limit_of_duration_is_one_more_thing_expected(
    mode: str, tool: str, duration_ms: float | None, passed: list[bool]
) -> None:
    spec = an_evaluator("tool-trajectory", mode=mode, expected=[{"tool": "t", "maxDurationMs": 100}])
    events = (ToolCallEvent(tool=tool), ToolResultEvent(tool=tool, duration_ms=duration_ms))

    result = score(spec, a_report(events=events))

    assert [finding.passed for finding in result.findings] == passed
    assert result.value == sum(passed) / len(passed)


def test_results_belong_to_the_calls_they_name() -> None:
    spec = an_evaluator("tool-trajectory", mode="exact", expected=[{"tool": "t", "max_duration_ms": 10}] * 2)
    events = (
        ToolCallEvent(tool="t", call_id="1"),
        ToolCallEvent(tool="t", call_id="2"),
        ToolResultEvent(call_id="1", duration_ms=5),
        ToolResultEvent(call_id="2", duration_ms=50),
    )

    result = score(spec, a_report(events=events))

    assert [finding.passed for finding in result.findings] == [True, True, True, False]


@pytest.mark.parametrize(
    "events", [(), (MessageEvent(role="assistant", phase="final", text="4"),)], ids=["no-events", "only-an-answer"]
)
@pytest.mark.parametrize(("on_missing", "value"), [("unscored", None), ("fail", 0.0)])
def test_a_report_that_shows_no_session_says_nothing_about_calls(
    events: tuple[Event, ...], on_missing: str, value: float | None
) -> None:
    spec = an_evaluator("tool-trajectory", mode="subset", expected=[], on_missing=on_missing)

    result = score(spec, a_report("4", events=events))

    assert result.value == value
    assert "calls are unknown" in result.reason


def test_a_model_that_was_called_and_only_answered_made_no_calls() -> None:
    spec = an_evaluator("tool-trajectory", mode="any_order", minimums={"a": 1})
    events = (MessageEvent(role="assistant", phase="final", text="4"),)

    result = score(spec, a_report("4", events=events, model_calls=1))

    assert (result.value, result.reason) == (0, "a was called 0 times, at least 1 expected")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        pytest.param({}, " mode: required", id="no-mode"),
        pytest.param({"mode": "any"}, " mode: expected one of 'any_order', 'in_order'", id="unknown-mode"),
        pytest.param({"mode": "any_order"}, ": mode any_order needs minimums", id="no-minimums"),
        pytest.param({"mode": "exact"}, ": mode exact needs expected", id="nothing-expected"),
        pytest.param({"mode": "exact", "expected": [], "minimums": {}}, ": mode exact takes expected", id="both"),
        pytest.param(
            {"mode": "any_order", "minimums": {"a": -1}}, " minimums.a: expected a number of at", id="below-0"
        ),
        pytest.param({"mode": "any_order", "minimums": {"a": 1.5}}, " minimums.a: expected a whole number", id="half"),
        pytest.param({"mode": "exact", "expected": ["a"]}, " expected.0: expected a mapping, got 'a'", id="text-item"),
        pytest.param({"mode": "exact", "expected": [{}]}, " expected.0: tool: expected the name", id="no-tool"),
        pytest.param(
            {"mode": "exact", "expected": [{"tool": "a", "arg": {}}]},
            " expected.0.arg: unknown argument; there are: tool, kind, args, args_match, max_duration_ms; "
            "did you mean 'args'?",
            id="unknown-in-an-item",
        ),
        pytest.param(
            {"mode": "exact", "expected": [{"tool": "a", "args": [1]}]}, " expected.0: args: expected a map", id="args"
        ),
        pytest.param(
            {"mode": "exact", "expected": [], "args_match": "some"}, ": args_match: expected one of exact", id="match"
        ),
        pytest.param(
            {"mode": "superset", "expected": [{"tool": "a", "max_duration_ms": 1}]},
            ": mode superset checks no max_duration_ms; in_order and exact do",
            id="a-limit-that-would-not-be-looked-at",
        ),
    ],
)
def test_a_wrong_argument_is_named(config: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        build(an_evaluator("tool-trajectory", **config))

    assert str(raised.value).startswith(f"tool-trajectory{message}")


@pytest.mark.parametrize(
    ("mode", "kinds", "value"),
    [
        ("in_order", ["read", "edit"], 1.0),
        ("in_order", ["edit", "read"], 0.5),
        ("exact", ["read", "command", "edit"], 1.0),
        ("superset", ["web"], 0.0),
        ("subset", ["read", "command", "edit"], 1.0),
    ],
)
def test_calls_are_expected_by_kind_whatever_the_tools_are_called(mode: str, kinds: list[str], value: float) -> None:
    spec = an_evaluator("tool-trajectory", mode=mode, expected=[{"kind": kind} for kind in kinds])
    own_names = [("peek", "read"), ("sh_run", "command"), ("scribble", "edit")]
    events = tuple(ToolCallEvent(tool=tool, tool_kind=kind) for tool, kind in own_names)  # type: ignore[arg-type]

    assert score(spec, a_report(events=events)).value == value
