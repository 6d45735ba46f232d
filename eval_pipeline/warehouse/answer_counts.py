"""The query that counts the answers of pairs by case, of what the temporary tables `planned_pairs` and
`planned_cases` list.

Of a plan that was executed again because it had not passed, the first answer is the one that counts in rates. While
that one has no grade (its grader failed when evaluators were edited), the plan is not graded: a later answer, which is
there only because the first did not pass, does not take its place.
"""

from __future__ import annotations

from eval_pipeline.failures import BUDGET_EXCEEDED, STOPPED
from eval_pipeline.warehouse.case_sums import OUTCOMES, TOTALS
from eval_pipeline.warehouse.tables import BY_NAME

_MEASURES = (
    "status, failure_class, score, duration_ms, input_tokens, output_tokens, cost_usd, grading_cost_usd, executed_at, "
    "incomplete"
)
_NEWEST = "ORDER BY v.decided_at DESC, v.verdict_id DESC"
STATISTICS = f"""
    WITH newest AS (
        SELECT p.statistics_id, v.case_id, v.repetition, v.execution_id, v.decision_key, {_MEASURES}
        FROM verdicts v JOIN planned_pairs p USING (suite, runner, suite_revision, runner_revision)
        QUALIFY row_number() OVER (PARTITION BY p.statistics_id, v.case_id, v.repetition {_NEWEST}) = 1),
    known AS (
        SELECT n.*, c.position, e.retry_of
        FROM newest n JOIN planned_cases c USING (statistics_id, case_id, decision_key)
        LEFT JOIN target_executions e USING (execution_id)),
    earlier AS (
        SELECT k.statistics_id, k.position, k.repetition, o.execution_id, coalesce(v.status, 'error') AS status,
               v.failure_class, v.score, v.duration_ms, v.input_tokens, v.output_tokens, v.cost_usd, v.grading_cost_usd,
               v.executed_at, v.incomplete,
               o.execution_id = k.retry_of AND coalesce(v.status, 'error') = 'error' AS unknown
        FROM known k
        JOIN target_executions o ON coalesce(o.retry_of, o.execution_id) = k.retry_of
                                AND o.execution_id <> k.execution_id
        LEFT JOIN verdicts v ON v.execution_id = o.execution_id AND v.decision_key = k.decision_key
        QUALIFY row_number() OVER (PARTITION BY k.statistics_id, o.execution_id {_NEWEST}) = 1),
    collected AS (
        SELECT *, bool_or(unknown) OVER (PARTITION BY statistics_id, position, repetition) AS unknown_first
        FROM (
            SELECT statistics_id, position, repetition, execution_id, {_MEASURES}, true AS current, false AS unknown
            FROM known
            UNION ALL BY NAME
            SELECT *, false AS current FROM earlier WHERE status <> 'error' OR unknown)),
    answers AS (
        SELECT * EXCLUDE (unknown, unknown_first), status <> 'error' AND NOT unknown_first AS counts,
               counts AND row_number() OVER (
                   PARTITION BY statistics_id, position, repetition
                   ORDER BY status = 'error', executed_at, execution_id) = 1 AS first
        FROM collected),
    by_case AS (
        SELECT statistics_id, position,
               count(DISTINCT repetition) FILTER (current) AS executed,
               count(DISTINCT repetition) FILTER (status <> 'error' OR coalesce(failure_class, '') NOT IN {{refused}})
                   AS carried_out,
               count(DISTINCT repetition) FILTER (counts) AS graded,
               count(*) FILTER (counts) AS answers,
               count(*) FILTER (first AND status IN ('passed', 'expected-failed')) AS passed,
               sum(score ORDER BY repetition) FILTER (first) AS score_sum,
               sum(score * score ORDER BY repetition) FILTER (first) AS score_squares
        FROM answers GROUP BY statistics_id, position),
    plans AS (
        SELECT c.statistics_id, c.position, c.case_id, coalesce(c.cluster, c.case_id) AS cluster, c.weight,
               c.decision_key,
               greatest(if(c.least < c.planned, c.least, c.planned), coalesce(b.executed, 0)) AS planned,
               greatest(c.least - coalesce(b.carried_out, 0), 0) AS missing,
               coalesce(b.executed, 0) - coalesce(b.graded, 0) AS errored,
               coalesce(b.graded, 0) AS graded, coalesce(b.answers, 0) AS answers, coalesce(b.passed, 0) AS passed,
               coalesce(b.score_sum, 0) AS score_sum, coalesce(b.score_squares, 0) AS score_squares
        FROM planned_cases c LEFT JOIN by_case b USING (statistics_id, position)),
    lists AS (
        SELECT statistics_id, sum(missing) = 0 AS complete, sum(missing)::BIGINT AS missing,
               sum(errored)::BIGINT AS errored,
               list(case_id ORDER BY position) AS cases, list(cluster ORDER BY position) AS clusters,
               list(left(decision_key, 16) ORDER BY position) AS decision_keys,
               list(planned::INTEGER ORDER BY position) AS planned, list(graded::INTEGER ORDER BY position) AS graded,
               list(answers::INTEGER ORDER BY position) AS answers, list(passed::INTEGER ORDER BY position) AS passed,
               list(score_sum ORDER BY position) AS score_sums, list(score_squares ORDER BY position) AS score_squares,
               CASE WHEN count(weight) > 0 THEN list(coalesce(weight, 1) ORDER BY position) END AS weights,
               {TOTALS} AS totals, {OUTCOMES} AS outcomes
        FROM plans GROUP BY statistics_id),
    totals AS (
        SELECT statistics_id,
               count(*) FILTER (first AND status = 'expected-failed') AS expected_failed,
               count(*) FILTER (first AND status = 'unexpected-passed') AS unexpected_passed,
               count(*) FILTER (first AND incomplete IS NOT NULL) AS incomplete,
               quantile_cont(duration_ms, 0.5) FILTER (status <> 'error') AS latency_p50_ms,
               quantile_cont(duration_ms, 0.95) FILTER (status <> 'error') AS latency_p95_ms,
               sum(input_tokens)::BIGINT AS input_tokens, sum(output_tokens)::BIGINT AS output_tokens,
               sum(cost_usd ORDER BY position, repetition, execution_id) AS cost_usd, count(cost_usd) AS cost_known,
               sum(grading_cost_usd ORDER BY position, repetition, execution_id) AS grading_cost_usd,
               min(executed_at) AS oldest_answer_at, max(executed_at) AS newest_answer_at
        FROM answers GROUP BY statistics_id)
    SELECT p.*, l.* EXCLUDE (statistics_id),
           t.* EXCLUDE (statistics_id, expected_failed, unexpected_passed, incomplete, cost_known),
           coalesce(t.expected_failed, 0) AS expected_failed, coalesce(t.unexpected_passed, 0) AS unexpected_passed,
           coalesce(t.incomplete, 0) AS incomplete, coalesce(t.cost_known, 0) AS cost_known
    FROM planned_pairs p JOIN lists l USING (statistics_id) LEFT JOIN totals t USING (statistics_id)"""
REFUSED = (BUDGET_EXCEEDED.id, STOPPED.id)
"""Failure classes of plans whose target was never called: they are still to be carried out."""


_TEXTS = ("cases", "clusters", "decision_keys")
_DERIVED = ("plans", "case_count", "texts_id", "counts_id", "clustered", "totals", "outcomes")
_COUNTED = [name for name in BY_NAME["pair_statistics"].column_names if name not in ("statistics_id", *_DERIVED)]
_SOURCES = {
    "plans": "(list_sum(planned) + broken)::BIGINT",
    "case_count": "len(cases)::BIGINT",
    "clustered": "clusters <> cases",
    "texts_id": f"md5(row({', '.join(_TEXTS)})::VARCHAR || coalesce(weights::VARCHAR, ''))",
    "counts_id": f"md5(row({', '.join(_COUNTED)})::VARCHAR)",
}
"""Columns that follow from the other ones, so that a board reads no list of a pair that did not change."""


def insert_statement() -> str:
    """Return the statement that counts and stores what `planned_pairs` and `planned_cases` list."""
    names = BY_NAME["pair_statistics"].column_names
    columns = ", ".join(f'"{name}"' for name in names)
    chosen = ", ".join(f"{_SOURCES[name]} AS {name}" if name in _SOURCES else f'"{name}"' for name in names)
    query = STATISTICS.format(refused=f"{REFUSED}")
    return f"INSERT INTO pair_statistics ({columns}) SELECT {chosen} FROM ({query})"
