"""Values of the other rooms → rows of the tables, and back. Column names are those of `schema.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.executions.model import Artifact, Execution, RawExecution, Runner, WorkspaceTrace
from eval_pipeline.parsing.secrets import redacted
from eval_pipeline.reports.model import (
    DetectedSkill,
    Event,
    SessionReport,
    Usage,
    event_from_json,
    turn_positions,
    turn_start_from_json,
)
from eval_pipeline.scores.model import Finding, Score, Verdict
from eval_pipeline.suites.model import EvaluatorSpec, Suite

Row = dict[str, Any]


def suite_row(suite: Suite, errors: list[InputError], now: datetime) -> Row:
    """The `suites` row of a suite; `errors` are those of its cases."""
    return {
        "suite": suite.name,
        "suite_revision": suite.revision,
        "path": str(suite.path),
        "format": suite.format,
        "description": suite.description,
        "tags": suite.tags,
        "metadata": redacted(suite.metadata),
        "case_count": len(suite.cases),
        "invalid_cases": len(errors),
        "errors": [str(error) for error in errors],
        "warnings": suite.warnings,
        "loaded_at": now,
    }


def case_rows(suite: Suite) -> Iterator[Row]:
    """The `cases` rows of a suite."""
    for position, case in enumerate(suite.cases):
        yield {
            "suite": suite.name,
            "suite_revision": suite.revision,
            "case_id": case.id,
            "position": position,
            "line": case.line,
            "input": case.input,
            "criteria": case.criteria,
            "expected_output": case.expected_output,
            "tags": case.tags,
            "metadata": redacted(case.metadata),
            "evaluators": [_evaluator(spec) for spec in case.evaluators],
            "threshold": case.threshold,
            "expected_fail": case.expected_fail,
            "conversation": case.conversation,
            "workspace": case.workspace.fingerprint_fields() if case.workspace is not None else None,
            "depends_on": case.depends_on,
            "conversation_id": case.conversation_id,
            "case_group": case.group,
            "strategy": case.strategy,
        }


def _evaluator(spec: EvaluatorSpec) -> Row:
    return {name: getattr(spec, name) for name in spec.__dataclass_fields__} | {"config": redacted(spec.config)}


def runner_row(runner: Runner, revision: str, now: datetime) -> Row:
    """The `runners` row of a runner, secrets redacted."""
    return {
        "runner": runner.name,
        "runner_revision": revision,
        "adapter": runner.adapter,
        "model": runner.model,
        "tags": runner.tags,
        "settings": runner.public_settings,
        "used_at": now,
    }


def execution_row(
    execution: Execution, artifacts: tuple[Artifact, ...], inline: bool, sweep_id: str, runner_revision: str
) -> Row:
    """The `target_executions` row; `inline` is whether the raw payload stands in it (else it is an artifact)."""
    raw = execution.raw
    return {
        "execution_id": execution.execution_id,
        "key": execution.key,
        "suite": execution.suite,
        "runner": execution.runner,
        "case_id": execution.case_id,
        "repetition": execution.repetition,
        "sweep_id": sweep_id,
        "runner_revision": runner_revision,
        "completed": execution.completed,
        "failure_class": execution.failure_class,
        "error": execution.error,
        "started_at": execution.started_at,
        "finished_at": execution.finished_at,
        "selected_at": execution.finished_at,
        "duration_ms": execution.duration_ms,
        "attempt_count": len(execution.attempts),
        "attempts": execution.attempts,
        "exit_code": raw.exit_code if raw is not None else None,
        "format": raw.format if raw is not None else None,
        "raw": {"payload": raw.payload if inline else None, "duration_ms": raw.duration_ms}
        if raw is not None
        else None,
        "artifacts": artifacts,
        "workspace": _workspace(execution),
        "answered_by": execution.answered_by,
    }


def _workspace(execution: Execution) -> Row | None:
    trace = execution.workspace
    if trace is None:
        return None
    return {"path": str(trace.path) if trace.path else None, "changes": trace.changes, "hooks": trace.hooks}


def stored_execution(
    row: Mapping[str, Any], raw: RawExecution | None, workspace: Mapping[str, Any] | None
) -> Execution:
    """An execution read back; its attempts stay in the table."""
    return Execution(
        execution_id=row["execution_id"],
        key=row["key"],
        suite=row["suite"],
        case_id=row["case_id"],
        runner=row["runner"],
        repetition=row["repetition"],
        started_at=row["started_at"].replace(tzinfo=UTC),
        finished_at=row["finished_at"].replace(tzinfo=UTC),
        duration_ms=row["duration_ms"],
        attempts=(),
        raw=raw,
        failure_class=row["failure_class"],
        error=row["error"],
        workspace=_stored_workspace(workspace) if workspace is not None else None,
        answered_by=row["answered_by"],
    )


def _stored_workspace(stored: Mapping[str, Any]) -> WorkspaceTrace:
    """What is known of a workspace later: its folder may be gone or hold another session's work."""
    return WorkspaceTrace(changes=stored.get("changes"), hooks=stored.get("hooks") or {})


def report_row(report: SessionReport, execution: Execution, normalizer: str, now: datetime) -> Row:
    """The `session_reports` row of a report; its events are rows of their own."""
    usage = report.usage
    return {
        "execution_id": report.execution_id,
        "suite": execution.suite,
        "runner": execution.runner,
        "case_id": execution.case_id,
        "repetition": execution.repetition,
        "normalizer": normalizer,
        "final_output": report.final_output,
        "prompt": report.prompt,
        "session_id": report.session_id,
        "model": report.model,
        "agent_version": report.agent_version,
        "failure_class": report.failure_class,
        "error": report.error,
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "total_tokens": usage.total_tokens,
        "cost_usd": usage.cost_usd,
        "cost_source": usage.cost_source,
        "duration_ms": report.duration_ms,
        "ttft_ms": report.ttft_ms,
        "model_calls": report.model_calls,
        "tool_calls": len(report.tool_calls),
        "commands": len(report.commands),
        "file_reads": report.file_reads,
        "skills": report.skills,
        "event_count": len(report.events),
        "unknown_events": report.unknown_events,
        "unparsed_lines": report.unparsed_lines,
        "started_at": report.started_at,
        "ended_at": report.ended_at,
        "exit_code": report.exit_code,
        "selected_at": now,
        "file_changes": report.file_changes,
        "turns": report.turn_starts or None,
    }


_EVENT_TEXT = ("text", "command", "path", "output", "skill", "message")


def event_rows(report: SessionReport, execution: Execution) -> Iterator[Row]:
    """The `session_events` rows of a report."""
    turn, starts = 0, frozenset(turn_positions(report.events, report.turn_starts))
    for position, event in enumerate(report.events):
        turn += position in starts
        yield {
            "execution_id": report.execution_id,
            "suite": execution.suite,
            "runner": execution.runner,
            "case_id": execution.case_id,
            "position": position,
            "kind": event.kind,
            "text": next((getattr(event, name) for name in _EVENT_TEXT if hasattr(event, name)), None),
            "tool": getattr(event, "tool", None),
            "ok": _ok(event),
            "event": event,
            "turn": turn,
        }


def _ok(event: Event) -> bool | None:
    is_error = getattr(event, "is_error", None)
    if is_error is not None:
        return not is_error
    exit_code = getattr(event, "exit_code", None)
    return exit_code == 0 if exit_code is not None else getattr(event, "ok", None)


def stored_report(
    row: Mapping[str, Any],
    events: list[Mapping[str, Any]],
    skills: list[Mapping[str, Any]],
    unknown_events: Mapping[str, int],
    turns: list[Mapping[str, Any]],
) -> SessionReport:
    """A report read back from its row and its events; without `turns`, its events show them."""
    copied = (
        "execution_id", "final_output", "prompt", "session_id", "model", "agent_version", "exit_code",
        "failure_class", "error", "started_at", "ended_at", "duration_ms", "ttft_ms", "model_calls", "unparsed_lines",
        "file_changes",
    )  # fmt: skip
    counted = ("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
    return SessionReport(
        **{name: row[name] for name in copied},
        usage=Usage(**{name: row[name] for name in (*counted, "cost_usd", "cost_source")}),
        events=tuple(event_from_json(event) for event in events),
        unknown_events=unknown_events,
        skills=tuple(
            DetectedSkill(skill=skill["skill"], confidence=skill["confidence"], evidence=tuple(skill["evidence"]))
            for skill in skills
        ),
        turn_starts=tuple(map(turn_start_from_json, turns)),
    )


def score_row(score: Score, execution: Execution, sweep_id: str, now: datetime) -> Row:
    """The `evaluator_scores` row of a score."""
    return {
        "execution_id": score.execution_id,
        "suite": execution.suite,
        "runner": execution.runner,
        "case_id": execution.case_id,
        "repetition": execution.repetition,
        "spec_key": score.spec_key,
        "evaluator": score.evaluator,
        "type": score.type,
        "value": score.value,
        "reason": score.reason,
        "weight": score.weight,
        "minimum": score.minimum,
        "findings": score.findings,
        "failure_class": score.failure_class,
        "details": dict(score.details),
        "duration_ms": score.duration_ms,
        "scored_at": now,
        "sweep_id": sweep_id,
        "passes": score.passes,
    }


def member_rows(score: Score, execution: Execution, sweep_id: str, now: datetime) -> Iterator[Row]:
    """The `member_scores` rows of a score."""
    for position, member in enumerate(score.members):
        yield {
            "execution_id": score.execution_id,
            "suite": execution.suite,
            "runner": execution.runner,
            "case_id": execution.case_id,
            "repetition": execution.repetition,
            "spec_key": score.spec_key,
            "evaluator": score.evaluator,
            "position": position,
            "member": member.name,
            "type": member.type,
            "grader": member.grader,
            "value": member.value,
            "reason": member.reason,
            "weight": member.weight,
            "details": dict(member.details),
            "scored_at": now,
            "sweep_id": sweep_id,
        }


def stored_score(row: Mapping[str, Any], findings: list[Mapping[str, Any]], details: Mapping[str, Any]) -> Score:
    """A score read back."""
    names = ("execution_id", "spec_key", "evaluator", "type", "value", "reason", "weight", "minimum", "duration_ms")
    return Score(
        **{name: row[name] for name in names},
        failure_class=row["failure_class"],
        findings=tuple(Finding(**finding) for finding in findings),
        details=details,
        passes=row["passes"],
    )


def verdict_row(
    verdict: Verdict,
    execution: Execution,
    report: SessionReport,
    *,
    suite_revision: str,
    runner_revision: str,
    tags: tuple[str, ...],
    decision_key: str,
    normalizer: str,
    score_keys: list[str],
    sweep_id: str,
    now: datetime,
) -> Row:
    """The `verdicts` row of a decided cell."""
    return {
        "verdict_id": f"{execution.execution_id}-{int(now.timestamp() * 1_000_000):x}",
        "suite": execution.suite,
        "suite_revision": suite_revision,
        "runner": execution.runner,
        "runner_revision": runner_revision,
        "case_id": execution.case_id,
        "repetition": execution.repetition,
        "execution_id": execution.execution_id,
        "key": execution.key,
        "status": verdict.status.value,
        "score": verdict.score,
        "ungated_score": verdict.ungated_score,
        "threshold": verdict.threshold,
        "failure_class": verdict.failure_class,
        "reason": verdict.reason,
        "tags": tags,
        "decision_key": decision_key,
        "normalizer": normalizer,
        "score_keys": score_keys,
        "duration_ms": report.duration_ms,
        "input_tokens": report.usage.input_tokens,
        "output_tokens": report.usage.output_tokens,
        "cost_usd": report.usage.cost_usd,
        "decided_at": now,
        "sweep_id": sweep_id,
    }


def raw_from_row(
    raw: Mapping[str, Any] | None, row: Mapping[str, Any], files: Mapping[str, Path]
) -> RawExecution | None:
    """The raw execution of a `target_executions` row, its files where they lie now."""
    if raw is None or row["format"] is None:
        return None
    return RawExecution(
        format=row["format"],
        payload=raw.get("payload") or {},
        files=files,
        exit_code=row["exit_code"],
        duration_ms=raw.get("duration_ms"),
    )
