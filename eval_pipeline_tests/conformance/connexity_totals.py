"""Connexity's recorded facts about the totals of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from eval_pipeline.leaderboards.totals import Totals, totals
from eval_pipeline.sweeps.pass_rates import PassRate
from eval_pipeline.sweeps.suite_gates import rate_line
from eval_pipeline_tests.conformance.connexity_comparisons import measured
from eval_pipeline_tests.conformance.connexity_judging import assert_value
from eval_pipeline_tests.conformance.differences.connexity_totals import (
    BY_CASE,
    PERCENTILE,
    RATES,
    by_case,
    counts_by_case,
    is_carried_out,
)
from eval_pipeline_tests.conformance.row_outcomes import Record

JsonMap = Mapping[str, Any]
UNGRADED = "what could not be graded is in no rate, and a rate or mean of nothing is unknown, not 0"
UNCARRIED = "a plan that was not carried out is no execution"
REPEATED = "a case counts once, whatever its repetitions"
ESTIMATED = "tokens are those that agents report: none are estimated, so no sum is marked as an estimate"
OF_NOBODY = "money belongs to a role, agent or platform: there is no sum of what neither spent"
FEW = "the 95th percentile of few times is near the greatest of them"


def check_totals(data: JsonMap, record: Record) -> None:
    """Check a row about the totals of a run."""
    given, expected = data["input"], data["expected"]
    carried_out = [each for each in given["results"] if is_carried_out(each)]
    found = totals(measured([_result(each) for each in carried_out]))
    gates = (given.get("metrics_pass_threshold"), given.get("cases_pass_threshold"))
    for name, value in expected.items():
        differs = set(_differences(name, given["results"], found))
        for difference in differs:
            record("difference", difference)
        if not differs:
            assert_value(_TOTALS[name](found, *gates), value)


def _differences(name: str, results: Sequence[JsonMap], found: Totals) -> Iterator[str]:
    """Yield the differences that a total falls under; what we have in its place is computed by hand."""
    carried_out = [each for each in results if is_carried_out(each)]
    errors = any(each.get("error_message") for each in carried_out)
    if name in RATES and (errors or not results):
        _is_by_hand(name, carried_out, found)
        yield UNGRADED
    if name in _OF_PLANS and len(carried_out) < len(results):
        _is_by_hand(name, carried_out, found)
        yield UNCARRIED
    if counts_by_case(name, results):
        _is_by_hand(name, carried_out, found)
        yield REPEATED
    if name in _OF_MEASURES:
        yield from _OF_MEASURES[name](carried_out, found)


_OF_PLANS = {*RATES, "total_executions", "unique_test_case_count"}


def _is_by_hand(name: str, results: Sequence[JsonMap], found: Totals) -> None:
    counted = {"total_executions": len(results), "unique_test_case_count": len({each["test_case"] for each in results})}
    expected = by_case(name, results) if name in BY_CASE else counted[name]
    assert _TOTALS[name](found, None, None) == (None if expected is None else pytest.approx(expected))


def _result(each: JsonMap) -> dict[str, Any]:
    agent, platform = each.get("agent_token_usage") or {}, each.get("platform_token_usage") or {}
    return {
        "case": each["test_case"],
        "passed": each.get("passed"),
        "error": each.get("error_message"),
        "score": (each.get("verdict") or {}).get("overall_score"),
        "latency_ms": each.get("agent_latency_p50_ms"),
        "input_tokens": agent.get("prompt_tokens"),
        "output_tokens": agent.get("completion_tokens"),
        "platform_input_tokens": platform.get("prompt_tokens"),
        "platform_output_tokens": platform.get("completion_tokens"),
        "cost_usd": each.get("agent_cost_usd"),
        "platform_cost_usd": each.get("platform_cost_usd"),
    }


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _tokens(prompt: int | None, completion: int | None) -> dict[str, int] | None:
    used = {"prompt_tokens": prompt, "completion_tokens": completion}
    return {name: value for name, value in used.items() if value is not None} or None


_TOTALS: Mapping[str, Any] = {
    "unique_test_case_count": lambda found, *_: found.cases,
    "total_executions": lambda found, *_: found.executions,
    "passed_count": lambda found, *_: found.passed,
    "failed_count": lambda found, *_: found.failed,
    "error_count": lambda found, *_: found.errored,
    "pass_rate": lambda found, *_: found.pass_rate,
    "cases_pass_rate_pct": lambda found, *_: _percent(found.pass_rate),
    "avg_overall_score": lambda found, *_: _percent(found.mean_score),
    "weighted_metrics_score_pct": lambda found, *_: _percent(found.mean_score),
    "latency_avg_ms": lambda found, *_: found.latency_mean_ms,
    "latency_p50_ms": lambda found, *_: found.latency_p50_ms,
    "latency_p95_ms": lambda found, *_: found.latency_p95_ms,
    "latency_max_ms": lambda found, *_: found.latency_max_ms,
    "total_agent_token_usage": lambda found, *_: _tokens(found.input_tokens, found.output_tokens),
    "total_platform_token_usage": lambda found, *_: _tokens(found.platform_input_tokens, found.platform_output_tokens),
    "total_agent_cost_usd": lambda found, *_: found.cost_usd,
    "total_platform_cost_usd": lambda found, *_: found.platform_cost_usd,
    "total_estimated_cost_usd": lambda found, *_: found.total_cost_usd,
    "metrics_passed": lambda found, metrics, cases: _holds(found.mean_score, metrics),
    "cases_passed": lambda found, metrics, cases: _holds(found.pass_rate, cases),
    "metrics_pass_threshold": lambda found, metrics, cases: metrics,
    "cases_pass_threshold": lambda found, metrics, cases: cases,
}


def _holds(rate: float | None, percent: float | None) -> bool | None:
    """Return whether a set's threshold is reached, as at the end of a run; None without one or without results."""
    if percent is None or rate is None:
        return None
    found = PassRate(rate=rate, low=None, high=None)
    return rate_line("threshold", "s × r", "rate", found, percent / 100).decision == "GO"


def _estimate_differs(results: Sequence[JsonMap], found: Totals) -> Iterator[str]:
    if any((each.get("agent_token_usage") or {}).get("estimated") for each in results):
        assert found.input_tokens == sum(each["agent_token_usage"]["prompt_tokens"] for each in results)
        yield ESTIMATED


def _cost_differs(results: Sequence[JsonMap], found: Totals) -> Iterator[str]:
    if any("estimated_cost_usd" in each and "agent_cost_usd" not in each for each in results):
        assert found.total_cost_usd is None
        yield OF_NOBODY


def _percentile_differs(results: Sequence[JsonMap], found: Totals) -> Iterator[str]:
    times = [each["agent_latency_p50_ms"] for each in results if each.get("agent_latency_p50_ms") is not None]
    if times and len(times) < PERCENTILE:
        assert found.latency_p95_ms is not None
        assert sorted(times)[-2:][0] <= found.latency_p95_ms <= max(times)
        yield FEW


_OF_MEASURES: Mapping[str, Any] = {
    "latency_p95_ms": _percentile_differs,
    "total_agent_token_usage": _estimate_differs,
    "total_estimated_cost_usd": _cost_differs,
}
