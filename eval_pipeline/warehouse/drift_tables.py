"""The table of anchors that are graded again and again, as data for `tables.py`, and the view of judges that drift."""

from __future__ import annotations

from eval_pipeline.statistics.control import (
    FEW_DEGREES,
    FEWEST_UNITS,
    SMALL_QUANTILES,
    control_margin,
    large_quantile,
)
from eval_pipeline.warehouse.columns import Column, Table
from eval_pipeline.warehouse.expressions import Sql
from eval_pipeline.warehouse.people_tables import HUMAN_GRADES

ANCHOR_SCORES = Table(
    "anchor_scores",
    "Grades of anchors: stored answers that the graders of a sweep of the project file grade again on its schedule.",
    ("judging_id", "execution_id", "evaluator", "take"),
    (
        Column("judging_id", "VARCHAR", "Id of the grading of all anchors of a sweep (sortable by time)"),
        Column("sweep_name", "VARCHAR", "The sweep of the project file whose anchors they are"),
        Column("suite", "VARCHAR", "Name of the suite"),
        Column("runner", "VARCHAR", "Name of the runner"),
        Column("case_id", "VARCHAR", "Id of the case within its suite"),
        Column("repetition", "INTEGER", "Which of the planned repetitions, from 1"),
        Column("execution_id", "VARCHAR", "Id of the execution whose stored report is graded"),
        Column("evaluator", "VARCHAR", "Name of the evaluator in the suite"),
        Column("question_key", "VARCHAR", "Identity of what the grader is asked: arguments, case, report; not of who"),
        Column("base", "BOOLEAN", "Whether it is one of the first grades, which later ones are compared with"),
        Column("take", "INTEGER", "Which grade of the anchor in this grading, from 1"),
        Column("value", "DOUBLE", "Grade in [0, 1]; NULL: the grader gave none"),
        Column("passed", "BOOLEAN", "Whether it passes, by the evaluator's own report, gate or threshold"),
        Column("reason", "VARCHAR", "Reason of the grader, or why there is no grade"),
        Column("grader", "VARCHAR", "Runners that graded"),
        Column("model", "VARCHAR", "Their models, as far as they are set"),
        Column("grader_revision", "VARCHAR", "Hashes of their settings"),
        Column("cost_usd", "DOUBLE", "Cost of the grade, USD; NULL: unknown"),
        Column("frozen_at", "TIMESTAMPTZ", "When the anchors of the suite were chosen; the newest choice counts"),
        Column("judged_at", "TIMESTAMPTZ", "When the grading began"),
    ),
)
GRADE_TABLES = (HUMAN_GRADES, ANCHOR_SCORES)
"""Grades beside the scores, which stay as they are."""

_QUANTILE = f"""CASE WHEN degrees < {FEW_DEGREES} THEN {list(SMALL_QUANTILES)}[degrees::BIGINT]
                  ELSE {large_quantile(Sql("degrees"))} END"""
_MARGIN = control_margin(Sql("quantile"), Sql("within"), Sql("base_share"), Sql("anchors"))

JUDGE_DRIFT = (
    "judge_drift",
    "How graders grade the same answers over time, and whether that is within control limits (three standard errors).",
    f"""
    WITH bases AS (
        SELECT sweep_name, frozen_at, execution_id, evaluator, question_key, avg(value) AS center,
               var_samp(value) AS within, count(*) AS grades, avg(passed::INTEGER) >= 0.5 AS base_passed
        FROM anchor_scores WHERE base AND value IS NOT NULL
        GROUP BY sweep_name, frozen_at, execution_id, evaluator, question_key HAVING count(*) > 1),
    judged AS (
        SELECT a.*, a.value IS NOT NULL AND b.center IS NOT NULL AS counts, b.center, b.within, b.grades, b.base_passed
        FROM anchor_scores a
        LEFT JOIN bases b ON b.sweep_name = a.sweep_name AND b.frozen_at = a.frozen_at
            AND b.execution_id = a.execution_id AND b.evaluator = a.evaluator AND b.question_key = a.question_key
        WHERE NOT a.base),
    sums AS (
        SELECT sweep_name, suite, evaluator, judging_id, min(judged_at) AS judged_at,
               string_agg(DISTINCT grader, ', ' ORDER BY grader) AS grader,
               string_agg(DISTINCT model, ', ' ORDER BY model) AS model,
               string_agg(DISTINCT grader_revision, ', ' ORDER BY grader_revision) AS grader_revision,
               count(*) FILTER (counts) AS anchors, count(*) FILTER (NOT counts) AS left_out,
               avg(value) FILTER (counts) AS mean_score, avg(center) FILTER (counts) AS center,
               sum(within * (grades - 1)) FILTER (counts) / nullif(sum(grades - 1) FILTER (counts), 0) AS within,
               sum(grades - 1) FILTER (counts) AS degrees, avg(1.0 / grades) FILTER (counts) AS base_share,
               avg(passed::INTEGER) FILTER (counts) AS pass_rate,
               avg(base_passed::INTEGER) FILTER (counts) AS base_pass_rate,
               count(*) FILTER (counts AND passed <> base_passed) AS flipped,
               CASE WHEN count(cost_usd) = count(*) THEN sum(cost_usd) END AS cost_usd
        FROM judged GROUP BY sweep_name, suite, evaluator, judging_id),
    limits AS (
        SELECT *, CASE WHEN anchors >= {FEWEST_UNITS} THEN {_MARGIN} END AS margin
        FROM (SELECT *, {_QUANTILE} AS quantile FROM sums))
    SELECT sweep_name, suite, evaluator, judged_at, judging_id, grader, model, grader_revision, anchors, left_out,
           mean_score, center,
           CASE WHEN margin IS NOT NULL THEN greatest(0.0, center - margin) END AS low,
           CASE WHEN margin IS NOT NULL THEN least(1.0, center + margin) END AS high,
           mean_score - center AS difference, abs(mean_score - center) > margin + 1e-9 AS beyond,
           pass_rate, base_pass_rate, flipped, cost_usd,
           row_number() OVER (PARTITION BY sweep_name, suite, evaluator ORDER BY judged_at DESC, judging_id DESC) = 1
               AS newest
    FROM limits ORDER BY sweep_name, suite, evaluator, judged_at, judging_id""",
)
DRIFT_COLUMNS = {
    "judged_at": "When the grading began",
    "grader": "Runners that graded in it",
    "model": "Their models, as far as they are set",
    "grader_revision": "Hashes of their settings",
    "anchors": "Answers that were graded, and have base grades of the same question",
    "left_out": "Answers without a grade, or without base grades of the same question",
    "mean_score": "Mean grade over these answers",
    "center": "Mean of their base grades",
    "low": "Lower control limit of the mean grade; NULL: fewer than two answers",
    "high": "Upper control limit of the mean grade; NULL: fewer than two answers",
    "difference": "Mean grade minus mean of the base grades",
    "beyond": "Whether the mean grade is beyond the limits: the judge grades otherwise; NULL: no limits",
    "pass_rate": "Share of these answers that pass",
    "base_pass_rate": "Share that passes by the majority of the base grades",
    "flipped": "Answers that pass now and did not, or the other way round",
    "cost_usd": "Cost of the grading, USD; NULL: that of a grade is unknown",
    "newest": "Whether it is the newest grading of the evaluator",
}
