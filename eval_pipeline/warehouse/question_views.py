"""The views of analysts' questions: which cases tell runners apart, who is dominated, what a solved case costs, why
plans fail, what came from caches, revisions apart, where variance comes from, and what a number was made of.

Values only: each is a name, a comment, its query and the comments of its columns; `views.VIEWS` turns them into views.
A cost is NULL where that of one plan is unknown; nothing averages two revisions of a suite.
"""

from __future__ import annotations

from typing import NamedTuple

from eval_pipeline.failures import (
    BUDGET_EXCEEDED,
    CANCELLED,
    CONNECTION,
    NORMALIZATION,
    RATE_LIMITED,
    SERVER_ERROR,
    STOPPED,
    TIMEOUT,
    WORKSPACE,
    WORKSPACE_BOOTSTRAP,
)
from eval_pipeline.statistics.detection import FEWEST_CASES, INDEPENDENT, Variation, shown_from
from eval_pipeline.warehouse.expressions import Sql
from eval_pipeline.warehouse.macros import SELECTED


class QuestionView(NamedTuple):
    """A view: name, comment, query, the table whose comments its plain columns have, and those of the others."""

    name: str
    comment: str
    query: str
    source: str
    columns: dict[str, str]


_OK = "status IN ('passed', 'expected-failed')"
_PASSED = f"CASE WHEN {_OK} THEN 1.0 WHEN status <> 'error' THEN 0.0 END"
_RETRYABLE = (RATE_LIMITED, SERVER_ERROR, CONNECTION, TIMEOUT, CANCELLED, BUDGET_EXCEEDED, STOPPED)
"""Failure classes of calls that may succeed at another time."""
_RETRYABLE_IDS = ", ".join(f"'{each.id}'" for each in _RETRYABLE)
_STAGE = f"""
           CASE failure_class WHEN '{WORKSPACE.id}' THEN 'workspace' WHEN '{WORKSPACE_BOOTSTRAP.id}' THEN 'workspace'
                WHEN '{NORMALIZATION.id}' THEN 'normalization'
                ELSE CASE failure_origin WHEN 'quality' THEN 'answer' WHEN 'grader' THEN 'grading'
                     WHEN 'simulator' THEN 'simulation' ELSE 'execution' END END"""
_SIGNATURE = r"""regexp_replace(regexp_replace(regexp_replace(split_part(reason, chr(10), 1),
           '"[^"]*"|''[^'']*''', '…', 'g'), '\b[0-9a-f]{8,}[0-9a-f-]*\b', '#', 'g'), '\d+([.,]\d+)*', '#', 'g')"""


def _known_sum(column: str) -> str:
    return f"CASE WHEN count({column}) = count(*) THEN sum({column}) END"


_BY_CASE = f"""
    SELECT suite, runner, case_id, avg({_PASSED}) AS pass_rate FROM first_verdicts
    GROUP BY suite, runner, case_id HAVING avg({_PASSED}) IS NOT NULL"""
_MEASURED = f"""
    SELECT suite, runner, pass_rate, cost_per_plan_usd, latency_p50_ms FROM (
        SELECT suite, runner, {_known_sum("cost_usd")} / count(*) AS cost_per_plan_usd,
               median(duration_ms) FILTER (status <> 'error') AS latency_p50_ms
        FROM current_verdicts GROUP BY suite, runner)
    JOIN (SELECT suite, runner, avg(pass_rate) AS pass_rate FROM by_case GROUP BY suite, runner)
    USING (suite, runner)"""

_DIFFERENCES = f"""
    rates AS (
        SELECT suite, runner, case_id, count(*) AS answers, avg(({_OK})::INTEGER) AS rate,
               var_samp(({_OK})::INTEGER) AS noise
        FROM first_verdicts WHERE status <> 'error' GROUP BY suite, runner, case_id),
    differences AS (
        SELECT a.suite, var_samp(a.rate - b.rate) AS together, avg(a.noise + b.noise) AS within,
               avg(a.noise / a.answers + b.noise / b.answers) AS noise
        FROM rates a JOIN rates b ON a.suite = b.suite AND a.case_id = b.case_id AND a.runner < b.runner
        GROUP BY a.suite, a.runner, b.runner)"""
_SPREADS = """
    SELECT suite, median(greatest(together - coalesce(noise, 0), 0)) AS between_cases,
           median(coalesce(within, 0)) AS within_cases
    FROM differences WHERE together > 0 GROUP BY suite"""
DIFFERENCES = f"WITH {_DIFFERENCES} {_SPREADS}"
"""How the difference of two runners' pass rates on a case varies, by suite: medians over its pairs of runners. Where
nothing was repeated, all of it counts as between cases."""
_OF_MEANS = Variation(Sql("between_cases"), Sql("within_cases")).of_means(Sql("repetitions"))  # type: ignore[arg-type]


def _on_front(measure: str) -> str:
    """Return whether no other runner of the suite passes as much for as little, and one of both better."""
    return f"""CASE WHEN a.{measure} IS NOT NULL THEN NOT EXISTS (
               SELECT 1 FROM measured b WHERE b.suite = a.suite AND b.pass_rate >= a.pass_rate
                   AND b.{measure} <= a.{measure} AND (b.pass_rate > a.pass_rate OR b.{measure} < a.{measure})) END"""


QUESTION_VIEWS: tuple[QuestionView, ...] = (
    QuestionView(
        "discriminating_cases",
        "How well each case tells the runners of its suite apart, the best first.",
        f"""
    WITH by_case AS ({_BY_CASE}),
    totals AS (SELECT suite, runner, sum(pass_rate) AS total, count(*) AS cases FROM by_case GROUP BY suite, runner),
    compared AS (
        SELECT suite, case_id, count(*) AS runners, avg(pass_rate) AS pass_rate,
               max(pass_rate) - min(pass_rate) AS spread,
               corr(pass_rate, (total - pass_rate) / nullif(cases - 1, 0)) AS r
        FROM by_case JOIN totals USING (suite, runner) GROUP BY suite, case_id)
    SELECT suite, case_id, runners, pass_rate, spread, CASE WHEN NOT isnan(r) THEN r END AS discrimination
    FROM compared WHERE runners > 1
    ORDER BY suite, discrimination DESC NULLS LAST, spread DESC, case_id""",
        "verdicts",
        {
            "runners": "Runners with a graded answer to the case",
            "pass_rate": "Mean over these runners",
            "spread": "Highest minus lowest pass rate of a runner: 0 where all are alike",
            "discrimination": "Correlation with the runner's pass rate on the other cases; NULL: nothing varies",
        },
    ),
    QuestionView(
        "pareto_front",
        "Quality against cost and latency: whether another runner of the suite is at least as good in both.",
        f"""
    WITH by_case AS ({_BY_CASE}), measured AS ({_MEASURED})
    SELECT suite, runner, pass_rate, cost_per_plan_usd, latency_p50_ms,
           {_on_front("cost_per_plan_usd")} AS on_cost_front,
           {_on_front("latency_p50_ms")} AS on_latency_front
    FROM measured a ORDER BY suite, pass_rate DESC, cost_per_plan_usd, runner""",
        "verdicts",
        {
            "pass_rate": "Mean over cases of the graded share that passed",
            "cost_per_plan_usd": "Mean cost of the target for a plan, USD; NULL: that of one is unknown",
            "latency_p50_ms": "Median time of the target over graded answers, milliseconds",
            "on_cost_front": "Whether no other passes as much for as little money; NULL: its cost is unknown",
            "on_latency_front": "Whether no other passes as much in as little time; NULL: its time is unknown",
        },
    ),
    QuestionView(
        "solved_costs",
        "What a solved case costs: all money of the current plans of a runner, by plans that passed.",
        f"""
    SELECT suite, runner, count(*) AS plans, count(*) FILTER ({_OK}) AS solved,
           count(DISTINCT case_id) FILTER ({_OK}) AS solved_cases, {_known_sum("cost_usd")} AS cost_usd,
           {_known_sum("grading_cost_usd")} AS grading_cost_usd,
           {_known_sum("cost_usd")} / nullif(solved, 0) AS cost_per_solved_usd,
           {_known_sum("cost_usd")} / nullif(solved_cases, 0) AS cost_per_solved_case_usd
    FROM current_verdicts GROUP BY suite, runner ORDER BY suite, cost_per_solved_usd NULLS LAST, runner""",
        "verdicts",
        {
            "plans": "Current plans",
            "solved": "Plans that passed, or failed as expected",
            "solved_cases": "Cases with such a plan",
            "cost_usd": "Money of the target, USD; NULL: that of one plan is unknown",
            "grading_cost_usd": "Money of graders, USD; NULL: that of one plan is unknown",
            "cost_per_solved_usd": "Money of the target by solved plan; NULL: none is solved, or a cost is unknown",
            "cost_per_solved_case_usd": "The same by solved case",
        },
    ),
    QuestionView(
        "latency_by_runner",
        "Time of the target over graded answers, as boards count it: median, 95th percentile, greatest.",
        """
    SELECT suite, runner, count(duration_ms) AS answers, median(duration_ms) AS latency_p50_ms,
           quantile_cont(duration_ms, 0.95) AS latency_p95_ms, max(duration_ms) AS latency_max_ms
    FROM current_verdicts WHERE status <> 'error'
    GROUP BY suite, runner HAVING count(duration_ms) > 0 ORDER BY suite, runner""",
        "verdicts",
        {
            "answers": "Graded plans whose time is known",
            "latency_p50_ms": "Median, milliseconds",
            "latency_p95_ms": "95th percentile, interpolated",
            "latency_max_ms": "Greatest",
        },
    ),
    QuestionView(
        "tokens_by_cache",
        "Tokens of the current plans by what a cache provided.",
        """
    SELECT v.suite, v.runner, count(r.input_tokens) AS reports, sum(r.input_tokens)::BIGINT AS input_tokens,
           count(r.cached_input_tokens) AS cache_known, sum(r.cached_input_tokens)::BIGINT AS cached_input_tokens,
           sum(r.cache_write_tokens)::BIGINT AS cache_write_tokens,
           sum(r.input_tokens - r.cached_input_tokens)::BIGINT AS uncached_input_tokens,
           sum(r.cached_input_tokens)
               / nullif(sum(r.input_tokens) FILTER (r.cached_input_tokens IS NOT NULL), 0) AS cached_share,
           sum(r.output_tokens)::BIGINT AS output_tokens, sum(r.reasoning_tokens)::BIGINT AS reasoning_tokens
    FROM current_verdicts v JOIN session_reports r USING (execution_id)
    GROUP BY v.suite, v.runner ORDER BY v.suite, v.runner""",
        "session_reports",
        {
            "reports": "Plans whose input tokens are known",
            "cache_known": "Part of them that report what a cache provided",
            "uncached_input_tokens": "Input that no cache provided, of those that report it",
            "cached_share": "Share of the input that a cache provided, of those that report it; NULL: none does",
        },
    ),
    QuestionView(
        "failure_taxonomy",
        "Current plans that did not pass, alike ones together: stage, cause, who has to act, may another try help.",
        f"""
    SELECT {_STAGE} AS stage, failure_class AS cause, any_value(failure_label) AS failure_label,
           failure_origin AS owner, coalesce(failure_class IN ({_RETRYABLE_IDS}), false) AS retryable,
           {_SIGNATURE} AS signature, count(*) AS plans, count(DISTINCT suite) AS suites,
           count(DISTINCT runner) AS runners, min(decided_at) AS first_at, max(decided_at) AS last_at,
           first(reason ORDER BY decided_at, suite, case_id) AS example
    FROM current_verdicts WHERE NOT {_OK}
    GROUP BY stage, failure_class, failure_origin, retryable, signature
    ORDER BY plans DESC, cause, signature""",
        "verdicts",
        {
            "stage": "workspace, execution, simulation, normalization, answer (it is wrong) or grading",
            "cause": "Failure class",
            "owner": "Who has to act: quality, target, infrastructure, harness, grader, simulator",
            "retryable": "Whether the same call may succeed at another time",
            "signature": "First line of the reason, without numbers, hashes and quoted texts",
            "plans": "Plans that fail so",
            "suites": "Suites where it occurs",
            "runners": "Runners where it occurs",
            "first_at": "When the oldest of them was decided",
            "last_at": "When the newest was",
            "example": "The oldest reason in full",
        },
    ),
    QuestionView(
        "failure_trends",
        "Plans that had not passed at the end of each sweep, by failure class; those of reused executions included.",
        f"""
    WITH failed AS (
        SELECT * FROM (
            SELECT *, coalesce(lead(decided_at) OVER (
                PARTITION BY suite, suite_revision, runner, runner_revision, case_id, repetition
                ORDER BY decided_at, verdict_id), 'infinity') AS until
            FROM verdicts) WHERE NOT {_OK})
    SELECT s.sweep_id, s.name, s.started_at, v.failure_class AS cause, v.failure_origin AS owner, count(*) AS verdicts,
           count(DISTINCT (v.suite, v.case_id)) AS cases, count(*) FILTER (v.sweep_id = s.sweep_id) AS decided
    FROM failed v JOIN sweep_pairs c USING (suite, runner, suite_revision, runner_revision)
    JOIN sweeps s ON s.sweep_id = c.sweep_id
    WHERE v.decided_at <= c.finished_at AND c.finished_at < v.until
      AND {SELECTED}
    GROUP BY s.sweep_id, s.name, s.started_at, v.failure_class, v.failure_origin
    ORDER BY s.started_at, s.sweep_id, verdicts DESC, cause""",
        "sweeps",
        {
            "cause": "Failure class",
            "owner": "Who has to act",
            "verdicts": "Plans of the sweep whose verdict was so at its end",
            "cases": "Cases concerned",
            "decided": "Part of the verdicts that this sweep decided; the others are of reused executions",
        },
    ),
    QuestionView(
        "suite_revisions",
        "Results of each revision of a suite apart: the newest verdict of each plan at that revision.",
        f"""
    WITH newest AS (
        SELECT * FROM verdicts QUALIFY row_number() OVER (
            PARTITION BY suite, suite_revision, runner, runner_revision, case_id, repetition
            ORDER BY decided_at DESC, verdict_id DESC) = 1),
    by_case AS (
        SELECT suite, suite_revision, runner, runner_revision, case_id, avg({_PASSED}) AS passed, avg(score) AS score,
               min(decided_at) AS first_at, max(decided_at) AS last_at
        FROM newest GROUP BY suite, suite_revision, runner, runner_revision, case_id)
    SELECT suite, suite_revision, runner, runner_revision, min(first_at) AS first_at, max(last_at) AS last_at,
           count(*) AS cases, count(passed) AS graded_cases, avg(passed) AS pass_rate, avg(score) AS mean_score
    FROM by_case GROUP BY suite, suite_revision, runner, runner_revision
    ORDER BY suite, runner, first_at, suite_revision, runner_revision""",
        "verdicts",
        {
            "first_at": "When the oldest of these verdicts was decided",
            "last_at": "When the newest was",
            "cases": "Cases with a verdict",
            "graded_cases": "Cases with a graded answer",
            "pass_rate": "Mean over cases of the graded share that passed",
            "mean_score": "Mean over cases of their mean score",
        },
    ),
    QuestionView(
        "variance_components",
        "Where the variance of scores comes from: cases, repetitions of a case, and graders of one answer.",
        """
    WITH by_case AS (
        SELECT suite, runner, case_id, count(score) AS n, avg(score) AS middle, var_pop(score) * count(score) AS within
        FROM first_verdicts WHERE score IS NOT NULL GROUP BY suite, runner, case_id),
    sums AS (
        SELECT suite, runner, count(*) AS cases, sum(n) AS answers, sum(n * n) AS squares, sum(within) AS within,
               sum(n * middle) / sum(n) AS grand, sum(n * middle * middle) AS between_raw
        FROM by_case GROUP BY suite, runner),
    squares AS (
        SELECT *, within / nullif(answers - cases, 0) AS repetition,
               (between_raw - answers * grand * grand) / nullif(cases - 1, 0) AS between_cases,
               (answers - squares / answers) / nullif(cases - 1, 0) AS size
        FROM sums),
    graded AS (
        SELECT suite, runner, avg(spread) AS grader FROM (
            SELECT m.suite, m.runner, var_samp(m.value) AS spread
            FROM member_scores m SEMI JOIN current_scores s USING (execution_id, spec_key)
            WHERE m.grader IS NOT NULL AND m.value IS NOT NULL
            GROUP BY m.suite, m.runner, m.execution_id, m.spec_key HAVING count(*) > 1)
        GROUP BY suite, runner)
    SELECT suite, runner, cases, answers::BIGINT AS answers, grand AS mean_score,
           CASE WHEN between_cases - repetition IS NOT NULL
                THEN greatest(0.0, (between_cases - repetition) / nullif(size, 0)) END AS case_variance,
           repetition AS repetition_variance, grader AS grader_variance,
           case_variance / nullif(case_variance + repetition, 0) AS case_share
    FROM squares LEFT JOIN graded USING (suite, runner) ORDER BY suite, runner""",
        "verdicts",
        {
            "cases": "Cases with a score",
            "answers": "Answers with a score",
            "mean_score": "Mean over answers",
            "case_variance": "Variance between cases (analysis of variance, at least 0); NULL: too few answers",
            "repetition_variance": "Variance between repetitions of a case; NULL: none is repeated",
            "grader_variance": "Mean variance between the graders of one answer; NULL: no panel",
            "case_share": "Share of the variance that is between cases (intraclass correlation)",
        },
    ),
    QuestionView(
        "detectable_differences",
        "The smallest difference of pass rates that the current cases and repetitions of a runner are likely to show.",
        f"""
    WITH {_DIFFERENCES},
    spreads AS ({_SPREADS}),
    sizes AS (
        SELECT suite, runner, count(*) AS cases, min(answers) AS repetitions FROM (
            SELECT suite, runner, case_id, count(*) AS answers FROM current_verdicts WHERE status <> 'error'
            GROUP BY suite, runner, case_id)
        GROUP BY suite, runner),
    varied AS (
        SELECT s.*, d.suite IS NULL AS assumed, coalesce(d.between_cases, {INDEPENDENT.between}) AS between_cases,
               coalesce(d.within_cases, {INDEPENDENT.within}) AS within_cases
        FROM sizes s LEFT JOIN spreads d USING (suite))
    SELECT suite, runner, cases, repetitions,
           CASE WHEN cases >= {FEWEST_CASES} THEN least(1.0, {shown_from(Sql("cases"), _OF_MEANS)}) END
               AS detectable_difference,
           between_cases AS between_variance, within_cases AS within_variance, assumed
    FROM varied ORDER BY suite, runner""",
        "verdicts",
        {
            "cases": "Cases with a graded answer",
            "repetitions": "Graded answers to the case that has the fewest",
            "detectable_difference": "Shown with a probability of 80 % at a level of 5 %; NULL: fewer than two cases",
            "between_variance": "Variance, between cases, of the difference of two runners of the suite (median)",
            "within_variance": "Variance of that difference from answer to answer; 0 where nothing is repeated",
            "assumed": "Whether nothing is known of the suite: answers that have nothing to do with each other",
        },
    ),
    QuestionView(
        "result_trail",
        "What each current number was made of: case, prompt, attempts, tool calls, answer, scores, graders' replies.",
        """
    WITH calls AS (
        SELECT execution_id, list({'tool': tool, 'arguments': event ->> '$.arguments'} ORDER BY position) AS tool_calls
        FROM session_events WHERE kind = 'tool_call' GROUP BY execution_id),
    graded AS (
        SELECT execution_id, spec_key, list({'grader': grader, 'value': value, 'prompt': details ->> '$.prompt',
                                             'reply': details ->> '$.reply'} ORDER BY position) AS graders
        FROM member_scores WHERE grader IS NOT NULL GROUP BY execution_id, spec_key),
    scored AS (
        SELECT s.execution_id, list({'evaluator': s.evaluator, 'value': s.value, 'reason': s.reason,
                                     'prompt': s.details ->> '$.prompt', 'reply': s.details ->> '$.reply',
                                     'graders': g.graders} ORDER BY s.evaluator) AS scores
        FROM current_scores s LEFT JOIN graded g USING (execution_id, spec_key) GROUP BY s.execution_id)
    SELECT v.suite, v.runner, v.case_id, v.repetition, v.status, v.score, v.reason, k.input, k.expected_output,
           coalesce(r.prompt, (SELECT min_by(m.text, m.position) FROM session_events m
                               WHERE m.execution_id = v.execution_id AND m.kind = 'message'
                                   AND m.event ->> '$.role' = 'user')) AS prompt,
           e.attempts, c.tool_calls, r.final_output, p.scores, v.execution_id, v.verdict_id, v.sweep_id
    FROM current_verdicts v
    LEFT JOIN cases k ON k.suite = v.suite AND k.suite_revision = v.suite_revision AND k.case_id = v.case_id
    LEFT JOIN target_executions e USING (execution_id) LEFT JOIN session_reports r USING (execution_id)
    LEFT JOIN calls c USING (execution_id) LEFT JOIN scored p USING (execution_id)
    ORDER BY v.suite, v.case_id, v.runner, v.repetition""",
        "verdicts",
        {
            "input": "Messages of the case",
            "expected_output": "Expected output of the case",
            "prompt": "Prompt sent to the target; NULL: not known",
            "attempts": "Each attempt: start, duration, failure class, status",
            "tool_calls": "Tool calls in order, with their arguments",
            "final_output": "The target's last message to the user",
            "scores": "Each evaluator: value, reason, the grader's prompt and reply; graders of a panel",
        },
    ),
)
