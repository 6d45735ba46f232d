"""By what a row about the totals of a run falls under a difference, and what we have in place of its totals."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

JsonMap = Mapping[str, Any]
PERCENTILE = 20
"""The least number of times of which the reference has a 95th percentile."""


def is_carried_out(result: JsonMap) -> bool:
    """Return whether a result is one: a run that is cancelled leaves empty ones."""
    return result.get("passed") is not None or bool(result.get("error_message"))


def _rate(result: JsonMap) -> float | None:
    return None if result.get("error_message") or not is_carried_out(result) else float(result["passed"])


def _score(result: JsonMap) -> float | None:
    return (result.get("verdict") or {}).get("overall_score")


def _time(result: JsonMap) -> float | None:
    return result.get("agent_latency_p50_ms")


def _percent(values: Sequence[float]) -> float:
    return 100 * statistics.mean(values)


def _percentile(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20)[18] if len(values) >= PERCENTILE else max(values)


Value = Callable[[JsonMap], float | None]
Summary = Callable[[Sequence[float]], float]
BY_CASE: Mapping[str, tuple[Value, Summary, Summary]] = {
    "pass_rate": (_rate, statistics.mean, statistics.mean),
    "cases_pass_rate_pct": (_rate, statistics.mean, _percent),
    "avg_overall_score": (_score, statistics.mean, statistics.mean),
    "weighted_metrics_score_pct": (_score, statistics.mean, statistics.mean),
    "latency_avg_ms": (_time, statistics.median, statistics.mean),
    "latency_p50_ms": (_time, statistics.median, statistics.median),
    "latency_p95_ms": (_time, statistics.median, _percentile),
    "latency_max_ms": (_time, statistics.median, max),
}
"""A total: the value of a result, the value of a case of those of its results, and the total of those of its cases."""
RATES = ("pass_rate", "cases_pass_rate_pct")


def by_case(name: str, results: Sequence[JsonMap]) -> float | None:
    """Return a total in which each case counts once; None where nothing is known."""
    value, of_case, total = BY_CASE[name]
    cases: dict[str, list[float]] = {}
    for result in results:
        if (known := value(result)) is not None:
            cases.setdefault(result["test_case"], []).append(known)
    return total([of_case(known) for known in cases.values()]) if cases else None


def by_result(name: str, results: Sequence[JsonMap]) -> float | None:
    """Return a total in which each result counts."""
    value, _, total = BY_CASE[name]
    known = [each for each in map(value, results) if each is not None]
    return total(known) if known else None


def counts_by_case(name: str, results: Sequence[JsonMap]) -> bool:
    """Return whether a total is another one where each case counts once."""
    if name not in BY_CASE or (name == "latency_p95_ms" and _are_few(results)):
        return False
    ours, theirs = by_case(name, results), by_result(name, results)
    return ours is not None and theirs is not None and abs(ours - theirs) > 1e-9


def _are_few(results: Sequence[JsonMap]) -> bool:
    return sum(_time(each) is not None for each in results) < PERCENTILE


def totals_of(row: JsonMap, names: Sequence[str]) -> bool:
    """Return whether a row expects one of some totals."""
    return not row["expected"].keys().isdisjoint(names)


def rate_of_ungraded(row: JsonMap) -> bool:
    results = row["input"].get("results") or ()
    return totals_of(row, RATES) and (not results or any(each.get("error_message") for each in results))


def rate_of_uncarried(row: JsonMap) -> bool:
    counted = (*RATES, "total_executions", "unique_test_case_count")
    return totals_of(row, counted) and not all(map(is_carried_out, row["input"].get("results") or ()))


def repeated_cases(row: JsonMap) -> bool:
    return any(counts_by_case(name, row["input"].get("results") or ()) for name in row["expected"])
