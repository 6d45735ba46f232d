"""Results → totals of one side: how many passed, the mean score, times, tokens and money. Unknown is None, never 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from eval_pipeline.leaderboards.results import CASE, RUNNER_CASE, Results, by_case, weights_of
from eval_pipeline.statistics.summaries import mean, quantile, upper_quantile

MEASURES = {
    "latency_ms": pl.Float64, "input_tokens": pl.Int64, "output_tokens": pl.Int64, "cost_usd": pl.Float64,
    "platform_input_tokens": pl.Int64, "platform_output_tokens": pl.Int64, "platform_cost_usd": pl.Float64,
    "cost_unknown": pl.Boolean,
}  # fmt: skip
"""What each result measured, beside RESULT_COLUMNS: of the agent, and of the platform (simulator and judge).
`cost_unknown`: a part of its money is; null where only the money itself tells."""
METRIC_COLUMNS = {
    "suite": pl.String, "runner": pl.String, "case_id": pl.String, "repetition": pl.Int32, "metric": pl.String,
    "points": pl.Float64, "passed": pl.Boolean,
}  # fmt: skip
"""What a judge gave for each metric of a result: `points` (0 to 5), or for a metric that is met or not `passed`."""
GRADED = pl.col("status") != "error"
PASSED = pl.col("status").is_in(["passed", "expected-failed"])
_KEYS = ("suite", "runner", "case_id", "repetition")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Results with what they measured: `measures` has the columns of _KEYS and MEASURES, `metrics` METRIC_COLUMNS."""

    results: Results
    measures: pl.DataFrame
    metrics: pl.DataFrame

    @property
    def frame(self) -> pl.DataFrame:
        """The results, each with its measures."""
        return self.results.frame.join(self.measures, on=list(_KEYS), how="left")

    @property
    def keys(self) -> tuple[str, ...]:
        """What identifies a case: its runner, too, where there are several."""
        return RUNNER_CASE if len(self.results.runners) > 1 else CASE


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The totals of one side.

    `pass_rate` and `mean_score` are means over cases of their graded results. Times are over cases, each by the median
    of its results; `latency_p95_ms` is exact from 19 cases on and the greatest time below. Tokens and money are sums
    of what is known, `cost_unknown` results cost more than that; those of the platform are of simulators and judges.
    """

    cases: int
    executions: int
    passed: int
    failed: int
    errored: int
    pass_rate: float | None
    mean_score: float | None
    latency_mean_ms: float | None
    latency_p50_ms: float | None
    latency_p95_ms: float | None
    latency_max_ms: float | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    platform_input_tokens: int | None
    platform_output_tokens: int | None
    platform_cost_usd: float | None
    cost_unknown: int = 0

    @property
    def total_cost_usd(self) -> float | None:
        """The money of agent and platform, as far as it is known."""
        known = [cost for cost in (self.cost_usd, self.platform_cost_usd) if cost is not None]
        return sum(known) if known else None


def totals(measured: Measured) -> Totals:
    """Return the totals of one side."""
    frame, keys = measured.frame, measured.keys
    cases = by_case(measured.results.frame, keys)
    times = sorted(_known(frame.group_by(keys).agg(pl.col("latency_ms").median())["latency_ms"]))
    return Totals(
        cases=cases.height,
        executions=frame.height,
        passed=frame.filter(GRADED & PASSED).height,
        failed=frame.filter(GRADED & ~PASSED).height,
        errored=frame.filter(~GRADED).height,
        pass_rate=_weighted(cases, "pass_rate"),
        mean_score=_weighted(cases, "score"),
        latency_mean_ms=mean(times),
        latency_p50_ms=quantile(times, 0.5) if times else None,
        latency_p95_ms=upper_quantile(times, 0.95) if times else None,
        latency_max_ms=times[-1] if times else None,
        cost_unknown=frame.filter(pl.col("cost_unknown").fill_null(pl.col("cost_usd").is_null())).height,
        **{name: _sum(frame[name]) for name in MEASURES if name not in ("latency_ms", "cost_unknown")},
    )


def paired(baseline: Measured, candidate: Measured, *, allow_changed: bool = False) -> tuple[Measured, Measured]:
    """Return both sides with the cases that both graded with the same content (any, with `allow_changed`), and with the
    times of those whose time both know."""
    sides, keys = (baseline, candidate), max(baseline.keys, candidate.keys, key=len)
    graded = [by_case(side.results.frame, keys).filter(pl.col("graded") > 0) for side in sides]
    same = pl.lit(allow_changed) | (pl.col("content") == pl.col("content_candidate")).fill_null(True)
    both = graded[0].join(graded[1], on=list(keys), suffix="_candidate").filter(same).select(keys)
    timed = [side.measures.drop_nulls("latency_ms").select(keys).unique() for side in sides]
    both_timed = timed[0].join(timed[1], on=list(keys)).with_columns(timed=True)
    first, second = (_only(side, both, both_timed) for side in sides)
    return first, second


def _only(side: Measured, cases: pl.DataFrame, timed: pl.DataFrame) -> Measured:
    keys = cases.columns
    frame = side.results.frame.join(cases, on=keys, how="semi")
    measures = side.measures.join(timed, on=keys, how="left")
    known = measures.with_columns(latency_ms=pl.when("timed").then("latency_ms")).drop("timed")
    return replace(side, results=replace(side.results, frame=frame), measures=known)


def _weighted(cases: pl.DataFrame, name: str) -> float | None:
    known = cases.drop_nulls(name)
    return mean(known[name].to_list(), weights_of(known))


def _known(values: pl.Series) -> Sequence[float]:
    return values.drop_nulls().to_list()


def _sum(values: pl.Series) -> Any:
    """Return the sum of what is known, of the kind of its values; None where nothing is."""
    known = values.drop_nulls()
    return None if known.is_empty() else known.sum()
