"""Where we deliberately answer otherwise than a reference: one table, reviewed as a whole.

A difference is a predicate over the row, never a row's number, because rows that nobody has seen are run through the
same table; it says why, and how our own answer is checked in the reference's place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import regex

from eval_pipeline.failures import GATE
from eval_pipeline.scores.model import Status
from eval_pipeline_tests.conformance.agentv_rows import (
    BUILT_KINDS,
    UNBUILT_KINDS,
    agrees,
    answer_of,
    asked_list,
    asked_test,
    assertions_key,
    assertions_of,
    carry_out,
    kind_of,
)
from eval_pipeline_tests.conformance.facts import Row


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
    return kind_of(item) not in BUILT_KINDS | UNBUILT_KINDS


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
    return kind_of(item) in _MEASURES and "name" not in item


def _expects_empty_text(row: Row) -> bool:
    """`equals` with an empty value that AgentV left out."""
    asked = any(kind_of(item) == "equals" and item.get("value") == "" for item in assertions_of(row))
    return asked and len(row.data.get("observed", {}).get("evaluators", ())) < len(asked_list(row))


def _lacks_measure(row: Row) -> bool:
    """A measure that an evaluator needs was not taken."""
    answer = answer_of(row)
    missing = {kind for kind, name in _MEASURES.items() if getattr(answer, name) is None}
    return any(kind_of(item) in missing and item.get("on_missing") != "fail" for item in assertions_of(row))


# What is checked instead


def _refused(row: Row) -> None:
    carried = carry_out(asked_test(row), answer_of(row))

    assert carried.verdict is None, "the case should have been refused at load"
    assert carried.errors
    for error in carried.errors:
        assert error.place.field, f"the error names no field: {error}"


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
    return {**item, "on_missing": "fail"} if isinstance(item, Mapping) and kind_of(item) in _MEASURES else item


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


_MEASURES = {"latency": "duration_ms", "cost": "cost_usd", "token-usage": "token_usage"}
_LIMITS = {
    "latency": ("threshold",),
    "cost": ("budget",),
    "token-usage": ("max_total", "max_input", "max_output"),
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
        "measure missing",
        "agentv",
        _lacks_measure,
        "what was not measured is unknown, not exceeded (design, promise 3); `on_missing: fail` gives AgentV's number",
        _unscored_unless_asked,
    ),
)
