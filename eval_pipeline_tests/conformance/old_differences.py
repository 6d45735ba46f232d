"""Where we deliberately answer otherwise than a reference: one table, reviewed as a whole.

A difference is a predicate over the row, never a row's number, because rows that nobody has seen are run through the
same table; it says why, and how our own answer is checked in the reference's place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import regex

from eval_pipeline.failures import GATE
from eval_pipeline.scores.model import Status
from eval_pipeline_tests.conformance.agentv_rows import (
    KINDS_ELSEWHERE,
    KINDS_HERE,
    SESSION_KINDS,
    Answer,
    agrees,
    answer_of,
    asked_list,
    asked_test,
    assertions_key,
    assertions_of,
    carry_out,
    kind_of,
    stop_of,
)
from eval_pipeline_tests.conformance.agentv_stops import STOPS, check_stopped, is_stopped
from eval_pipeline_tests.conformance.recorded_facts import Row


@dataclass(frozen=True, slots=True)
class Difference:
    """One deliberate difference: which rows it concerns, why, and what is checked instead."""

    name: str
    family: str
    concerns: Callable[[Row], bool]
    reason: str
    check: Callable[[Row], None]


def difference_of(row: Row) -> Difference | None:
    """The deliberate difference that a row falls under."""
    return next((one for one in DIFFERENCES if one.family == row.family and one.concerns(row)), None)


# Which rows


def _any(wrong: Callable[[Mapping[str, Any]], bool]) -> Callable[[Row], bool]:
    """Rows of which one evaluator is wrong in this way."""
    return lambda row: any(wrong(item) for item in assertions_of(row))


def _unknown_kind(item: Mapping[str, Any]) -> bool:
    return kind_of(item) not in KINDS_HERE | KINDS_ELSEWHERE


def _wrong_common_field(item: Mapping[str, Any]) -> bool:
    weight, required, minimum = item.get("weight"), item.get("required"), item.get("min_score")
    return (
        not isinstance(item.get("negate", False), bool)
        or not isinstance(item.get("name"), str | None)
        or not (weight is None or (_is_number(weight) and weight >= 0))
        or not (required is None or isinstance(required, bool) or _is_share(required))
        or not (minimum is None or _is_share(minimum))
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _wrong_value(item: Mapping[str, Any]) -> bool:
    kind, value = kind_of(item), item.get("value")
    if kind in _LIST_VALUE:
        return not isinstance(value, list) or not value or not all(isinstance(one, str) and one for one in value)
    return kind in _TEXT_VALUE and (not isinstance(value, str) or (not value and kind != "equals"))


def _invalid_pattern(item: Mapping[str, Any]) -> bool:
    if kind_of(item) != "regex":
        return False
    pattern, flags = str(item.get("value")), str(item.get("flags") or "")
    try:
        regex.compile(pattern)
    except regex.error:
        return True
    return _NOT_JAVASCRIPT.search(pattern) is not None or re.search(r"[^dgimsuvy]", flags) is not None


def _no_limit(item: Mapping[str, Any]) -> bool:
    """A budget without a usable limit, or with one that is no number of at least 0."""
    given = [item[name] for name in _LIMITS.get(kind_of(item), ()) if item.get(name) is not None]
    return kind_of(item) in _LIMITS and (not given or not all(_is_number(limit) and limit >= 0 for limit in given))


def _nameless_measure(item: Mapping[str, Any]) -> bool:
    return kind_of(item) in _WITHOUT_MADE_UP_NAME and "name" not in item


def _wrong_arguments(item: Mapping[str, Any]) -> bool:
    """Calls, fields or a skill to look for that cannot be used."""
    wrong = _WRONG_ARGUMENTS.get(kind_of(item))
    return wrong is not None and wrong(item)


def _wrong_trajectory(item: Mapping[str, Any]) -> bool:
    if item.get("mode") == "any_order":
        least = item.get("minimums")
        counts = least.values() if isinstance(least, Mapping) else [None]
        return not all(isinstance(count, int) and not isinstance(count, bool) and count >= 0 for count in counts)
    expected = item.get("expected")
    if item.get("mode") not in _SEQUENCE_MODES or not isinstance(expected, list):
        return True
    limited = any("max_duration_ms" in one for one in expected if isinstance(one, Mapping))
    named = all(isinstance(one, Mapping) and isinstance(one.get("tool"), str) for one in expected)
    return not named or (limited and item["mode"] in ("superset", "subset"))


def _wrong_fields(item: Mapping[str, Any]) -> bool:
    rules = item.get("fields")
    return (
        not isinstance(rules, list)
        or not rules
        or any(
            not isinstance(rule, Mapping) or not rule.get("path") or rule.get("match") not in _MATCHES for rule in rules
        )
    )


def _only_trajectory(row: Row) -> Mapping[str, Any]:
    """The evaluator of a row that is about the tool calls of a session; empty for other rows."""
    told = row.kind == "tool-trajectory" and isinstance(row.data.get("output_messages"), list)
    return assertions_of(row)[0] if told else {}


def _calls(answer: Answer) -> list[Mapping[str, Any]]:
    return [call for message in answer.messages or () for call in message.get("tool_calls") or ()]


def _more_calls_than_expected(row: Row) -> bool:
    item = _only_trajectory(row)
    return item.get("mode") == "exact" and len(_calls(answer_of(row))) > len(item["expected"])


def _found_later(row: Row) -> list[Mapping[str, Any]]:
    """Expected calls that the session makes, after it called the same tool with other arguments."""
    item = _only_trajectory(row)
    if item.get("mode") != "in_order":
        return []
    calls = _calls(answer_of(row))
    made = [(one, [call.get("input") for call in calls if call["tool"] == one["tool"]]) for one in item["expected"]]
    return [one for one, inputs in made if isinstance(one.get("args"), Mapping) and one["args"] in inputs[1:]
            and inputs[0] != one["args"]]  # fmt: skip


def _expects_empty_text(row: Row) -> bool:
    """`equals` with an empty value that AgentV left out."""
    asked = any(kind_of(item) == "equals" and item.get("value") == "" for item in assertions_of(row))
    return asked and len(row.data.get("observed", {}).get("evaluators", ())) < len(asked_list(row))


def _lacks_measure(row: Row) -> bool:
    """A measure that an evaluator needs was not taken."""
    answer = answer_of(row)
    unmeasured = {name for name in _MEASURES.values() if getattr(answer, name) is None}
    unmeasured |= {"session"} if answer.messages is None and answer.trace is None else set()
    unmeasured |= {"model_calls"} if answer.report().model_calls is None else set()
    unmeasured |= {"expected_output"} if not asked_test(row).get("expected_output") else set()
    asked = (item for item in assertions_of(row) if item.get("on_missing") != "fail")
    return any(not unmeasured.isdisjoint(_measures_of(item)) for item in asked)


def _measures_of(item: Mapping[str, Any]) -> Sequence[str]:
    kind = kind_of(item)
    if kind == "execution-metrics":
        return [measure for limit, measure in _METRICS.items() if item.get(limit) is not None]
    return [_NEEDED[kind]] if kind in _NEEDED else []


def _lost_in_a_transform(row: Row) -> bool:
    """Of the transform itself the row tells the error alone."""
    return is_stopped(row) and bool(assertions_of(row)) and "Transform failed" in str(row.data.get("output"))


# What is checked instead


def _refused(row: Row) -> None:
    carried = carry_out(asked_test(row), answer_of(row))

    assert carried.verdict is None, "the case should have been refused at load"
    assert carried.errors
    for error in carried.errors:
        assert error.place.field, f"the error names no field: {error}"


def _transforms_are_refused(row: Row) -> None:
    test = asked_test(row)
    key = assertions_key(test)
    transforming = [{**item, "transform": "output"} for item in assertions_of(row)]

    carried = carry_out({**test, key: transforming}, answer_of(row))

    assert len(carried.errors) == 1
    assert "transform" in (carried.errors[0].place.field or "")


def _unscored_unless_asked(row: Row) -> None:
    test, answer = asked_test(row), answer_of(row)
    key = assertions_key(test)
    unscored = carry_out(test, answer)
    counted = carry_out({**test, key: [_counting(item) for item in test[key]]}, answer)

    assert unscored.verdict is not None
    assert unscored.verdict.status in (Status.ERROR, Status.FAILED)
    assert unscored.verdict.status is Status.ERROR or unscored.verdict.failure_class == GATE.id
    assert any(score.value is None and score.reason for score in unscored.scores)
    assert counted.verdict is not None
    assert _is_recorded(counted.verdict.score, row)


def _counting(item: Any) -> Any:
    return {**item, "on_missing": "fail"} if isinstance(item, Mapping) and _measures_of(item) else item


def _is_recorded(score: float | None, row: Row) -> bool:
    return score == row.data["observed"]["score"] if "observed" in row.data else agrees(score, row)


def _kept_ones_agree(row: Row) -> None:
    """What AgentV kept scores the same with us; what it left out is scored, too."""
    carried = carry_out(asked_test(row), answer_of(row))
    kept = {one["name"]: one["score"] for one in row.data["observed"]["evaluators"]}
    ours = {score.evaluator: score.value for score in carried.scores}
    left_out = {name: value for name, value in ours.items() if name not in kept}

    assert carried.verdict is not None
    assert ours | kept == ours
    assert len(carried.scores) == len(asked_list(row))
    if None in left_out.values():
        assert carried.verdict.status is Status.ERROR
    elif kept and all(value == 1 for value in left_out.values()):
        assert carried.status == row.data["observed"]["execution_status"]


def _extra_calls_count(row: Row) -> None:
    """With only as many calls as expected we agree; each one more takes away from the score."""
    test, answer = asked_test(row), answer_of(row)
    calls = _calls(answer)
    few = calls[: len(_only_trajectory(row)["expected"])]

    (full,) = carry_out(test, answer).scores
    (cut,) = carry_out(test, replace(answer, messages=[{"role": "assistant", "tool_calls": few}])).scores

    assert agrees(cut.value, row)
    assert full.value is not None
    assert full.value < (cut.value or 1)
    assert sum(not finding.passed for finding in full.findings) >= len(calls) - len(few)


def _found_on_its_own(row: Row) -> None:
    test = asked_test(row)
    for expected in _found_later(row):
        alone = {**_only_trajectory(row), "expected": [{"tool": expected["tool"], "args": expected["args"]}]}

        (score,) = carry_out({**test, "assertions": [alone]}, answer_of(row)).scores

        assert score.value == 1


_MEASURES = {"latency": "duration_ms", "cost": "cost_usd", "token-usage": "token_usage"}
_METRICS = {
    "max_tool_calls": "session",
    "max_llm_calls": "model_calls",
    "max_tokens": "token_usage",
    "max_cost_usd": "cost_usd",
    "max_duration_ms": "duration_ms",
    "target_exploration_ratio": "session",
}
_LIMITS = {
    "latency": ("threshold",),
    "cost": ("budget",),
    "token-usage": ("max_total", "max_input", "max_output"),
    "execution-metrics": tuple(_METRICS),
}
_NEEDED = {**_MEASURES, "tool-trajectory": "session", "skill-trigger": "session", "field-accuracy": "expected_output"}
_WITHOUT_MADE_UP_NAME = frozenset({*_MEASURES, *SESSION_KINDS, "field-accuracy"}) - {"skill-trigger"}
_SEQUENCE_MODES = ("in_order", "exact", "superset", "subset")
_MATCHES = ("exact", "numeric_tolerance", "date")
_WRONG_ARGUMENTS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "tool-trajectory": _wrong_trajectory,
    "field-accuracy": _wrong_fields,
    "skill-trigger": lambda item: not isinstance(item.get("skill"), str) or not item["skill"],
}
_NOT_JAVASCRIPT = re.compile(r"(?<!\\)\(\?(?:P[<=>]|[aiLmsux-]+\)|#|>)")
_TEXT_VALUE = frozenset({"contains", "icontains", "starts-with", "ends-with", "equals", "regex"})
_LIST_VALUE = frozenset({"contains-any", "contains-all", "icontains-any", "icontains-all"})
DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "unknown evaluator",
        "agentv",
        _any(_unknown_kind),
        "AgentV scores 0 for a type that nothing answers to; a misspelt type is the author's mistake, not the target's",
        _refused,
    ),
    Difference(
        "wrong common field",
        "agentv",
        _any(_wrong_common_field),
        "AgentV ignores a `negate`, gate or weight of the wrong type, or drops the whole test with a warning",
        _refused,
    ),
    Difference(
        "wrong value",
        "agentv",
        _any(_wrong_value),
        "AgentV leaves an evaluator with an empty or wrong value out and may then ask its default grader: a silent "
        "change of what is measured",
        _refused,
    ),
    Difference(
        "invalid pattern",
        "agentv",
        _any(_invalid_pattern),
        "AgentV scores a pattern that cannot be compiled 0, and with negate 1; nothing was measured in either case",
        _refused,
    ),
    Difference(
        "no limit",
        "agentv",
        _any(_no_limit),
        "AgentV leaves a budget evaluator without a usable limit out; it would seem to hold",
        _refused,
    ),
    Difference(
        "wrong arguments",
        "agentv",
        _any(_wrong_arguments),
        "AgentV leaves an evaluator of calls, fields or skills with unusable arguments out, or reads on without the "
        "wrong part of them: less is measured than was asked",
        _refused,
    ),
    Difference(
        "extra calls",
        "agentv",
        _more_calls_than_expected,
        "AgentV's `exact` gives the full score although more calls were made than expected (a defect in its spec)",
        _extra_calls_count,
    ),
    Difference(
        "found later",
        "agentv",
        lambda row: bool(_found_later(row)),
        "AgentV's `in_order` stops looking for a call at the first of its tool, whatever its arguments (a defect)",
        _found_on_its_own,
    ),
    Difference(
        "empty text expected",
        "agentv",
        _expects_empty_text,
        "AgentV leaves `equals` with an empty text out; that nothing is said can be what is expected",
        _kept_ones_agree,
    ),
    Difference(
        "name optional",
        "agentv",
        lambda row: "observed" in row.data and _any(_nameless_measure)(row),
        "AgentV leaves budget evaluators without a name out; a name is made up for the others as well",
        _kept_ones_agree,
    ),
    Difference(
        "no transforms",
        "agentv",
        _lost_in_a_transform,
        "transforms belong to a later format than the seed page's (spec §10.2); an evaluator that asks for one is "
        "refused at load, so that nothing is graded untransformed",
        _transforms_are_refused,
    ),
    Difference(
        "not graded, no score",
        "agentv",
        lambda row: is_stopped(row) and stop_of(row) in STOPS,
        "AgentV gives a test that could not be carried out or graded the score 0; unknown is not zero (design, "
        "promise 3): it has no score, and a failure class that says whose fault it is. What can be found before the "
        "first call is refused there",
        check_stopped,
    ),
    Difference(
        "measure missing",
        "agentv",
        _lacks_measure,
        "what was not measured is unknown, not exceeded (design, promise 3); `on_missing: fail` gives AgentV's number",
        _unscored_unless_asked,
    ),
)
