"""Counting the answers that an older version stored: the statements of a migration."""

from __future__ import annotations

from eval_pipeline.warehouse.answer_counts import insert_statement

_RETRIES = """
    UPDATE target_executions SET retry_of = g.first_id FROM (
        SELECT execution_id, first_value(execution_id) OVER (
                   PARTITION BY suite, runner, key, series ORDER BY started_at, execution_id) AS first_id
        FROM (
            SELECT e.execution_id, e.suite, e.runner, e.key, e.started_at,
                   sum(if(s.refresh = 'failed', 0, 1)) OVER (
                       PARTITION BY e.suite, e.runner, e.key ORDER BY e.started_at, e.execution_id) AS series
            FROM target_executions e LEFT JOIN sweeps s USING (sweep_id))) g
    WHERE g.execution_id = target_executions.execution_id AND g.first_id <> g.execution_id"""
_ID = "md5(concat_ws(chr(31), suite, runner, suite_revision, runner_revision))"
_PAIRS = f"""
    CREATE OR REPLACE TEMP TABLE planned_pairs AS
    SELECT {_ID} AS statistics_id, NULL::VARCHAR AS plan_revision, suite, runner, suite_revision, runner_revision,
           NULL::VARCHAR AS panel_revision, NULL::VARCHAR AS cases_revision,
           coalesce(invalid_cases, 0) * coalesce(repetitions, 1) AS broken, suite_plans, repetitions
    FROM sweep_pairs
    QUALIFY row_number() OVER (
        PARTITION BY suite, runner, suite_revision, runner_revision ORDER BY finished_at DESC, sweep_id DESC) = 1"""
_CASES = """
    CREATE OR REPLACE TEMP TABLE planned_cases AS
    WITH decided AS (
        SELECT p.statistics_id, v.case_id, arg_max(v.decision_key, v.decided_at) AS decision_key,
               count(DISTINCT v.repetition) AS plans
        FROM planned_pairs p JOIN verdicts v USING (suite, runner, suite_revision, runner_revision)
        GROUP BY p.statistics_id, v.case_id),
    known AS (SELECT statistics_id, sum(plans) AS plans FROM decided GROUP BY statistics_id),
    missing AS (
        SELECT p.statistics_id, c.case_id, '' AS decision_key
        FROM planned_pairs p JOIN cases c USING (suite, suite_revision) LEFT JOIN known k USING (statistics_id)
        WHERE coalesce(k.plans, 0) < p.suite_plans
          AND (p.statistics_id, c.case_id) NOT IN (SELECT (statistics_id, case_id) FROM decided)),
    listed AS (
        SELECT statistics_id, case_id, decision_key FROM decided UNION ALL SELECT * FROM missing)
    SELECT l.statistics_id, row_number() OVER (PARTITION BY l.statistics_id ORDER BY c.position, l.case_id) AS position,
           l.case_id, coalesce(p.repetitions, 1)::BIGINT AS planned, 1::BIGINT AS least, l.decision_key,
           NULL::VARCHAR AS cluster, NULL::DOUBLE AS weight
    FROM listed l JOIN planned_pairs p USING (statistics_id)
    LEFT JOIN cases c ON c.suite = p.suite AND c.suite_revision = p.suite_revision AND c.case_id = l.case_id"""
_REVISIONS = """
    CREATE OR REPLACE TEMP TABLE planned_pairs AS
    SELECT p.* EXCLUDE (panel_revision, cases_revision, suite_plans, repetitions), r.panel_revision, r.cases_revision
    FROM planned_pairs p JOIN (
        SELECT statistics_id,
               md5(string_agg(DISTINCT decision_key, chr(31) ORDER BY decision_key)) AS panel_revision,
               md5(string_agg(case_id, chr(31) ORDER BY case_id)) AS cases_revision
        FROM planned_cases GROUP BY statistics_id) r USING (statistics_id)"""
_NAMED = f"""
    UPDATE sweep_pairs SET statistics_id = {_ID}
    WHERE statistics_id IS NULL AND {_ID} IN (SELECT statistics_id FROM pair_statistics)"""

COUNT_STORED = (
    _RETRIES,
    _PAIRS,
    _CASES,
    _REVISIONS,
    insert_statement(),
    _NAMED,
    "DROP TABLE planned_cases",
    "DROP TABLE planned_pairs",
)
"""An older version stored neither what a pair has planned, nor why an execution was repeated. Planned are the cases of
its verdicts, and where these are fewer plans than the suite had, all cases of the suite; what a sweep with `--refresh
failed` executed counts beside earlier answers."""
