"""The table of what people say about grades, as data for `tables.py`, and the view of their agreement with graders."""

from __future__ import annotations

from eval_pipeline.statistics.agreement import kappa
from eval_pipeline.warehouse.columns import Column, Table
from eval_pipeline.warehouse.expressions import Sql

HUMAN_GRADES = Table(
    "human_grades",
    "What people say about verdicts and scores: rows are only added, the newest of a person counts.",
    ("grade_id",),
    (
        Column("grade_id", "VARCHAR", "Id of the grade"),
        Column("execution_id", "VARCHAR", "Id of the execution"),
        Column("suite", "VARCHAR", "Name of the suite"),
        Column("runner", "VARCHAR", "Name of the runner"),
        Column("case_id", "VARCHAR", "Id of the case within its suite"),
        Column("repetition", "INTEGER", "Which of the planned repetitions, from 1"),
        Column("spec_key", "VARCHAR", "Score that is graded, as in evaluator_scores; NULL: the verdict as a whole"),
        Column("evaluator", "VARCHAR", "Name of its evaluator in the suite; NULL: the verdict as a whole"),
        Column("passed", "BOOLEAN", "Whether the person passes it; NULL: a comment only"),
        Column("comment", "VARCHAR", "Why; NULL: nothing was noted"),
        Column("person", "VARCHAR", "Who"),
        Column("graded_at", "TIMESTAMPTZ", "When"),
    ),
)

# A score passes by its own report, else by its gate, else by the threshold of its verdict.
_RATINGS = """
    SELECT g.suite, g.runner, g.evaluator, g.execution_id, g.spec_key, g.person, g.passed AS by_person, g.graded_at,
           coalesce(s.passes, s.value >= coalesce(s.minimum, v.threshold, 0.8) - 1e-9) AS by_grader,
           coalesce(array_to_string(json_extract_string(e.graders, '$[*].runner'), ', '), s.type) AS grader,
           array_to_string(json_extract_string(e.graders, '$[*].model'), ', ') AS model,
           coalesce(array_to_string(json_extract_string(e.graders, '$[*].revision'), ', '), e.version) AS revision
    FROM newest g JOIN evaluator_scores s ON s.execution_id = g.execution_id AND s.spec_key = g.spec_key
    LEFT JOIN evaluator_specs e ON e.suite = g.suite AND e.runner = g.runner AND e.spec_key = g.spec_key
    LEFT JOIN decided v ON v.execution_id = g.execution_id
    WHERE s.value IS NOT NULL
    UNION ALL
    SELECT g.suite, g.runner, 'verdict', g.execution_id, NULL, g.person, g.passed, g.graded_at,
           v.status IN ('passed', 'expected-failed'), 'verdict', NULL, NULL
    FROM newest g JOIN decided v ON v.execution_id = g.execution_id
    WHERE g.spec_key IS NULL AND v.status <> 'error'"""
PEOPLE_VIEWS: tuple[tuple[str, str, str], ...] = (
    (
        "people_agreement",
        "How far each grader, per revision, agrees with the newest grade of each person on passing and failing.",
        f"""
    WITH newest AS (
        SELECT * FROM human_grades WHERE passed IS NOT NULL
        QUALIFY row_number() OVER (
            PARTITION BY execution_id, spec_key, person ORDER BY graded_at DESC, grade_id DESC) = 1),
    decided AS (
        SELECT execution_id, threshold, status FROM verdicts SEMI JOIN newest USING (execution_id)
        QUALIFY row_number() OVER (PARTITION BY execution_id ORDER BY decided_at DESC, verdict_id DESC) = 1),
    ratings AS ({_RATINGS}),
    counted AS (
        SELECT suite, evaluator, grader, model, revision, count(*) AS grades, count(DISTINCT person) AS people,
               avg((by_grader = by_person)::INTEGER) AS agreement,
               avg(by_grader::INTEGER) AS pass_rate_grader, avg(by_person::INTEGER) AS pass_rate_people,
               count(*) FILTER (by_grader AND NOT by_person) AS passed_wrongly,
               count(*) FILTER (by_person AND NOT by_grader) AS failed_wrongly,
               pass_rate_grader * pass_rate_people + (1 - pass_rate_grader) * (1 - pass_rate_people) AS by_chance
        FROM ratings GROUP BY suite, evaluator, grader, model, revision)
    SELECT suite, evaluator, grader, model, revision, people, grades, agreement,
           CASE WHEN by_chance = 1 THEN 1.0 ELSE {kappa(Sql("agreement"), Sql("by_chance"))} END AS cohens_kappa,
           pass_rate_grader, pass_rate_people, passed_wrongly, failed_wrongly
    FROM counted ORDER BY suite, evaluator, grader, revision""",
    ),
)
