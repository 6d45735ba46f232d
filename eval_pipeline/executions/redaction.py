"""An execution without secrets: errors, payloads, traces and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from eval_pipeline.executions.model import Attempt, Execution, RawExecution, WorkspaceTrace
from eval_pipeline.parsing.redacted_files import redact_files
from eval_pipeline.parsing.redaction import KNOWN, Redactor


def without_secrets(execution: Execution, secrets: Sequence[str], own_files: Callable[[], Path]) -> Execution:
    """The execution with every known secret, and each of `secrets`, replaced by `***`, in it and in the files below
    `own_files`. Of a failed one also the pieces that a cut leaves: its output may end anywhere."""
    redactor = KNOWN.redactor(secrets)
    if not redactor:
        return execution
    if execution.raw is None or execution.raw.files or len(execution.attempts) > 1:
        cut = execution.failure_class is not None or len(execution.attempts) > 1
        redact_files(own_files(), secrets, cut=cut)
    raw = _redact_raw(execution.raw, redactor) if execution.raw is not None else None
    workspace = _redact_trace(execution.workspace, redactor) if execution.workspace is not None else None
    untouched = raw is execution.raw and workspace is None
    if execution.error is None and untouched and len(execution.attempts) == 1:
        return execution
    return replace(
        execution,
        raw=raw,
        workspace=workspace,
        error=_redact_error(execution.error, redactor),
        attempts=tuple(_redact_attempt(attempt, redactor) for attempt in execution.attempts),
    )


def _redact_trace(trace: WorkspaceTrace, redactor: Redactor) -> WorkspaceTrace:
    changes = redactor.text(trace.changes) if trace.changes is not None else None
    hooks = {name: redactor.text(text, cut=True) if isinstance(text, str) else redactor.value(text)
             for name, text in trace.hooks.items()}  # fmt: skip
    return replace(trace, changes=changes, hooks=hooks)


def _redact_error(text: str | None, redactor: Redactor) -> str | None:
    """Messages have the ends and beginnings of outputs in them."""
    return redactor.text(text, cut=True) if text is not None else None


def _redact_attempt(attempt: Attempt, redactor: Redactor) -> Attempt:
    return attempt if attempt.error is None else replace(attempt, error=_redact_error(attempt.error, redactor))


def _redact_raw(raw: RawExecution, redactor: Redactor) -> RawExecution:
    payload = redactor.value(raw.payload)
    return raw if payload is raw.payload else replace(raw, payload=payload)
