"""Input of comparisons and trends: named results, one row per plan, graded or not.

The source of the rows (a sweep, a board, a result file) is not part of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

RESULT_COLUMNS = {
    "suite": pl.String, "runner": pl.String, "case_id": pl.String, "repetition": pl.Int32, "status": pl.String,
    "score": pl.Float64, "content": pl.String, "cluster": pl.String,
}  # fmt: skip
"""`status` as in `verdicts`; `content` is a hash of what the case is, None where the source has none. Cases of one
`cluster` have something in common that makes answers alike; None: nothing."""
ATTEMPT = "attempt"
"""Column of results that have every graded answer to each plan: 1 is the first, greater ones were tried again."""
EVALUATOR = "evaluator"
"""Column of results that have a row for each evaluator that scored an answer."""

WEIGHT = "weight"
"""Column of results whose cases count differently in rates and means; null: as much as an average one."""

CASE = ("suite", "case_id")
RUNNER_CASE = ("suite", "runner", "case_id")


@dataclass(frozen=True, slots=True)
class Results:
    """A named set of results: `frame` has RESULT_COLUMNS; `at` is the start of its sweep; None when unknown."""

    name: str
    frame: pl.DataFrame
    at: datetime | None = None

    @property
    def runners(self) -> list[str]:
        """The runners of the results, sorted."""
        return self.frame["runner"].unique().sort().to_list()


def by_case(results: pl.DataFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    """Return one row per case (and runner, with the runner among `keys`) over its graded repetitions.

    Columns: keys, score (mean), pass_rate, graded, repetitions, content, cluster, and weight where there are. Score and
    rate are null where nothing was graded: unknown, never 0.
    """
    graded = pl.col("status") != "error"
    passed = pl.col("status").is_in(["passed", "expected-failed"])
    ordered = results.sort(*keys, "repetition")  # float sums depend on the order of rows: sorted rows give equal bytes
    return ordered.group_by(keys, maintain_order=True).agg(
        score=pl.col("score").filter(graded).mean(),
        pass_rate=passed.filter(graded).cast(pl.Float64).mean(),
        graded=graded.sum().cast(pl.Int64),
        repetitions=pl.len().cast(pl.Int64),
        content=pl.col("content").last(),
        cluster=pl.col("cluster").last(),
        **({WEIGHT: pl.col(WEIGHT).last()} if WEIGHT in results.columns else {}),
    )


def weights_of(cases: pl.DataFrame) -> list[float] | None:
    """Return how much each row counts; None where all count the same."""
    if WEIGHT not in cases.columns or cases[WEIGHT].n_unique() < 2:
        return None
    weights: list[float] = cases[WEIGHT].fill_null(1.0).to_list()
    return weights


def clusters_of(cases: pl.DataFrame) -> list[tuple[Any, ...]] | None:
    """Return what each row belongs to: its cluster, else its case; None where every row is a case of its own."""
    if "cluster" in cases.columns:
        return cases.select(
            "suite", pl.col("cluster").is_null().alias("alone"), pl.coalesce("cluster", "case_id")
        ).rows()
    return cases.select(CASE).rows() if "runner" in cases.columns else None
