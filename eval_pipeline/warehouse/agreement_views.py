"""The views of the agreement between graders of one panel. The formulas are those of `statistics/agreement.py`.

Values only: each is a name, a comment and a query; `views.VIEWS` turns them into views. Both read the sub-scores of
current scores that have a `grader`. A unit is one score of one execution; a rating passes if the
grader reports so (`details.passes`), else from 0.8 on.
"""

from __future__ import annotations

from eval_pipeline.statistics.agreement import alpha, kappa
from eval_pipeline.warehouse.expressions import Sql

_RATINGS = """
    SELECT m.suite, m.evaluator, m.execution_id, m.spec_key, m.member, m.value,
           coalesce(TRY_CAST(m.details ->> '$.passes' AS BOOLEAN), m.value >= 0.8 - 1e-9) AS passed
    FROM member_scores m SEMI JOIN current_scores s USING (execution_id, spec_key)
    WHERE m.grader IS NOT NULL AND m.value IS NOT NULL"""

# Krippendorff's alpha for interval data by sums of squares: within one unit of m ratings, the squared differences of
# all ordered pairs over m - 1 are 2·m times the sample variance. Of yes and no the interval alpha is the nominal one.
# Of the mean ranks of values it is the ordinal one: their difference is how many ratings are between two values.
AGREEMENT_VIEWS: tuple[tuple[str, str, str], ...] = (
    (
        "grader_agreement",
        "How far the graders of each panel agree: Krippendorff's alpha, 1 full agreement, 0 as by chance.",
        f"""
    WITH ratings AS ({_RATINGS}),
    rated AS (
        SELECT * FROM ratings
        QUALIFY count(*) OVER (PARTITION BY suite, evaluator, execution_id, spec_key) > 1),
    ranked AS (
        SELECT *, rank() OVER (PARTITION BY suite, evaluator ORDER BY value)
                  + count(*) OVER (PARTITION BY suite, evaluator, value) / 2 AS place
        FROM rated),
    units AS (
        SELECT suite, evaluator, execution_id, spec_key, count(*) AS m,
               m * var_samp(value) AS within, m * var_samp(place) AS place_within,
               m * var_samp(passed::INTEGER) AS passed_within,
               count(*) FILTER (passed) AS yes, m - yes AS no,
               (yes * (yes - 1) + no * (no - 1)) / (m * (m - 1)) AS agreement
        FROM ranked GROUP BY suite, evaluator, execution_id, spec_key),
    together AS (
        SELECT suite, evaluator, count(DISTINCT member) AS graders, count(*) AS ratings,
               count(*) * var_samp(value) AS overall, count(*) * var_samp(place) AS place_overall,
               count(*) * var_samp(passed::INTEGER) AS passed_overall
        FROM ranked GROUP BY suite, evaluator)
    SELECT suite, evaluator, graders, count(*) AS units, ratings, avg(agreement) AS agreement,
           avg((yes = 0 OR no = 0)::INTEGER) AS unanimous,
           CASE WHEN overall = 0 THEN 1.0 ELSE {alpha(Sql("sum(within)"), Sql("overall"))} END AS krippendorffs_alpha,
           CASE WHEN place_overall = 0 THEN 1.0 ELSE {alpha(Sql("sum(place_within)"), Sql("place_overall"))} END
               AS krippendorffs_alpha_ordinal,
           CASE WHEN passed_overall = 0 THEN 1.0 ELSE {alpha(Sql("sum(passed_within)"), Sql("passed_overall"))} END
               AS krippendorffs_alpha_passed
    FROM units JOIN together USING (suite, evaluator)
    GROUP BY suite, evaluator, graders, ratings, overall, place_overall, passed_overall
    ORDER BY suite, evaluator""",
    ),
    (
        "grader_pairs",
        "How far each two graders of a panel agree on passing and failing (Cohen's kappa), and which is stricter.",
        f"""
    WITH ratings AS ({_RATINGS}),
    pairs AS (
        SELECT a.suite, a.evaluator, a.member AS grader_a, b.member AS grader_b, count(*) AS units,
               avg((a.passed = b.passed)::INTEGER) AS agreement,
               avg(a.passed::INTEGER) AS pass_rate_a, avg(b.passed::INTEGER) AS pass_rate_b,
               avg(a.value - b.value) AS mean_difference, corr(a.value, b.value) AS correlation,
               pass_rate_a * pass_rate_b + (1 - pass_rate_a) * (1 - pass_rate_b) AS by_chance
        FROM ratings a JOIN ratings b USING (suite, evaluator, execution_id, spec_key)
        WHERE a.member < b.member GROUP BY ALL)
    SELECT suite, evaluator, grader_a, grader_b, units, agreement,
           CASE WHEN by_chance = 1 THEN 1.0 ELSE {kappa(Sql("agreement"), Sql("by_chance"))} END AS cohens_kappa,
           pass_rate_a, pass_rate_b, mean_difference,
           CASE WHEN isfinite(correlation) THEN correlation END AS correlation
    FROM pairs ORDER BY suite, evaluator, grader_a, grader_b""",
    ),
)
