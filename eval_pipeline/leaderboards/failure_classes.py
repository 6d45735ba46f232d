"""Verdicts → failure classes: class × runner × suite with counts, shares and examples, summarized with Polars."""

from __future__ import annotations

import polars as pl

from eval_pipeline.failures import failure_class
from eval_pipeline.leaderboards.standings import VERDICT_COLUMNS

EXAMPLES = 5
_READ = ("suite", "suite_revision", "runner", "case_id", "repetition", "status", "failure_class", "reason")
FAILURE_COLUMNS = {name: VERDICT_COLUMNS[name] for name in _READ}
"""The part of a verdict that failure classes are computed from."""


def summarize_failures(verdicts: pl.DataFrame) -> pl.DataFrame:
    """Return one row per suite, runner and failure class, most frequent first.

    Expected failures are left out: they need no action. `verdicts` has FAILURE_COLUMNS; `share`
    is the class's part of the executed plans. The result has the columns of the table `failure_classes`, without
    computed_at.
    """
    pair = ["suite", "runner", "suite_revision"]
    executed = verdicts.group_by(pair).agg(executed=pl.len())
    counted = (
        verdicts.filter(pl.col("failure_class").is_not_null() & (pl.col("status") != "expected-failed"))
        .sort("case_id", "repetition")
        .group_by([*pair, "failure_class"], maintain_order=True)
        .agg(
            count=pl.len().cast(pl.Int64),
            examples=pl.col("case_id").unique(maintain_order=True).head(EXAMPLES),
            example_reason=pl.col("reason").first(),
        )
        .join(executed, on=pair)
    )
    known = {id_: failure_class(id_) for id_ in counted["failure_class"].unique()}
    return (
        counted.with_columns(
            share=pl.col("count") / pl.col("executed"),
            label=pl.col("failure_class").replace_strict(
                {id_: each.label for id_, each in known.items()}, default=None, return_dtype=pl.String
            ),
            origin=pl.col("failure_class").replace_strict(
                {id_: each.origin.value for id_, each in known.items()}, default=None, return_dtype=pl.String
            ),
        )
        .drop("executed")
        .sort(["suite", "runner", "count", "failure_class"], descending=[False, False, True, False])
    )
