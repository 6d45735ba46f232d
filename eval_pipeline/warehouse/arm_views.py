"""The views of skills: how often they are used where they should be, and what the arms of a runner differ in.

Values only: each is a name, a comment and a query; `views.VIEWS` turns them into views. Intervals are 95 %; those of
differences between arms are computed by `arms`, for no SQL has their formula.
"""

from __future__ import annotations

from eval_pipeline.statistics.intervals import wilson_parts
from eval_pipeline.warehouse.expressions import Sql

_Z95 = 1.96
_NAME = "'$.\"' || skill || '\"'"
_SESSIONS = f"""
    expected AS (
        SELECT suite, runner, execution_id, skill, json_extract_string(triggers, {_NAME}) = 'true' AS expected
        FROM (SELECT v.suite, v.runner, v.execution_id, k.should_trigger AS triggers,
                     unnest(json_keys(k.should_trigger)) AS skill
              FROM current_verdicts v JOIN cases k USING (suite, suite_revision, case_id)
              WHERE k.should_trigger IS NOT NULL)),
    used AS (
        SELECT DISTINCT execution_id, unnest(json_extract_string(skills, '$[*].skill')) AS used_skill
        FROM session_reports),
    sessions AS (
        SELECT e.suite, e.runner, e.skill, e.execution_id, e.expected,
               count(u.used_skill) > 0 AS used, bool_or(r.event_count > 0 AND r.failure_class IS NULL) AS known
        FROM expected e LEFT JOIN session_reports r USING (execution_id)
        LEFT JOIN used u ON u.execution_id = e.execution_id
            AND (u.used_skill = e.skill OR suffix(u.used_skill, ':' || e.skill))
        GROUP BY ALL)"""


def _share(hits: str, trials: str, name: str) -> str:
    """Return the SQL of a share and its interval (Wilson); all NULL of no trials (`greatest` ignores NULL)."""
    middle, half = wilson_parts(Sql(f"({hits} / nullif({trials}, 0))"), Sql(f"nullif({trials}, 0)"), _Z95)
    low, high = f"greatest(0.0, {middle - half})", f"least(1.0, {middle + half})"
    return f"""({hits} / nullif({trials}, 0)) AS {name}, CASE WHEN {trials} > 0 THEN {low} END AS {name}_low,
           CASE WHEN {trials} > 0 THEN {high} END AS {name}_high"""


_JACCARD = _share("hits", "(hits + false_alarms + misses)", "overlap")
_ACTIVATION = f"""
    WITH {_SESSIONS},
    counted AS (
        SELECT suite, runner, skill, count(*) FILTER (known) AS sessions, count(*) FILTER (NOT coalesce(known, false))
               AS unknown, count(*) FILTER (known AND expected AND used)::DOUBLE AS hits,
               count(*) FILTER (known AND NOT expected AND used)::DOUBLE AS false_alarms,
               count(*) FILTER (known AND expected AND NOT used)::DOUBLE AS misses
        FROM sessions GROUP BY ALL),
    shares AS (
        SELECT *, {_share("hits", "(hits + false_alarms)", "precision")},
               {_share("hits", "(hits + misses)", "recall")}, {_JACCARD}
        FROM counted)
    SELECT suite, runner, skill, sessions, unknown, hits::BIGINT AS hits, false_alarms::BIGINT AS false_alarms,
           misses::BIGINT AS misses, precision, precision_low, precision_high, recall, recall_low, recall_high,
           2 * overlap / (1 + overlap) AS f1, 2 * overlap_low / (1 + overlap_low) AS f1_low,
           2 * overlap_high / (1 + overlap_high) AS f1_high
    FROM shares ORDER BY suite, runner, skill"""
"""F1 is 2·J / (1 + J) of the overlap J = hits / (hits + false alarms + misses), a share, and rises with it."""

_MEASURES = {
    "pass_rate": "avg((v.status IN ('passed', 'expected-failed'))::DOUBLE) FILTER (v.status <> 'error')",
    "tokens": "avg(r.input_tokens + r.output_tokens - coalesce(r.cached_input_tokens, 0))",
    "cost_usd": "avg(r.cost_usd)",
}
_DIFFERENCES = f"""
    WITH arms AS (
        SELECT DISTINCT c.suite, c.runner, r.arm_of, r.arm, r.arm_place
        FROM current_pairs c JOIN runners r USING (runner, runner_revision) WHERE r.arm_of IS NOT NULL),
    by_case AS (
        SELECT v.suite, v.runner, v.case_id, {", ".join(f"{sql} AS {name}" for name, sql in _MEASURES.items())}
        FROM first_verdicts v LEFT JOIN session_reports r USING (execution_id) GROUP BY ALL),
    long AS ({
    " UNION ALL ".join(
        f"SELECT suite, runner, case_id, '{name}' AS measure, {name}::DOUBLE AS value FROM by_case"
        for name in _MEASURES
    )
}),
    paired AS (
        SELECT a.suite, a.arm_of AS runner, a.arm, b.arm AS other_arm, x.measure, x.case_id, a.arm_place,
               b.arm_place AS other_place, x.value, y.value AS other_value, x.value - y.value AS difference
        FROM arms a JOIN arms b ON a.suite = b.suite AND a.arm_of = b.arm_of AND a.arm_place < b.arm_place
        JOIN long x ON x.suite = a.suite AND x.runner = a.runner
        JOIN long y ON y.suite = b.suite AND y.runner = b.runner AND y.case_id = x.case_id AND y.measure = x.measure)
    SELECT suite, runner, arm, other_arm, measure, count(difference) AS cases,
           avg(value) FILTER (difference IS NOT NULL) AS mean,
           avg(other_value) FILTER (difference IS NOT NULL) AS other_mean, avg(difference) AS difference,
           coalesce(list(value ORDER BY case_id) FILTER (difference IS NOT NULL), []) AS case_values,
           coalesce(list(other_value ORDER BY case_id) FILTER (difference IS NOT NULL), []) AS other_case_values
    FROM paired GROUP BY suite, runner, arm, other_arm, measure, arm_place, other_place
    ORDER BY suite, runner, arm_place, other_place, measure"""

ARM_VIEWS: tuple[tuple[str, str, str], ...] = (
    (
        "skill_activation",
        "How often runners use a skill where cases say that they should (`should_trigger`), with 95 % intervals.",
        _ACTIVATION,
    ),
    (
        "arm_differences",
        "Differences between two arms of a runner, paired by case: pass rate, tokens, cost (`arms` adds intervals).",
        _DIFFERENCES,
    ),
)
