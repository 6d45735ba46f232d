"""Keeping a runner's secrets out of everything that is stored: errors, payloads and files.

A secret shorter than eight characters (`api_key: none`) is not looked for: it is a word like any other, and replacing
it would change answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from eval_pipeline.executions.model import Attempt, Execution, RawExecution, WorkspaceTrace
from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.secrets import REDACTED

SHORTEST_SECRET = 8


def without_secrets(execution: Execution, secrets: Sequence[str], own_files: Callable[[], Path]) -> Execution:
    """The execution with every secret text replaced by `***`, in it and in the files below `own_files`."""
    secrets = _looked_for(secrets)
    if not secrets:
        return execution
    if execution.raw is None or execution.raw.files or len(execution.attempts) > 1:
        _clean_files(own_files(), secrets)
    raw = _clean_raw(execution.raw, secrets) if execution.raw is not None else None
    workspace = _clean_trace(execution.workspace, secrets) if execution.workspace is not None else None
    untouched = raw is execution.raw and workspace is None
    if execution.error is None and untouched and len(execution.attempts) == 1:
        return execution
    return replace(
        execution,
        raw=raw,
        workspace=workspace,
        error=_clean_error(execution.error, secrets),
        attempts=tuple(_clean_attempt(attempt, secrets) for attempt in execution.attempts),
    )


def clean_files(folder: Path, secrets: Sequence[str]) -> None:
    """Replaces every secret text by `***` in the files below a folder."""
    found = _looked_for(secrets)
    if found:
        _clean_files(folder, found)


def _looked_for(secrets: Sequence[str]) -> list[str]:
    """The longest first: one may be part of another."""
    return sorted((secret for secret in secrets if len(secret) >= SHORTEST_SECRET), key=len, reverse=True)


def _clean_trace(trace: WorkspaceTrace, secrets: Sequence[str]) -> WorkspaceTrace:
    return replace(trace, changes=_clean_error(trace.changes, secrets), hooks=_clean_value(dict(trace.hooks), secrets))


def redact(value: Any, secrets: Sequence[str]) -> Any:
    """A value of JSON types with every secret text in it replaced; the very same value when it holds none."""
    text = to_json(value)
    found = [secret for secret in secrets if len(secret) >= SHORTEST_SECRET and _escaped(secret) in text]
    return _clean_value(orjson.loads(text), found) if found else value


def _clean_error(text: str | None, secrets: Sequence[str]) -> str | None:
    return _clean_text(text, secrets) if text is not None else None


def _clean_text(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return text


def _clean_attempt(attempt: Attempt, secrets: Sequence[str]) -> Attempt:
    return attempt if attempt.error is None else replace(attempt, error=_clean_error(attempt.error, secrets))


def _clean_raw(raw: RawExecution, secrets: Sequence[str]) -> RawExecution:
    payload = to_json(raw.payload)
    found = [secret for secret in secrets if _escaped(secret) in payload]
    return replace(raw, payload=_clean_value(orjson.loads(payload), found)) if found else raw


def _clean_value(value: Any, secrets: Sequence[str]) -> Any:
    if isinstance(value, str):
        return _clean_text(value, secrets)
    if isinstance(value, dict):
        return {_clean_text(key, secrets): _clean_value(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean_value(item, secrets) for item in value]
    return value


def _escaped(secret: str) -> bytes:
    """A secret as it stands inside JSON text."""
    return to_json(secret)[1:-1]


def _clean_files(folder: Path, secrets: Sequence[str]) -> None:
    """Every file that the execution left, those of failed attempts included."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            _clean_file(path, secrets)


def _clean_file(path: Path, secrets: Sequence[str]) -> None:
    content = path.read_bytes()
    redact = content
    for secret in secrets:
        redact = redact.replace(secret.encode(errors="surrogatepass"), REDACTED.encode())
    if redact != content:
        path.write_bytes(redact)
