"""Cache of grader replies, by the content of the request, one file each: a repeated request costs nothing.

Files rather than a table: a reply must be on disk as soon as it arrives, and several processes write at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.redaction import redact_line


class Replies:
    """The replies in a folder, by key (64 hex digits)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> Mapping[str, Any] | None:
        """Return the reply of a key; None without a readable one."""
        try:
            reply = orjson.loads(self._path(key).read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return None
        return reply if isinstance(reply, dict) else None

    def put(self, key: str, reply: Mapping[str, Any]) -> None:
        """Store a reply; concurrent readers see it whole or not at all."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(redact_line(to_json(reply)))
        part.replace(path)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"
