"""The comments of the columns of views: computed columns have their own, others that of the column they come from."""

from __future__ import annotations

from collections.abc import Mapping

from eval_pipeline.warehouse.tables import BY_NAME

_SOURCES: Mapping[str, str] = {
    "current_pairs": "sweep_pairs",
    "current_verdicts": "verdicts",
    "current_executions": "target_executions",
    "current_scores": "evaluator_scores",
    "leaderboard": "leaderboards",
    "leaderboard_overall": "leaderboards",
    "leaderboard_history": "leaderboards",
    "grader_agreement": "member_scores",
    "grader_pairs": "member_scores",
    "conversation_turns": "session_reports",
    "conversation_spending": "session_reports",
    "simulator_faults": "session_reports",
    "results_by_tag": "verdicts",
    "results_by_difficulty": "verdicts",
    "results_by_persona": "verdicts",
    "results_by_metric": "member_scores",
    "conversation_latency": "session_reports",
    "simulator_agreement": "verdicts",
    "execution_snapshots": "target_executions",
    "case_matrix": "verdicts",
    "flaky_cases": "verdicts",
    "case_results": "sweep_pairs",
    "failure_summary": "failure_classes",
    "cost_by_runner": "session_reports",
    "verdict_causes": "verdict_changes",
    "stale_pairs": "sweep_pairs",
    "sweep_cells": "sweep_pairs",
    "current_cells": "sweep_pairs",
}
_SIMULATOR = "Runner that played the user; NULL: none, a script, or not known"
_BY_CASE = {
    "simulator": _SIMULATOR,
    "cases": "Cases with a result",
    "graded_cases": "Cases with a graded result",
    "pass_rate": "Mean over cases of the share of graded repetitions that passed; NULL: none graded",
    "mean_score": "Mean over cases of their mean score; NULL: none graded",
}
_COMPUTED: Mapping[str, Mapping[str, str]] = {
    "conversation_turns": {
        "turn": "Turn of the conversation, from 1",
        "speaker": "Who speaks: user or agent",
        "simulator": "Runner that made the words; NULL: the agent, or words as written",
        "words": "Words said, thinking left out",
        "duration_ms": "Time the side took, milliseconds; NULL: unknown",
        "model": "Model of the side; NULL: unknown",
    },
    "conversation_spending": {
        "role": "agent, simulator, judge, or grader: any other evaluator that asks a model",
        "lines": "Turns of the agent, lines of the simulator, scores that cost something or whose cost is not known",
        "cost_usd": "Money spent as far as it is known, USD",
        "unknown_costs": "How many of the lines have no known cost",
    },
    "simulator_faults": {
        "simulator": "Runner that plays the user; NULL: it never replied",
        "lines": "Lines that were said",
        "discarded_lines": "Replies that could not be used, and were asked for anew",
        "fault_rate": "Discarded replies as a share of all replies",
        "conversations": "Conversations with a line or a fault of the simulator",
        "discarded_conversations": "Conversations that ended without a verdict, because no reply could be used",
    },
    "results_by_tag": {**_BY_CASE, "tag": "Tag of the cases"},
    "results_by_difficulty": {**_BY_CASE, "difficulty": "How hard the cases are: normal or hard"},
    "results_by_persona": {**_BY_CASE, "persona": "Label of the persona of the simulated user"},
    "results_by_metric": {
        "simulator": _SIMULATOR,
        "metric": "Metric of a judge",
        "is_binary": "Whether it is met or not; else it has points",
        "cases": "Cases with the metric",
        "mean": "Mean over cases: points from 0 to 5, or the share of yes",
        "lowest": "Lowest mean of a case",
    },
    "conversation_latency": {
        "simulator": _SIMULATOR,
        "conversations": "Conversations with a known time",
        "turns": "Turns of the agent with a known time",
        "latency_mean_ms": "Mean time of a turn, milliseconds",
        "latency_p50_ms": "Median time of a turn, milliseconds",
        "latency_p95_ms": "95th percentile, milliseconds; the greatest time where there are fewer than 20 turns",
        "latency_max_ms": "Greatest time of a turn, milliseconds",
    },
    "simulator_agreement": {
        "simulator_a": "Name of the first simulator",
        "simulator_b": "Name of the second simulator",
        "plans": "Plans that both played and that were graded",
        "cases": "Cases of these plans",
        "agreement": "Share of the plans that pass with both, or fail with both",
        "cohens_kappa": "Cohen's kappa: 1 full agreement, 0 as by chance",
        "pass_rate_a": "Share that passed with the first simulator",
        "pass_rate_b": "Share that passed with the second simulator",
        "mean_difference": "Mean of first minus second score",
    },
    "execution_snapshots": {
        "model": "Model that answered, else the one of the settings",
        "prompt": "Prompt of the runner's settings; NULL: it has none, or does not declare it",
        "prompt_sha256": "SHA-256 of the prompt",
        "tools": "Tools of the runner's settings; NULL: it has none, or does not declare them",
        "tools_sha256": "SHA-256 of the tools as stored",
        "settings": "Settings of the runner, secrets replaced by ***",
        "settings_sha256": "SHA-256 of the settings as stored",
    },
    "grader_agreement": {
        "graders": "Graders of the panel that gave ratings",
        "units": "Scores that at least two graders rated",
        "ratings": "Ratings of these scores",
        "agreement": "Mean share of pairs of graders that agree on passing",
        "unanimous": "Share of the scores that all graders passed, or none",
        "krippendorffs_alpha": "Krippendorff's alpha of the values: 1 full agreement, 0 as by chance",
        "krippendorffs_alpha_passed": "The same of passing and failing",
    },
    "grader_pairs": {
        "grader_a": "Name of the first grader",
        "grader_b": "Name of the second grader",
        "units": "Scores that both rated",
        "agreement": "Share of these on which both pass, or both fail",
        "cohens_kappa": "Cohen's kappa: 1 full agreement, 0 as by chance",
        "pass_rate_a": "Share that the first grader passed",
        "pass_rate_b": "Share that the second grader passed",
        "mean_difference": "Mean of first minus second value; above 0: the second is stricter",
        "correlation": "Pearson's correlation of the values; NULL where one grader gave a single value",
    },
    "case_matrix": {
        "case_id": "Id of the case within its suite",
        "graded": "Repetitions with a graded answer",
        "pass_rate": "Share of the graded repetitions that passed, or failed as expected; NULL: none graded",
        "mean_score": "Mean score of the graded repetitions; NULL: none graded",
        "statuses": "The different statuses of its repetitions",
    },
    "flaky_cases": {
        "repetitions": "Repetitions carried out",
        "passed": "Repetitions that passed, or failed as expected",
        "failed": "Repetitions that failed, or passed unexpectedly",
        "errored": "Repetitions that could not be graded",
    },
    "case_results": {
        "case_id": "Id of the case within its suite",
        "strategy": "How its repetitions become one result: pass_at_k, pass_all, mean, confidence_interval",
        "repetitions": "Repetitions carried out",
        "graded": "Repetitions with a graded answer",
        "passed": "Repetitions that passed, or failed as expected",
        "mean_score": "Mean score of the graded repetitions",
        "worst": "Lowest score of its repetitions",
        "best": "Highest score of its repetitions",
        "interval_low": "95 % interval of the mean score by Student's t, low end",
        "threshold": "Lowest passing score",
        "score": "Score by the strategy",
        "status": "Result by the strategy: passed, failed or error",
    },
    "failure_summary": {
        "count": "Plans of this class",
        "suites": "Suites where it occurs",
        "runners": "Runners where it occurs",
        "example": "Reason of the first example",
    },
    "cost_by_runner": {
        "executions": "Executions with a session report, of all sweeps",
        "cost_known": "Part of them whose cost is known",
        "cost_usd": "Sum of the known costs, USD; NULL: none is known",
        "input_tokens": "Sum over executions that report it; NULL when none does",
        "cached_input_tokens": "Sum over executions that report it",
        "output_tokens": "Sum over executions that report it",
        "grading_cost_usd": "Sum of the known costs of grading their answers, USD; NULL: none is known",
        "cost_per_execution_usd": "Mean of the known costs, USD",
    },
    "verdict_causes": {
        "cause": "case, runner, new answer, evaluator, grader, threshold, suite, …; several are separated by commas",
        "evaluators": "Names of the evaluators that are not as before; NULL: all are, or not recorded",
        "from_threshold": "Lowest passing score before",
        "to_threshold": "Lowest passing score after",
        "failure_class": "Why it does not pass now; NULL when it does",
        "reason": "The same as a message",
        "from_execution_id": "Id of the execution before",
        "to_execution_id": "Id of the execution after",
    },
    "stale_pairs": {
        "reason": "suite or runner: another revision is stored; not carried out, did not complete: plans are missing",
        "plans": "Plans concerned, at most",
    },
    "sweep_cells": {"suite_cells": "Plans of the whole suite for this runner: cases × repetitions"},
    "current_cells": {"suite_cells": "Plans of the whole suite for this runner: cases × repetitions"},
}


def column_comment(view: str, column: str) -> str:
    """Return the comment of a column of a view. Raises KeyError for one without."""
    computed = _COMPUTED.get(view, {})
    if column in computed:
        return computed[column]
    return {each.name: each.comment for each in BY_NAME[_SOURCES[view]].columns}[column]
