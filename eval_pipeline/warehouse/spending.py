"""What sweeps of a name have cost."""

from __future__ import annotations

from datetime import datetime

from eval_pipeline.warehouse.store import Warehouse


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
