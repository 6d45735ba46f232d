"""The views that analysts and the other rooms read, as data.

Readers may have any DuckDB from 1.0: queries use no newer syntax (`if(…)`, `RENAME`), which an
older client cannot open the file with.
"""

from __future__ import annotations

from dataclasses import dataclass

from eval_pipeline.statistics.student import t_quantile
from eval_pipeline.warehouse.agreement_views import AGREEMENT_VIEWS
from eval_pipeline.warehouse.arm_views import ARM_VIEWS
from eval_pipeline.warehouse.case_views import CASE_VIEWS
from eval_pipeline.warehouse.conversation_views import CONVERSATION_VIEWS
from eval_pipeline.warehouse.drift_tables import JUDGE_DRIFT
from eval_pipeline.warehouse.first_verdicts import FIRST_VERDICTS
from eval_pipeline.warehouse.macros import IS_STANDING
from eval_pipeline.warehouse.people_tables import PEOPLE_VIEWS
from eval_pipeline.warehouse.question_views import QUESTION_VIEWS
from eval_pipeline.warehouse.tables import BY_NAME
from eval_pipeline.warehouse.verdict_history import CAUSES, STALE_PAIRS


@dataclass(frozen=True, slots=True)
class View:
    """A view: its comment and its query."""

    name: str
    comment: str
    query: str


_CURRENT_PAIRS = """
    SELECT * EXCLUDE (newest) FROM (
        SELECT c.*, row_number() OVER (PARTITION BY suite, runner ORDER BY finished_at DESC, sweep_id DESC) AS newest
        FROM sweep_pairs c)
    WHERE newest = 1 AND (suite, runner) NOT IN (
        SELECT (r.suite, r.runner) FROM retired_pairs r JOIN (
            SELECT suite, runner, max(finished_at) AS finished_at FROM sweep_pairs GROUP BY suite, runner) s
            ON s.suite = r.suite AND s.runner = r.runner
        WHERE r.retired_at >= s.finished_at)"""

_STUDENT_95 = tuple(round(t_quantile(degrees), 3) for degrees in range(1, 30))
"""Student's t, two-sided 95 %, for 1 to 29 degrees of freedom; above, the view uses the normal quantile."""


def _student(degrees: str) -> str:
    """The SQL for Student's t of an SQL expression of degrees of freedom."""
    return f"coalesce({list(_STUDENT_95)}[{degrees}], 1.96)"


_OLD_NAMES = ", ".join(
    "suite_plans AS suite_cells" if name == "suite_plans" else name
    for name in BY_NAME["sweep_pairs"].column_names
    if name not in ("updated", "statistics_id")
)
"""Columns of sweep_pairs as an older version named them; without RENAME, which DuckDB 1.1 cannot read."""

VIEWS: tuple[View, ...] = (
    View("current_pairs", "The newest sweep's row of each pair (suite × runner) that the project has.", _CURRENT_PAIRS),
    View(
        "current_verdicts",
        "The newest verdict of each plan, at the suite and runner revision of the newest sweep.",
        """
    SELECT v.* EXCLUDE (newest) FROM (
        SELECT v.*, row_number() OVER (
            PARTITION BY v.suite, v.runner, v.case_id, v.repetition
            ORDER BY v.decided_at DESC, v.verdict_id DESC) AS newest
        FROM verdicts v
        JOIN current_pairs c USING (suite, runner, suite_revision, runner_revision)
        ANTI JOIN retired_cases r
        ON r.suite = v.suite AND r.case_id = v.case_id AND r.retired_at >= c.finished_at) v
    WHERE newest = 1""",
    ),
    View(
        "first_verdicts",
        "The current verdicts with status and score of the first graded answer of each plan, which rates are of.",
        FIRST_VERDICTS,
    ),
    View(
        "current_executions",
        "The current execution of each plan of a case that the pair has: the one selected last.",
        """
    WITH planned AS (
        SELECT c.suite, c.runner, unnest(s.cases) AS case_id
        FROM current_pairs c JOIN pair_statistics s USING (statistics_id))
    SELECT * EXCLUDE (newest) FROM (
        SELECT e.*, row_number() OVER (
            PARTITION BY suite, runner, case_id, repetition ORDER BY selected_at DESC, execution_id DESC) AS newest
        FROM target_executions e ANTI JOIN (
            SELECT c.suite, c.runner, r.case_id
            FROM retired_cases r JOIN current_pairs c ON c.suite = r.suite AND r.retired_at >= c.finished_at) r
        USING (suite, runner, case_id)) e
    WHERE newest = 1 AND (suite, runner) NOT IN (
              SELECT (r.suite, r.runner) FROM retired_pairs r ANTI JOIN current_pairs c USING (suite, runner))
          AND ((suite, runner) NOT IN (SELECT (suite, runner) FROM planned)
                          OR (suite, runner, case_id) IN (SELECT (suite, runner, case_id) FROM planned))""",
    ),
    View(
        "current_scores",
        "The scores that entered the current verdicts.",
        """
    SELECT s.* FROM evaluator_scores s
    JOIN current_verdicts v ON s.execution_id = v.execution_id AND list_contains(v.score_keys, s.spec_key)""",
    ),
    *(
        View(*view)
        for view in (*AGREEMENT_VIEWS, *PEOPLE_VIEWS, JUDGE_DRIFT, *CONVERSATION_VIEWS, *CASE_VIEWS, *ARM_VIEWS)
    ),
    *(View(view.name, view.comment, view.query) for view in QUESTION_VIEWS),
    View(
        "leaderboard",
        "The newest standing of each runner on each suite: who passes how much, with 95 % intervals and coverage.",
        """
    SELECT suite, runner, rank, tied_with_best, planned, graded, passed, failed, errored, pass_rate, pass_rate_low,
           pass_rate_high, pass_rate_worst, pass_rate_best, mean_score, mean_score_low, mean_score_high, coverage,
           latency_p50_ms, latency_p95_ms, input_tokens, output_tokens, cost_usd, expected_failed, unexpected_passed,
           suite_revision, runner_revision, computed_at, board_id, oldest_answer_at, newest_answer_at, sweep_id,
           panel_revision, cases_revision, answers, apart, note, rank_best, rank_worst,
           grading_cost_usd, incomplete
    FROM leaderboards WHERE scope = 'suite' AND board_id = (SELECT max(board_id) FROM leaderboards)
    ORDER BY suite, rank, runner""",
    ),
    View(
        "leaderboard_overall",
        "The newest overall standing of each runner: the mean over suites, each suite counting the same.",
        """
    SELECT * EXCLUDE (scope, suite, suite_revision, runner_revision) FROM leaderboards
    WHERE scope = 'overall' AND board_id = (SELECT max(board_id) FROM leaderboards)
    ORDER BY rank, runner""",
    ),
    View(
        "verdict_causes",
        "Every change of a verdict, newest first, and why: case, runner, new answer, evaluator, grader, threshold, …",
        CAUSES,
    ),
    View(
        "stale_pairs",
        "Current pairs that are older than what is stored, or incomplete; eval-pipeline plan compares with the files.",
        STALE_PAIRS,
    ),
    View(
        "case_matrix",
        "One row per case and runner: pass rate over repetitions and mean score.",
        """
    SELECT suite, case_id, runner, count(*) FILTER (status <> 'error') AS graded,
           avg(CASE WHEN status IN ('passed', 'expected-failed') THEN 1.0
                    WHEN status <> 'error' THEN 0.0 END) AS pass_rate,
           avg(score) AS mean_score, list(DISTINCT status ORDER BY status) AS statuses
    FROM first_verdicts GROUP BY ALL ORDER BY suite, case_id, runner""",
    ),
    View(
        "flaky_cases",
        "Cases that passed in some repetitions and failed in others.",
        """
    SELECT suite, runner, case_id, count(*) AS repetitions,
           count(*) FILTER (status IN ('passed', 'expected-failed')) AS passed,
           count(*) FILTER (status IN ('failed', 'unexpected-passed')) AS failed,
           count(*) FILTER (status = 'error') AS errored
    FROM current_verdicts GROUP BY suite, runner, case_id HAVING passed > 0 AND failed > 0
    ORDER BY suite, runner, case_id""",
    ),
    View(
        "case_results",
        "One row per case and runner: its repetitions and its result by the strategy of its suite.",
        f"""
    SELECT * EXCLUDE (last_passed, last_graded), CASE strategy WHEN 'pass_at_k' THEN best WHEN 'pass_all' THEN worst
                            WHEN 'confidence_interval' THEN interval_low ELSE mean_score END AS score,
           CASE WHEN graded = 0 THEN 'error'
                WHEN strategy = 'pass_at_k' THEN CASE WHEN passed > 0 THEN 'passed' ELSE 'failed' END
                WHEN strategy = 'on_failure' THEN
                    CASE WHEN last_passed THEN 'passed' WHEN last_graded THEN 'failed' ELSE 'error' END
                WHEN strategy = 'pass_all' OR repetitions = 1 THEN
                    CASE WHEN passed < graded THEN 'failed' WHEN graded < repetitions THEN 'error' ELSE 'passed' END
                WHEN CASE WHEN strategy = 'confidence_interval' THEN interval_low ELSE mean_score END
                     >= threshold - 1e-9 THEN 'passed'
                ELSE 'failed' END AS status
    FROM (
        SELECT v.suite, v.runner, v.case_id, coalesce(k.strategy, c.strategy, 'mean') AS strategy,
               count(*) AS repetitions,
               count(*) FILTER (v.status <> 'error') AS graded,
               count(*) FILTER (v.status IN ('passed', 'expected-failed')) AS passed,
               arg_max(v.status IN ('passed', 'expected-failed'), v.repetition) AS last_passed,
               arg_max(v.status <> 'error', v.repetition) AS last_graded,
               avg(v.score) AS mean_score, min(v.score) AS worst, max(v.score) AS best,
               CASE WHEN count(v.score) < 2 THEN avg(v.score) ELSE greatest(0.0, least(1.0,
                   avg(v.score) - {_student("count(v.score) - 1")} * stddev_samp(v.score) / sqrt(count(v.score))))
               END AS interval_low,
               any_value(v.threshold) AS threshold
        FROM current_verdicts v JOIN current_pairs c USING (suite, runner)
        LEFT JOIN cases k ON k.suite = v.suite AND k.suite_revision = v.suite_revision AND k.case_id = v.case_id
        GROUP BY ALL)
    ORDER BY suite, runner, case_id""",
    ),
    View(
        "failure_summary",
        "Failure classes over all current results: how often, where, and an example.",
        """
    SELECT failure_class, any_value(label) AS label, any_value(origin) AS origin, sum(count)::BIGINT AS count,
           count(DISTINCT suite) AS suites, count(DISTINCT runner) AS runners,
           first(example_reason ORDER BY suite, runner) AS example
    FROM failure_classes f
    SEMI JOIN current_pairs c ON c.suite = f.suite AND c.runner = f.runner AND c.suite_revision = f.suite_revision
    GROUP BY failure_class ORDER BY count DESC, failure_class""",
    ),
    View(
        "cost_by_runner",
        "Money and tokens of every execution ever made, by runner; cost_known: executions whose cost is known.",
        """
    SELECT runner, count(*) AS executions, count(cost_usd) AS cost_known, sum(cost_usd) AS cost_usd,
           sum(grading_cost_usd) AS grading_cost_usd,
           sum(input_tokens)::BIGINT AS input_tokens, sum(cached_input_tokens)::BIGINT AS cached_input_tokens,
           sum(output_tokens)::BIGINT AS output_tokens,
           sum(cost_usd) / nullif(count(cost_usd), 0) AS cost_per_execution_usd
    FROM session_reports LEFT JOIN (
        SELECT execution_id, sum(cost) AS grading_cost_usd FROM (
            SELECT execution_id, coalesce(score_key, spec_key) AS made_by, max(grading_cost_usd) AS cost
            FROM evaluator_scores GROUP BY ALL)
        GROUP BY execution_id) USING (execution_id)
    GROUP BY runner ORDER BY cost_usd DESC NULLS LAST, runner""",
    ),
    View(
        "leaderboard_history",
        "Every standing ever computed, newest board first.",
        f"SELECT * FROM leaderboards WHERE {IS_STANDING} ORDER BY board_id DESC, scope, suite, rank, runner",
    ),
    View(
        "sweep_cells",
        "Deprecated alias of sweep_pairs; the next version removes it.",
        f"SELECT {_OLD_NAMES} FROM sweep_pairs",
    ),
    View(
        "current_cells",
        "Deprecated alias of current_pairs; the next version removes it.",
        f"SELECT {_OLD_NAMES} FROM current_pairs",
    ),
)
