"""Cache of grader replies, by the content of the request, one file each: a repeated request costs nothing.

Files rather than a table: a reply must be on disk as soon as it arrives, and several processes write at once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.redaction import redact_line
from eval_pipeline.warehouse.shared_files import SharedFiles


class Replies:
    """The replies in a folder, by key (64 hex digits), and those of other machines where they have files in common."""

    def __init__(self, folder: Path, shared: SharedFiles | None = None) -> None:
        self._folder = folder
        self._shared = shared

    async def get(self, key: str) -> Mapping[str, Any] | None:
        """Return the reply of a key; None without a readable one."""
        try:
            return _reply(self._path(key).read_bytes())
        except OSError:
            pass
        if self._shared is None:
            return None
        content = await asyncio.to_thread(self._shared.reply, key)
        return None if content is None else _reply(content)

    def put(self, key: str, reply: Mapping[str, Any]) -> None:
        """Store a reply; concurrent readers see it whole or not at all."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        content = redact_line(to_json(reply))
        part.write_bytes(content)
        part.replace(path)
        if self._shared is not None:
            self._shared.keep_reply(key, content)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"


def _reply(content: bytes) -> Mapping[str, Any] | None:
    try:
        reply = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return reply if isinstance(reply, dict) else None
