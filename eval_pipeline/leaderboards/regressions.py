"""Two measured sides → a verdict by fixed rules, the change of each case, and the change of each metric of a judge.

The rules compare means over cases and ignore chance; `gates.py` decides by intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from eval_pipeline.leaderboards.results import by_case
from eval_pipeline.leaderboards.totals import GRADED, Measured, Totals, paired, totals

STATUSES = ("regression", "improvement", "unchanged", "error")
CASE_SCORE_CHANGE = 0.05
"""The greatest change of a case's score that is no change of the case."""
_DIGITS = 4
_SCORE_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionRules:
    """The greatest losses that are no regression: of the pass rate, of the mean score, and a share of the mean time."""

    max_pass_rate_drop: float = 0.0
    max_score_drop: float = 0.05
    max_latency_increase: float = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChange:
    """The change of one metric over the cases that both sides have it for.

    `baseline` and `candidate` are means over cases of the points (0 to 5), or of the share of yes for a binary metric.
    """

    metric: str
    binary: bool
    cases: int
    baseline: float | None
    candidate: float | None
    delta: float | None
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """A candidate against a baseline by fixed rules, on the cases that both graded.

    `deltas` are candidate - baseline by name, None where a side does not know; `counts` how many cases have each
    status. `cases` has one row per case of both sides: keys, status, score_delta. The change of money is known only
    where that of every result is.
    """

    baseline: Totals
    candidate: Totals
    rules: RegressionRules
    deltas: Mapping[str, float | None]
    reasons: tuple[str, ...]
    counts: Mapping[str, int]
    cases: pl.DataFrame
    metrics: tuple[MetricChange, ...]

    @property
    def detected(self) -> bool:
        """Whether any rule is broken."""
        return bool(self.reasons)


_DELTAS = ("pass_rate", "mean_score", "latency_mean_ms", "latency_p95_ms", "total_cost_usd")


_DEFAULT_RULES = RegressionRules()


def regression(
    baseline: Measured,
    candidate: Measured,
    rules: RegressionRules = _DEFAULT_RULES,
    *,
    allow_changed: bool = False,
) -> Regression:
    """Compare two sides by fixed rules, over all repetitions of the cases that both graded; a case whose content
    differs is another case, unless `allow_changed`."""
    before, after = map(totals, paired(baseline, candidate, allow_changed=allow_changed))
    cases = case_changes(baseline, candidate)
    found = dict(cases["status"].value_counts().iter_rows())
    return Regression(
        baseline=before,
        candidate=after,
        rules=rules,
        deltas={name: _delta(_whole(before, name), _whole(after, name)) for name in _DELTAS},
        reasons=tuple(_reasons(before, after, rules)),
        counts={status: found.get(status, 0) for status in STATUSES},
        cases=cases,
        metrics=tuple(metric_changes(baseline, candidate)),
    )


def _whole(side: Totals, name: str) -> float | None:
    """Return a total of a side; a sum of money that lacks a part is none."""
    value: float | None = getattr(side, name)
    return None if name == "total_cost_usd" and side.cost_unknown else value


def _delta(before: float | None, after: float | None, digits: int = _DIGITS) -> float | None:
    return None if before is None or after is None else round(after - before, digits)


def _reasons(before: Totals, after: Totals, rules: RegressionRules) -> Iterator[str]:
    """Yield each broken rule. A drop of exactly its limit breaks none."""
    rate = _delta(before.pass_rate, after.pass_rate)
    if rate is not None and -rate > rules.max_pass_rate_drop:
        yield (
            f"pass rate fell by {-rate:g}, from {before.pass_rate:.4g} to {after.pass_rate:.4g} "
            f"(at most {rules.max_pass_rate_drop:g})"
        )
    score = _delta(before.mean_score, after.mean_score, _SCORE_DIGITS)
    if score is not None and -score > rules.max_score_drop:
        yield (
            f"mean score fell by {-score:g}, from {before.mean_score:.4g} to {after.mean_score:.4g} "
            f"(at most {rules.max_score_drop:g})"
        )
    old, new = before.latency_mean_ms, after.latency_mean_ms
    if old is not None and new is not None and old > 0 and (new - old) / old > rules.max_latency_increase:
        yield (
            f"mean latency rose by {100 * (new - old) / old:.5g} %, from {old:.6g} to {new:.6g} ms "
            f"(at most {100 * rules.max_latency_increase:g} %)"
        )


def case_changes(baseline: Measured, candidate: Measured) -> pl.DataFrame:
    """Return the status of each case that both sides have: `error` where a repetition of either side has no grade,
    then by the pass rate, then by a change of the score beyond CASE_SCORE_CHANGE."""
    keys = baseline.keys if len(baseline.keys) > len(candidate.keys) else candidate.keys
    joined = _cases(baseline, keys).join(_cases(candidate, keys), on=list(keys), suffix="_candidate")
    rate = pl.col("pass_rate_candidate") - pl.col("pass_rate")
    score = (pl.col("score_candidate") - pl.col("score")).round(_SCORE_DIGITS)
    status = (
        pl.when(pl.col("errored") | pl.col("errored_candidate")).then(pl.lit("error"))
        .when(rate < 0).then(pl.lit("regression"))
        .when(rate > 0).then(pl.lit("improvement"))
        .when(score < -CASE_SCORE_CHANGE).then(pl.lit("regression"))
        .when(score > CASE_SCORE_CHANGE).then(pl.lit("improvement"))
        .otherwise(pl.lit("unchanged"))
    )  # fmt: skip
    return joined.select(*keys, status.alias("status"), score.alias("score_delta")).sort(*keys)


def _cases(side: Measured, keys: tuple[str, ...]) -> pl.DataFrame:
    errors = side.results.frame.group_by(keys).agg(errored=(~GRADED).any())
    return by_case(side.results.frame, keys).join(errors, on=list(keys))


def metric_changes(baseline: Measured, candidate: Measured) -> Iterator[MetricChange]:
    """Yield the change of each metric; cases where a side lacks the metric do not count."""
    names = sorted({*baseline.metrics["metric"], *candidate.metrics["metric"]})
    for name in names:
        yield _metric_change(name, _of_metric(baseline, name), _of_metric(candidate, name))


def _of_metric(side: Measured, name: str) -> pl.DataFrame:
    """Return the mean of a metric for each case, and whether it is one that is met or not."""
    value = pl.coalesce("points", pl.col("passed").cast(pl.Float64))
    rows = side.metrics.filter(pl.col("metric") == name)
    return rows.group_by("suite", "case_id").agg(value=value.mean(), binary=pl.col("passed").is_not_null().any())


def _metric_change(name: str, before: pl.DataFrame, after: pl.DataFrame) -> MetricChange:
    paired = before.join(after, on=["suite", "case_id"], suffix="_candidate").drop_nulls(["value", "value_candidate"])
    binary = bool(pl.concat([before["binary"], after["binary"]]).any())
    old, new = (_mean(frame[column]) for frame, column in _columns(before, after, paired))
    delta = _delta(old, new) if paired.height else None
    return MetricChange(
        metric=name,
        binary=binary,
        cases=paired.height,
        baseline=old,
        candidate=new,
        delta=delta,
        status="unchanged" if not delta else "regression" if delta < 0 else "improvement",
    )


def _columns(before: pl.DataFrame, after: pl.DataFrame, paired: pl.DataFrame) -> Sequence[tuple[pl.DataFrame, str]]:
    """Return where the means are taken: over the cases of both sides, else over those of either."""
    if paired.height:
        return (paired, "value"), (paired, "value_candidate")
    return (before, "value"), (after, "value")


def _mean(values: pl.Series) -> float | None:
    known = values.drop_nulls()
    return None if known.is_empty() else round(float(known.sum()) / len(known), _DIGITS)


def details_of(found: Regression) -> dict[str, Any]:
    """Return a regression as JSON values."""
    rows = found.cases.filter(pl.col("status") != "unchanged").sort("score_delta", nulls_last=True)
    return {
        "regression_detected": found.detected,
        "reasons": list(found.reasons),
        "rules": asdict(found.rules),
        "deltas": dict(found.deltas),
        "counts": dict(found.counts),
        "cases": rows.to_dicts(),
        "metrics": [asdict(change) for change in found.metrics],
        "baseline": asdict(found.baseline),
        "candidate": asdict(found.candidate),
    }
