"""The view `first_verdicts`: current verdicts with what counts in rates, the first graded answer of each plan.

What was executed again because it did not pass has a newer answer only because the first one failed: rates over the
newest answers would rise with every try. While the first one has no grade, the plan has none.
"""

from __future__ import annotations

FIRST_ANSWERS = """
    SELECT verdict_id, bool_or(execution_id = retry_of AND coalesce(status, 'error') = 'error') AS unknown,
           first(status ORDER BY started_at, execution_id) FILTER (status <> 'error') AS status,
           first(score ORDER BY started_at, execution_id) FILTER (status <> 'error') AS score
    FROM (
        SELECT r.verdict_id, e.retry_of, o.execution_id, o.started_at, v.status, v.score, row_number() OVER (
            PARTITION BY r.verdict_id, o.execution_id ORDER BY v.decided_at DESC, v.verdict_id DESC) AS newest
        FROM (SELECT * FROM target_executions WHERE retry_of IS NOT NULL) e
        JOIN verdicts r ON r.execution_id = e.execution_id
        JOIN target_executions o ON coalesce(o.retry_of, o.execution_id) = e.retry_of AND o.started_at < e.started_at
        LEFT JOIN verdicts v ON v.execution_id = o.execution_id AND v.decision_key = r.decision_key)
    WHERE newest = 1 GROUP BY verdict_id"""
"""For each verdict of what was executed again: status and score of the first graded answer, or that it is unknown."""
FIRST_STATUS = "CASE WHEN f.unknown THEN 'error' ELSE coalesce(f.status, v.status) END"
FIRST_SCORE = "CASE WHEN f.unknown THEN NULL WHEN f.status IS NULL THEN v.score ELSE f.score END"
FIRST_VERDICTS = f"""
    SELECT v.* REPLACE ({FIRST_STATUS} AS status, {FIRST_SCORE} AS score)
    FROM current_verdicts v LEFT JOIN ({FIRST_ANSWERS}) f ON f.verdict_id = v.verdict_id"""
