"""Keeping a runner's secrets out of everything that is stored: errors, payloads and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from eval_pipeline.executions.model import Attempt, Execution, RawExecution
from eval_pipeline.fingerprints import to_json

REDACTED = "***"


def without_secrets(execution: Execution, secrets: Sequence[str], own_files: Callable[[], Path]) -> Execution:
    """The execution with every secret text replaced by `***`; of files, only those below `own_files` are rewritten."""
    if not secrets:
        return execution
    raw = _clean_raw(execution.raw, secrets, own_files) if execution.raw is not None else None
    if execution.error is None and raw is execution.raw and len(execution.attempts) == 1:
        return execution
    return replace(
        execution,
        raw=raw,
        error=_clean_text(execution.error, secrets),
        attempts=tuple(_clean_attempt(attempt, secrets) for attempt in execution.attempts),
    )


def _clean_text(text: str | None, secrets: Sequence[str]) -> str | None:
    if text is None:
        return None
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return text


def _clean_attempt(attempt: Attempt, secrets: Sequence[str]) -> Attempt:
    return attempt if attempt.error is None else replace(attempt, error=_clean_text(attempt.error, secrets))


def _clean_raw(raw: RawExecution, secrets: Sequence[str], own_files: Callable[[], Path]) -> RawExecution:
    for path in raw.files.values():
        if path.is_relative_to(own_files()):
            _clean_file(path, secrets)
    payload = to_json(raw.payload)
    found = [secret for secret in secrets if _escaped(secret) in payload]
    return replace(raw, payload=_clean_json(payload, found)) if found else raw


def _clean_json(payload: bytes, secrets: Sequence[str]) -> Any:
    for secret in secrets:
        payload = payload.replace(_escaped(secret), REDACTED.encode())
    return orjson.loads(payload)


def _escaped(secret: str) -> bytes:
    """A secret as it stands inside JSON text."""
    return to_json(secret)[1:-1]


def _clean_file(path: Path, secrets: Sequence[str]) -> None:
    content = path.read_bytes()
    cleaned = content
    for secret in secrets:
        cleaned = cleaned.replace(secret.encode(), REDACTED.encode())
    if cleaned != content:
        path.write_bytes(cleaned)
