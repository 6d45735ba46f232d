"""ResultRow → JSON under this project's names: what `json` and `jsonl` write for each plan. Unknown is absent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.reports.messages import known
from eval_pipeline.reports.model import SessionReport, Turn
from eval_pipeline.reports.moments import iso
from eval_pipeline.scores.model import Score, SubScore


def row_json(record: ResultRow) -> dict[str, Any]:
    """Return the known values of a plan. `status` and `score` are always present; `score` is None for `error`."""
    return {
        "suite": record.suite,
        "case_id": record.case_id,
        "runner": record.runner,
        "repetition": record.repetition,
        **_verdict(record),
        **known(_execution(record)),
        **_case(record),
        "scores": [_score(score, record.verdict.threshold) for score in record.scores],
        **(known(_session(record.report)) if record.report is not None else {}),
    }


def _verdict(record: ResultRow) -> dict[str, Any]:
    verdict = record.verdict
    details = {
        "ungated_score": verdict.ungated_score,
        "threshold": verdict.threshold,
        "failure_class": verdict.failure_class,
        "reason": verdict.reason,
        "incomplete": verdict.incomplete,
    }
    return {"status": verdict.status.value, "score": verdict.score, **known(details)}


def _execution(record: ResultRow) -> dict[str, Any]:
    return {
        "execution_id": record.execution_id,
        "sweep_id": record.sweep_id,
        "suite_revision": record.suite_revision,
        "runner_revision": record.runner_revision,
        "started_at": iso(record.started_at),
        "finished_at": iso(record.finished_at),
        "decided_at": iso(record.decided_at),
        "attempts": record.attempts,
        "adapter": record.adapter,
        "model": record.model,
        "answered_by": record.answered_by,
        "error": record.error,
        "hooks": dict(record.hooks) or None,
    }


def _case(record: ResultRow) -> dict[str, Any]:
    task, label = case_json(
        record.suite_path,
        record.input,
        record.expected_output,
        record.criteria,
        record.metadata,
        record.group,
        record.conversation_id,
    )
    return {**task, "tags": list(record.tags), **label}


def case_json(
    suite_path: str | None,
    input: Sequence[Mapping[str, Any]] | None,
    expected_output: Sequence[Mapping[str, Any]] | None,
    criteria: str | None,
    metadata: Mapping[str, Any] | None,
    group: str | None,
    conversation_id: str | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is known of a case: its task, and what it is called; the tags of a plan are between them."""
    task = {
        "suite_path": suite_path,
        "input": [_without_empty(message) for message in input or ()],
        "expected_output": [_without_empty(message) for message in expected_output or ()] or None,
        "criteria": criteria,
    }
    label = {"metadata": dict(metadata or {}) or None, "group": group, "conversation_id": conversation_id}
    return known(task), known(label)


def _without_empty(message: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if value not in (None, [], ())}


def _session(report: SessionReport) -> dict[str, Any]:
    return {
        "output": report.final_output,
        "session_id": report.session_id,
        "agent_version": report.agent_version,
        "retries_cost_usd": report.retries_cost_usd or None,
        "retries_cost_note": report.retries_cost_note,
        "usage": fields_json(report.usage) or None,
        "duration_ms": report.duration_ms,
        "ttft_ms": report.ttft_ms,
        "model_calls": report.model_calls,
        "turns": [turn_json(turn) for turn in report.turns] or None,
        "skills": [fields_json(skill) for skill in report.skills] or None,
        "commands": list(report.commands) or None,
        "file_reads": list(report.file_reads) or None,
        "file_changes": report.file_changes,
    }


def turn_json(turn: Turn) -> dict[str, Any]:
    """Return the known values of a turn."""
    parts = {
        "usage": fields_json(turn.usage) or None,
        "messages": [fields_json(message) for message in turn.messages] or None,
        "events": [fields_json(event) for event in turn.events] or None,
    }
    return known({**fields_json(turn), **parts})


def _score(score: Score, threshold: float) -> dict[str, Any]:
    """Return an evaluator's score; it passes by its own report, else by its gate, else by the case's threshold."""
    return {
        "evaluator": score.evaluator,
        "type": score.type,
        "value": score.value,
        "reason": score.reason,
        **known({
            "passed": score.passed(threshold if score.minimum is None else score.minimum),
            "weight": score.weight,
            "minimum": score.minimum,
            "failure_class": score.failure_class,
            "findings": [fields_json(finding) for finding in score.findings] or None,
            "details": dict(score.details) or None,
            "members": [_member(member) for member in score.members] or None,
            "duration_ms": score.duration_ms,
        }),
    }  # fmt: skip


def _member(member: SubScore) -> dict[str, Any]:
    return {**known(member._asdict()), "value": member.value, "details": dict(member.details)}


def fields_json(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that are not None."""
    return {name: field for name in _names(value.__class__) if (field := getattr(value, name)) is not None}


@lru_cache
def _names(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls))
