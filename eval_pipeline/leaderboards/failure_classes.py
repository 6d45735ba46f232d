"""Counts of failure classes → what people read: labels, origins, shares, most frequent first."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from eval_pipeline.failures import failure_class

EXAMPLES = 5


def describe_failures(counts: pl.DataFrame) -> pl.DataFrame:
    """Return one row per suite, runner and failure class, most frequent first.

    `counts` are those of `queries.failure_counts`; `share` is the class's part of the executed plans. The result has
    the columns of the table `failure_classes`, without computed_at. Label and origin are those of the verdicts, else
    those of the class's id.
    """
    known = {id_: failure_class(id_) for id_ in counts["failure_class"].unique()}
    return (
        counts.with_columns(
            share=pl.col("count") / pl.col("executed"),
            label=pl.coalesce("label", _known({id_: each.label for id_, each in known.items()})),
            origin=pl.coalesce("origin", _known({id_: each.origin.value for id_, each in known.items()})),
        )
        .drop("executed")
        .sort(["suite", "runner", "count", "failure_class"], descending=[False, False, True, False])
    )


def _known(values: Mapping[str, str]) -> pl.Expr:
    return pl.col("failure_class").replace_strict(values, default=None, return_dtype=pl.String)
