"""The counts of a pair over its cases together, which its standing is made of: stored with it, or of lists of cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from eval_pipeline.statistics.case_arrays import Array, array_sums, relative_weights
from eval_pipeline.statistics.clusters import CaseSums, effective_number
from eval_pipeline.statistics.pair_sums import cluster_codes
from eval_pipeline.statistics.summaries import mean

_COUNTED = ("planned", "graded", "answers", "passed")


class CaseTotals(NamedTuple):
    """`planned`, `graded`, `answers` and `passed` are numbers of plans and answers of `cases` cases.

    `rates` and `scores` are the sums of the means of graded cases. `passed_shares` is the sum over cases of what
    passed of the planned, `open_shares` of what is not graded of it; with weights of cases each times its share.
    """

    cases: int
    planned: int
    graded: int
    answers: int
    passed: int
    pass_rate: float | None
    mean_score: float | None
    rates: CaseSums
    scores: CaseSums
    passed_shares: float
    open_shares: float
    effective_cases: float | None = None


def stored_totals(sums: Mapping[str, Any]) -> CaseTotals:
    """Return the totals that were stored with a pair: of cases that count the same, each its own cluster."""
    rates, scores = _plain_sums(sums, "rates", "rate_squares"), _plain_sums(sums, "scores", "score_squares")
    return CaseTotals(
        cases=sums["cases"], planned=sums["planned"], graded=sums["graded"], answers=sums["answers"],
        passed=sums["passed"], pass_rate=rates.mean, mean_score=scores.mean, rates=rates, scores=scores,
        passed_shares=sums["passed_shares"], open_shares=sums["open_shares"],
    )  # fmt: skip


def _plain_sums(sums: Mapping[str, Any], total: str, squares: str) -> CaseSums:
    cases = sums["graded_cases"]
    return CaseSums(
        cases=cases, clusters=cases, total=sums[total], squares=sums[squares], products=sums[total],
        sizes=float(cases), inverse_counts=sums["inverse_counts"],
    )  # fmt: skip


def totals_of(lists: Mapping[str, Any], clusters: list[str] | None, weights: Array | None) -> CaseTotals:
    """Return the totals of lists by case: `planned`, `graded`, `answers`, `passed` and `score_sums`."""
    planned, graded, passed = lists["planned"], lists["graded"], lists["passed"]
    there = graded > 0
    counts = graded[there]
    rates, scores = passed[there] / counts, lists["score_sums"][there] / counts
    codes = cluster_codes(clusters)
    codes = codes if codes is None else codes[there]
    of_graded = None if weights is None else weights[there]
    shares = None if of_graded is None else of_graded.tolist()
    relative = relative_weights(weights)
    of_plans = 1.0 if relative is None else relative
    return CaseTotals(
        cases=len(planned),
        **{name: int(lists[name].sum()) for name in _COUNTED},
        pass_rate=mean(rates.tolist(), shares),
        mean_score=mean(scores.tolist(), shares),
        rates=array_sums(rates, counts, codes, of_graded),
        scores=array_sums(scores, counts, codes, of_graded),
        passed_shares=float((of_plans * passed / planned).sum()),
        open_shares=float((of_plans * (1 - graded / planned)).sum()),
        effective_cases=effective_number(shares) if shares else None,
    )
