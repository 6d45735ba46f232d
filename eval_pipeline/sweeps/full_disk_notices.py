"""Dagster's own notices of a full disk, left out: a run ends with one line that names the cure."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eval_pipeline.exhaustion import exhaustion_message

_NOTICE = "Exception while writing logger call to event log"
"""What Dagster prints, for each event that it cannot store, before it raises the error itself."""


class _WithoutNotices:
    """A stream without Dagster's notices of a full disk; everything else is passed on."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if text.startswith(_NOTICE) and exhaustion_message(text) is not None:
            return len(text)
        written: int = self._stream.write(text)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def without_full_disk_notices() -> Iterator[None]:
    """Leave out what Dagster prints about a full disk inside, on `sys.stderr`; its errors are raised all the same."""
    before = sys.stderr
    ours: Any = _WithoutNotices(before)
    sys.stderr = ours
    try:
        yield
    finally:
        if sys.stderr is ours:  # a caller may have replaced it meanwhile
            sys.stderr = before
