"""The tokens of current answers, for snapshots; and the snapshots that are stored of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.store import Warehouse

METRICS = {
    "total_tokens": "r.input_tokens + r.output_tokens - coalesce(r.cached_input_tokens, 0)",
    "input_tokens": "r.input_tokens",
    "output_tokens": "r.output_tokens",
    "reasoning_tokens": "r.reasoning_tokens",
    "cache_tokens": "r.cached_input_tokens",
}
"""Token counts by name. The total is what is billed in full: input and output without what a cache provided."""
_ANSWERS = """
    SELECT v.case_id, v.repetition, v.status, r.model, {metric} AS tokens
    FROM current_verdicts v LEFT JOIN session_reports r USING (execution_id)
    WHERE v.suite = ? AND v.runner = ? ORDER BY v.case_id, v.repetition"""


class Answer(NamedTuple):
    """One current answer: its case, its verdict, the model that gave it and its tokens (None: not reported)."""

    case_id: str
    repetition: int
    status: str
    model: str | None
    tokens: float | None


def answers_of(warehouse: Warehouse, pair: PairKey, metric: str) -> Sequence[Answer]:
    """Return the current answers of a pair with a token count."""
    query = _ANSWERS.format(metric=METRICS[metric])
    return [Answer(*row) for row in warehouse.frame(query, [pair.suite, pair.runner]).rows()]


def store_snapshots(warehouse: Warehouse, rows: Iterable[Row]) -> None:
    """Store rows of the table `token_snapshots`."""
    warehouse.write("token_snapshots", rows)
