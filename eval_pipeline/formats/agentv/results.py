"""Result row → AgentV result: the keys of its result rows, in snake case, with the values that are known.

An ungraded plan has `score: null` here and `execution_status: execution_error`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from eval_pipeline.failures import FAILURE_CLASSES, Origin
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.reports.messages import known, output_messages, token_counts
from eval_pipeline.reports.model import Usage
from eval_pipeline.reports.moments import iso
from eval_pipeline.scores.model import Score, Status, SubScore
from eval_pipeline.scores.trace import summarize_trace, trace_json

STATUSES = {
    Status.PASSED: "ok",
    Status.EXPECTED_FAILED: "ok",
    Status.FAILED: "quality_failure",
    Status.UNEXPECTED_PASSED: "quality_failure",
    Status.ERROR: "execution_error",
}
_STAGES_BY_ORIGIN = {
    Origin.TARGET: ("agent", "provider_error"),
    Origin.INFRASTRUCTURE: ("agent", "provider_error"),
    Origin.HARNESS: ("setup", "setup_error"),
    Origin.SIMULATOR: ("setup", "setup_error"),
    Origin.GRADER: ("evaluator", "evaluator_error"),
}
_STAGES_BY_CLASS = {
    "budget-exceeded": ("setup", "budget_exceeded"),
    "stopped": ("setup", "error_threshold_exceeded"),
    "dependency-failed": ("setup", "dependency_failed"),
    "cancelled": ("agent", "provider_error"),
    "adapter": ("agent", "provider_error"),
    "normalization": ("agent", "provider_error"),
    "recording-missing": ("agent", "provider_error"),
}


def failure_stage(class_id: str | None) -> tuple[str, str] | None:
    """Return AgentV's stage and reason code of a failure class; None for quality failures, which have neither."""
    known = FAILURE_CLASSES.get(class_id or "")
    if known is None or known.graded:
        return None
    return _STAGES_BY_CLASS.get(known.id) or _STAGES_BY_ORIGIN[known.origin]


def result_json(record: ResultRow) -> dict[str, Any]:
    """Return a plan under AgentV's names, and under ours where AgentV has none; unknown values are absent."""
    return known({
        **index_fields(record),
        "score": record.verdict.score,
        **_ours(record),
        "assertions": [assertion for score in record.scores for assertion in assertions(score, _mark(record))],
        "token_usage": token_usage(record),
        **costs(record),
        "duration_ms": record.duration_ms,
        "start_time": iso(record.started_at),
        "end_time": iso(record.finished_at),
        "input": [_message(message) for message in record.input],
        "expected_output": [_message(message) for message in record.expected_output] or None,
        **_session(record),
        **{f"{hook}_output": printed for hook, printed in record.hooks.items()},
        "execution_error": _execution_error(record),
    }) | {"score": record.verdict.score}  # fmt: skip


def costs(record: ResultRow) -> dict[str, Any]:
    """Return what the answer cost, as AgentV has it, and what was paid beside it, which AgentV does not know."""
    report = record.report
    if report is None:
        return {}
    beside = {"retries_cost_usd": report.retries_cost_usd or None, "retries_cost_note": report.retries_cost_note}
    return {"cost_usd": report.usage.cost_usd, **beside}


def index_fields(record: ResultRow) -> dict[str, Any]:
    """Return the fields of a row of `index.jsonl`, without the score and the paths."""
    stage, code = failure_stage(record.verdict.failure_class) or (None, None)
    failed = record.verdict.status is Status.ERROR
    return known({
        "timestamp": iso(record.finished_at or record.decided_at),
        "test_id": record.case_id,
        "suite": record.suite,
        "category": record.category,
        "conversation_id": record.conversation_id,
        "target": record.runner,
        "scores": list(chain.from_iterable(_scores(score, _mark(record)) for score in record.scores)),
        "execution_status": STATUSES[record.verdict.status],
        "error": (record.error or record.verdict.reason) if failed else None,
        "failure_stage": stage if failed else None,
        "failure_reason_code": code if failed else None,
        "workspace_path": record.workspace_path,
    })  # fmt: skip


def _ours(record: ResultRow) -> dict[str, Any]:
    """Return the fields that AgentV has no name for."""
    verdict = record.verdict
    return {
        "repetition": record.repetition,
        "status": verdict.status.value,
        "ungated_score": verdict.ungated_score,
        "threshold": verdict.threshold,
        "failure_class": verdict.failure_class,
        "reason": verdict.reason,
        "tags": list(record.tags),
        "group": record.group,
        "criteria": record.criteria,
        "metadata": dict(record.metadata) or None,
        "execution_id": record.execution_id,
        "attempts": record.attempts,
        "target_used": record.answered_by,
        "model": record.model,
        "suite_path": record.suite_path,
        "suite_revision": record.suite_revision,
        "runner_revision": record.runner_revision,
        "sweep_id": record.sweep_id,
    }


def _session(record: ResultRow) -> dict[str, Any]:
    report = record.report
    if report is None:
        return {}
    trace = summarize_trace(report)
    return {
        "session_id": report.session_id,
        "output": output_messages(report),
        "trace": trace_json(trace) if trace is not None else None,
        "skills": [skill.skill for skill in report.skills] or None,
        "commands": list(report.commands) or None,
        "file_reads": list(report.file_reads) or None,
        "file_changes": report.file_changes,
    }


def _execution_error(record: ResultRow) -> dict[str, Any] | None:
    if record.verdict.status is not Status.ERROR:
        return None
    stage, _ = failure_stage(record.verdict.failure_class) or (None, None)
    return known({"message": record.error or record.verdict.reason, "stage": stage})


def _mark(record: ResultRow) -> float:
    return record.verdict.threshold


def evaluator_json(score: Score, mark: float) -> dict[str, Any]:
    """Return one evaluator's result; it passes by its gate, else by the case's threshold, never by a fixed mark.

    AgentV's `skip` marks a missing score; the number beside it is 0 because its readers require one.
    """
    return known({
        "name": score.evaluator,
        "type": score.type,
        "score": score.value if score.value is not None else 0,
        "weight": score.weight,
        "verdict": _word(score.passed(mark if score.minimum is None else score.minimum)),
        "assertions": assertions(score, mark),
        "reasoning": score.reason,
        "details": dict(score.details) or None,
        "scores": [_member(member, mark) for member in score.members] or None,
        "duration_ms": score.duration_ms,
    })  # fmt: skip


def _scores(score: Score, mark: float) -> Iterator[dict[str, Any]]:
    """Yield the row of an evaluator; of a conversation whose turns are aggregated those of its turns."""
    if any(member.type == "turn" for member in score.members):
        yield from (_member(member, mark) for member in score.members)
    else:
        yield evaluator_json(score, mark)


def _member(member: SubScore, mark: float) -> dict[str, Any]:
    """Return the row of a member; it passes by its own decision, else by the case's threshold."""
    details = dict(member.details)
    nested = details.pop("members", None) or ()
    return known({
        "name": member.name,
        "type": member.type,
        "score": member.value if member.value is not None else 0,
        "weight": member.weight,
        "verdict": _word(member.passed(mark)),
        "reasoning": member.reason,
        "target": member.grader,
        "details": details or None,
        "scores": [_member(SubScore(**each), mark) for each in nested] or None,
    })  # fmt: skip


def _word(passed: bool | None) -> str:
    return "skip" if passed is None else "pass" if passed else "fail"


def assertions(score: Score, mark: float) -> list[dict[str, Any]]:
    """Return the findings of an evaluator; without findings, its reason as one; unscored, nothing."""
    if score.findings:
        return [{"text": each.text, "passed": each.passed, "evidence": each.evidence or ""} for each in score.findings]
    passed = score.passed(mark if score.minimum is None else score.minimum)
    return [] if passed is None else [{"text": score.reason, "passed": passed, "evidence": ""}]


def token_usage(record: ResultRow) -> dict[str, int] | None:
    """Return token counts in AgentV's convention (input without cache reads); None without any count."""
    usage = record.report.usage if record.report is not None else Usage()
    return token_counts(usage) or None


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if value not in (None, [], ())}
