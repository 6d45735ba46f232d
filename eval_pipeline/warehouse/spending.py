"""What sweeps have cost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from eval_pipeline.warehouse.store import Warehouse


@dataclass(frozen=True, slots=True)
class Spent:
    """What is known to be spent: USD (grading included), attempts of targets, tokens of reports."""

    usd: float = 0.0
    attempts: int = 0
    tokens: int = 0


def spent_by(warehouse: Warehouse, sweep_id: str) -> Spent:
    """Return what is known to be spent by a sweep so far; unknown amounts count as nothing."""
    frame = warehouse.frame(
        """WITH gradings AS (
               SELECT max(grading_cost_usd) AS cost_usd FROM evaluator_scores WHERE sweep_id = $1
               GROUP BY execution_id, coalesce(score_key, spec_key))
           SELECT coalesce(sum(r.cost_usd), 0) + coalesce((SELECT sum(cost_usd) FROM gradings), 0) AS usd,
                  coalesce(sum(e.attempt_count), 0)::BIGINT AS attempts,
                  coalesce(sum(r.total_tokens), 0)::BIGINT AS tokens
           FROM target_executions e LEFT JOIN session_reports r USING (execution_id) WHERE e.sweep_id = $1""",
        [sweep_id],
    )
    return Spent(**frame.row(0, named=True))


def spent_since(warehouse: Warehouse, name: str, since: datetime) -> float:
    """Return the known cost (USD) of what sweeps of a name executed and graded since a time; unknown costs count as
    nothing."""
    if not warehouse.exists():
        return 0.0
    frame = warehouse.frame(
        """WITH named AS (SELECT sweep_id FROM sweeps WHERE name = $1),
                gradings AS (
                    SELECT max(grading_cost_usd) AS cost_usd FROM evaluator_scores SEMI JOIN named USING (sweep_id)
                    WHERE scored_at >= $2::TIMESTAMPTZ GROUP BY execution_id, coalesce(score_key, spec_key))
           SELECT coalesce((SELECT sum(r.cost_usd) FROM session_reports r
                            JOIN target_executions e USING (execution_id) SEMI JOIN named USING (sweep_id)
                            WHERE e.finished_at >= $2::TIMESTAMPTZ), 0)
                + coalesce((SELECT sum(cost_usd) FROM gradings), 0) AS cost_usd""",
        [name, since],
    )
    return float(frame["cost_usd"][0])
