"""An execution without its runner's secrets: errors, payloads, traces and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from eval_pipeline.executions.model import Attempt, Execution, RawExecution, WorkspaceTrace
from eval_pipeline.parsing.redaction import longest_first, redact, redact_files, redact_text


def without_secrets(execution: Execution, secrets: Sequence[str], own_files: Callable[[], Path]) -> Execution:
    """The execution with every secret replaced by `***`, in it and in the files below `own_files`."""
    secrets = longest_first(secrets)
    if not secrets:
        return execution
    if execution.raw is None or execution.raw.files or len(execution.attempts) > 1:
        redact_files(own_files(), secrets)
    raw = _redact_raw(execution.raw, secrets) if execution.raw is not None else None
    workspace = _redact_trace(execution.workspace, secrets) if execution.workspace is not None else None
    untouched = raw is execution.raw and workspace is None
    if execution.error is None and untouched and len(execution.attempts) == 1:
        return execution
    return replace(
        execution,
        raw=raw,
        workspace=workspace,
        error=_redact_error(execution.error, secrets),
        attempts=tuple(_redact_attempt(attempt, secrets) for attempt in execution.attempts),
    )


def _redact_trace(trace: WorkspaceTrace, secrets: Sequence[str]) -> WorkspaceTrace:
    return replace(trace, changes=_redact_error(trace.changes, secrets), hooks=redact(dict(trace.hooks), secrets))


def _redact_error(text: str | None, secrets: Sequence[str]) -> str | None:
    return redact_text(text, secrets) if text is not None else None


def _redact_attempt(attempt: Attempt, secrets: Sequence[str]) -> Attempt:
    return attempt if attempt.error is None else replace(attempt, error=_redact_error(attempt.error, secrets))


def _redact_raw(raw: RawExecution, secrets: Sequence[str]) -> RawExecution:
    payload = redact(raw.payload, secrets)
    return raw if payload is raw.payload else replace(raw, payload=payload)
