"""Conversations that are held: a file for each, so that a killed process repeats no call that finished.

Each entry is a line of its own that begins with a line break: one that was cut off damages no other. The file is
removed when the execution is in the journal of its pair.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.redaction import redact
from eval_pipeline.processes import parse_mark, this_process

_HOLDER = "held_by"


class OpenConversation:
    """The file of one conversation; its first entry names the process that holds it. Secrets are not written."""

    def __init__(self, path: Path, secrets: Callable[[], Sequence[str]]) -> None:
        self._path = path
        self._secrets = secrets
        self._begun = False
        self._taken = False

    def entries(self) -> Sequence[Mapping[str, Any]]:
        """Return the entries of a process that is gone; none where it still holds the conversation."""
        try:
            lines = self._path.read_bytes().split(b"\n")
        except OSError:
            return ()
        entries = [entry for line in lines if (entry := _parsed(line)) is not None]
        self._taken = _is_held(next((entry[_HOLDER] for entry in reversed(entries) if _HOLDER in entry), None))
        return () if self._taken else [entry for entry in entries if _HOLDER not in entry]

    def append(self, *entries: Mapping[str, Any]) -> None:
        """Write entries. Nothing is written to the file of another process."""
        if self._taken:
            return
        secrets = self._secrets()
        written = [redact(entry, secrets) if secrets else entry for entry in entries]
        if not self._begun:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._begun = True
            written.insert(0, {_HOLDER: str(this_process())})
        self._write(written)

    def _write(self, entries: Sequence[Mapping[str, Any]]) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, b"".join(b"\n" + to_json(entry) for entry in entries))
        finally:
            os.close(file)


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return entry if isinstance(entry, dict) else None


def _is_held(holder: object) -> bool:
    """Return whether another process that may be alive holds a conversation."""
    mark = parse_mark(holder) if isinstance(holder, str) else None
    return mark is not None and mark != this_process() and not mark.is_gone
