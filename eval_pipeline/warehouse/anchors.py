"""Anchors: stored answers that graders grade again and again, and what became of their grades."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from eval_pipeline.executions.model import Execution
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.page_queries import rows_of_view
from eval_pipeline.warehouse.store import Connection, Warehouse
from eval_pipeline.warehouse.stored_pairs import load_executions

_NAMES = "e.suite, e.runner, e.case_id, e.repetition, e.execution_id, e.sweep_id"
_FROZEN = f"""
    WITH chosen AS (
        SELECT DISTINCT execution_id, frozen_at FROM anchor_scores WHERE sweep_name = $1
        QUALIFY frozen_at = max(frozen_at) OVER (PARTITION BY suite))
    SELECT {_NAMES}, c.frozen_at FROM chosen c JOIN target_executions e USING (execution_id)
    ORDER BY e.suite, e.case_id, e.runner, e.repetition, e.execution_id"""
_CANDIDATES = f"""
    SELECT {_NAMES} FROM current_verdicts v JOIN target_executions e USING (execution_id)
    WHERE v.status <> 'error' AND (len($1::VARCHAR[]) = 0 OR list_contains($1::VARCHAR[], v.case_id))
      AND (v.suite, v.runner) IN (SELECT (unnest($2::VARCHAR[]), unnest($3::VARCHAR[])))
    ORDER BY md5(e.execution_id)"""
_HAS_GRADES = (
    "SELECT 1 FROM duckdb_tables() WHERE table_name = 'anchor_scores'",
    "SELECT 1 FROM anchor_scores LIMIT 1",
)
"""Both have rows where anchors were graded; the table is not there in results of an older version."""
_BASES = """
    SELECT execution_id, evaluator, question_key, frozen_at, count(value) FROM anchor_scores
    WHERE sweep_name = $1 AND base GROUP BY execution_id, evaluator, question_key, frozen_at"""

_NEXT = """
    WITH newest AS (SELECT * FROM anchor_scores WHERE sweep_name = $1 QUALIFY judging_id = max(judging_id) OVER ())
    SELECT count(DISTINCT (execution_id, evaluator)) AS grades,
           CASE WHEN count(cost_usd) = count(*) THEN avg(cost_usd) END AS mean_usd FROM newest"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A stored answer that is graded again: `sweep_id` executed it; `frozen_at` is when it was chosen."""

    pair: PairKey
    case_id: str
    repetition: int
    execution_id: str
    sweep_id: str
    frozen_at: datetime


def frozen_anchors(warehouse: Warehouse, sweep_name: str) -> list[Anchor]:
    """Return the anchors of a sweep of the project file, those of each suite as they were chosen last."""
    return [_anchor(*row) for row in warehouse.frame(_FROZEN, [sweep_name]).iter_rows()]


def expected_grades(warehouse: Warehouse, sweep_name: str) -> tuple[int, float | None]:
    """Return how many grades the next grading of a sweep's anchors needs, as the last one, and what they cost (USD;
    None: unknown); 0 before the first."""
    ((grades, mean_usd),) = warehouse.frame(_NEXT, [sweep_name]).iter_rows() if warehouse.exists() else [(0, None)]
    return grades, None if mean_usd is None else grades * mean_usd


def pairs_beside(warehouse: Warehouse, suites: Collection[str]) -> list[PairKey]:
    """Return the pairs that have current results, but those of these suites."""
    query = "SELECT suite, runner FROM current_pairs WHERE NOT list_contains($1::VARCHAR[], suite) ORDER BY ALL"
    return [PairKey(*row) for row in warehouse.frame(query, [list(suites)]).iter_rows()]


def candidates(warehouse: Warehouse, pairs: Sequence[PairKey], cases: Sequence[str], now: datetime) -> Iterator[Anchor]:
    """Yield the current graded answers of these pairs, of these cases where any are named, in an order that does not
    depend on what they are."""
    names = [[pair.suite for pair in pairs], [pair.runner for pair in pairs]]
    for row in warehouse.frame(_CANDIDATES, [list(cases), *names]).iter_rows():
        yield _anchor(*[*row, now])


def _anchor(
    suite: str, runner: str, case_id: str, repetition: int, execution_id: str, sweep_id: str, frozen_at: datetime
) -> Anchor:
    return Anchor(
        pair=PairKey(suite, runner), case_id=case_id, repetition=repetition, execution_id=execution_id,
        sweep_id=sweep_id, frozen_at=frozen_at,
    )  # fmt: skip


def base_grades(warehouse: Warehouse, sweep_name: str) -> dict[tuple[Any, ...], int]:
    """Return how many base grades are stored by execution, evaluator, question key and time of the choice."""
    return {tuple(key): int(count) for *key, count in warehouse.frame(_BASES, [sweep_name]).iter_rows()}


def reports_of(warehouse: Warehouse, anchors: Collection[Anchor]) -> dict[str, tuple[Execution, SessionReport]]:
    """Return the stored execution and report of each anchor that has both, by execution id."""
    stored = load_executions(warehouse, [anchor.execution_id for anchor in anchors])
    return {id_: (execution, report) for id_, (execution, report, _) in stored.items() if report is not None}


def store_anchor_scores(warehouse: Warehouse, rows: Iterable[Row]) -> None:
    """Store grades of anchors. Readers have them when the warehouse is published."""
    warehouse.write("anchor_scores", rows)


def drift_rows(connection: Connection, sweep_name: str | None = None) -> list[Row]:
    """Return the gradings of anchors, oldest first; none in results of an older version."""
    if not all(connection.execute(query).fetchall() for query in _HAS_GRADES):
        return []  # the view takes ten times as long, where nothing is graded, too
    rows = rows_of_view(connection, "judge_drift")
    return [row for row in rows if sweep_name in (None, row["sweep_name"])]


def flagged(rows: Iterable[Row]) -> list[Row]:
    """Return the newest gradings that are beyond their control limits, or so incomplete that there are no limits."""
    return [row for row in rows if row["newest"] and (row["beyond"] or (row["beyond"] is None and row["left_out"]))]
