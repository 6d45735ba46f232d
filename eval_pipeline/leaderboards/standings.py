"""Verdicts → standings. Rates and means are over graded plans only; coverage and the bounds of the rate account
for the ungraded ones."""

from __future__ import annotations

import polars as pl

from eval_pipeline.statistics.intervals import mean_interval, wilson_high, wilson_low

VERDICT_COLUMNS = {
    "suite": pl.String, "suite_revision": pl.String, "runner": pl.String, "runner_revision": pl.String,
    "case_id": pl.String, "repetition": pl.Int32, "status": pl.String, "score": pl.Float64, "duration_ms": pl.Float64,
    "input_tokens": pl.Int64, "output_tokens": pl.Int64, "cost_usd": pl.Float64, "failure_class": pl.String,
    "reason": pl.String, "executed_at": pl.Datetime,
}  # fmt: skip
RANKED_COLUMNS = {name: type_ for name, type_ in VERDICT_COLUMNS.items() if name not in ("failure_class", "reason")}
"""The part of a verdict that standings are computed from."""
PAIR_COLUMNS = {"suite": pl.String, "runner": pl.String, "suite_plans": pl.Int64}

OVERALL = "(all)"
_ROUNDING = 9
_PAIR = ("suite", "suite_revision", "runner", "runner_revision")


def rank(verdicts: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Return standings per suite and overall, best first.

    `verdicts`: one row per executed plan (RANKED_COLUMNS); `pairs`: how many plans each suite × runner has
    (PAIR_COLUMNS). One suite revision per suite. The result has the columns of the table `leaderboards`, without
    board_id, computed_at and sweep_id.
    """
    # Codes in place of names and hashes: grouping by texts copies them, several times the size of the verdicts.
    coded = verdicts.with_columns(pl.col(_PAIR).cast(pl.Categorical))
    ordered = coded.sort("suite", "runner", "case_id", "repetition")  # float sums depend on the order of rows
    per_suite = _with_ranks(_standings(ordered, pairs), "suite")
    return pl.concat([per_suite, _with_ranks(_overall(per_suite), None)], how="diagonal_relaxed")


def _standings(verdicts: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    counted = verdicts.group_by(_PAIR, maintain_order=True).agg(
        graded=(pl.col("status") != "error").sum().cast(pl.Int64),
        passed=pl.col("status").is_in(["passed", "expected-failed"]).sum().cast(pl.Int64),
        expected_failed=(pl.col("status") == "expected-failed").sum().cast(pl.Int64),
        unexpected_passed=(pl.col("status") == "unexpected-passed").sum().cast(pl.Int64),
        errored=(pl.col("status") == "error").sum().cast(pl.Int64),
        executed=pl.len().cast(pl.Int64),
        latency_p50_ms=pl.col("duration_ms").filter(pl.col("status") != "error").quantile(0.5, "linear"),
        latency_p95_ms=pl.col("duration_ms").filter(pl.col("status") != "error").quantile(0.95, "linear"),
        input_tokens=_known_sum("input_tokens"),
        output_tokens=_known_sum("output_tokens"),
        cost_usd=_known_sum("cost_usd"),
        cost_known=pl.col("cost_usd").count().cast(pl.Int64),
        oldest_answer_at=pl.col("executed_at").min(),
        newest_answer_at=pl.col("executed_at").max(),
    )
    sized = _with_names(counted).join(pairs, on=["suite", "runner"], how="left")
    joined = sized.join(_with_names(_means(verdicts)), on=list(_PAIR), how="left")
    planned = pl.max_horizontal("suite_plans", "executed").alias("planned")
    return _with_rates(joined.with_columns(planned)).with_columns(
        scope=pl.lit("suite"), suites=pl.lit(1, dtype=pl.Int64)
    ).drop("executed", "suite_plans")  # fmt: skip


def _with_names(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with names in place of their codes."""
    return frame.with_columns(pl.col(_PAIR).cast(pl.String))


def _known_sum(column: str) -> pl.Expr:
    """Return the sum of the known values; null, not 0, without any."""
    return pl.when(pl.col(column).count() > 0).then(pl.col(column).sum()).alias(column)


def _means(verdicts: pl.DataFrame) -> pl.DataFrame:
    """Return mean score and interval; repetitions are averaged first, since cases are the independent sample."""
    graded = verdicts.filter(pl.col("status") != "error")
    by_case = graded.group_by(*_PAIR, "case_id", maintain_order=True).agg(pl.col("score").mean())
    means = by_case.group_by(_PAIR, maintain_order=True).agg(
        mean_score=pl.col("score").mean(), deviation=pl.col("score").std(), cases=pl.len()
    )
    intervals = [
        mean_interval(mean, deviation, count) or (None, None)
        for mean, deviation, count in means.select("mean_score", "deviation", "cases").iter_rows()
    ]
    return means.drop("deviation", "cases").with_columns(
        pl.Series("mean_score_low", [low for low, _ in intervals], dtype=pl.Float64),
        pl.Series("mean_score_high", [high for _, high in intervals], dtype=pl.Float64),
    )


def _with_rates(frame: pl.DataFrame) -> pl.DataFrame:
    graded, passed, planned = pl.col("graded"), pl.col("passed"), pl.col("planned")
    return frame.with_columns(
        failed=graded - passed,
        pass_rate=pl.when(graded > 0).then(passed / graded),
        pass_rate_low=wilson_low(passed, graded),
        pass_rate_high=wilson_high(passed, graded),
        pass_rate_worst=pl.when(planned > 0).then(passed / planned),
        pass_rate_best=pl.when(planned > 0).then((planned - (graded - passed)) / planned),
        coverage=pl.when(planned > 0).then(graded / planned),
    )


def _overall(per_suite: pl.DataFrame) -> pl.DataFrame:
    """Return one row per runner over its suites, equally weighted.

    The intervals take the suites as independent: the distances from each suite's value to the ends of its interval are
    added in quadrature (Zou and Donner 2008, Statistics in Medicine 27), which for one suite is its own interval.
    """
    sums = (
        "planned",
        "graded",
        "passed",
        "failed",
        "expected_failed",
        "unexpected_passed",
        "errored",
        "suites",
        "cost_known",
    )
    return per_suite.group_by("runner", maintain_order=True).agg(
        *(pl.col(name).sum() for name in sums),
        *(_known_sum(name) for name in ("input_tokens", "output_tokens", "cost_usd")),
        pass_rate=pl.col("pass_rate").mean(),
        pass_rate_low=_low_of_mean("pass_rate"),
        pass_rate_high=_high_of_mean("pass_rate"),
        pass_rate_worst=pl.col("pass_rate_worst").mean(),
        pass_rate_best=pl.col("pass_rate_best").mean(),
        mean_score=pl.col("mean_score").mean(),
        mean_score_low=_low_of_mean("mean_score"),
        mean_score_high=_high_of_mean("mean_score"),
        coverage=pl.col("graded").sum() / pl.col("planned").sum(),
        oldest_answer_at=pl.col("oldest_answer_at").min(),
        newest_answer_at=pl.col("newest_answer_at").max(),
    ).with_columns(scope=pl.lit("overall"), suite=pl.lit(OVERALL))  # fmt: skip


def _low_of_mean(name: str) -> pl.Expr:
    return (pl.col(name).mean() - _quadrature(name, f"{name}_low")).clip(0.0, 1.0)


def _high_of_mean(name: str) -> pl.Expr:
    return (pl.col(name).mean() + _quadrature(name, f"{name}_high")).clip(0.0, 1.0)


def _quadrature(name: str, end: str) -> pl.Expr:
    """Return the combined distances of values to one end of their intervals; null when one has no interval."""
    known = (pl.col(name).count() > 0) & (pl.col(name).count() == pl.col(end).count())
    return pl.when(known).then(((pl.col(end) - pl.col(name)) ** 2).sum().sqrt() / pl.col(name).count())


def _with_ranks(frame: pl.DataFrame, within: str | None) -> pl.DataFrame:
    """Add ranks by pass rate, then mean score; ties share a rank, runners without a rate come last, unranked."""
    groups = [within] if within else [pl.lit(0)]
    order = pl.struct(-pl.col("pass_rate").round(_ROUNDING), -pl.col("mean_score").fill_null(-1.0).round(_ROUNDING))
    known = pl.col("pass_rate").is_not_null()
    ranked = frame.with_columns(rank=pl.when(known).then(order.rank("min").over(known, *groups)).cast(pl.Int32))
    best_low = pl.col("pass_rate_low").filter(pl.col("rank") == 1).min().over(groups)
    tied = (pl.col("pass_rate_high") >= best_low).alias("tied_with_best")
    return ranked.with_columns(tied).sort([*([within] if within else []), "rank", "runner"], nulls_last=True)
