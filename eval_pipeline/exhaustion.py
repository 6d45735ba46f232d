"""Recognizes, in the errors of every library, that the disk is full or that memory is used up."""

from __future__ import annotations

import errno
from collections.abc import Iterator

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL_TEXTS = (
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "database or disk is full",
    "disk I/O error",
)
"""What DuckDB, SQLite and Polars report; SQLite's last one is also that of a damaged disk."""
_MEMORY_TEXTS = (
    "Out of Memory",
    "bad allocation",
    "std::bad_alloc",
    "Cannot allocate memory",
    "failed to map segment",
    "can't start new thread",
    "MemoryError",
)
"""What DuckDB, the loader of libraries, and Python report."""
_KEPT = "what was stored before is kept: "
CURE = f"{_KEPT}free the disk (or raise the limit of file sizes) and start again"
MEMORY_CURE = (
    f"{_KEPT}raise the limit (`ulimit -v`, of the container, or `warehouse_memory_mb`) or lower the concurrency, "
    "and start again"
)


def exhaustion(error: BaseException) -> str | None:
    """Return one line with the place and the cure when an error means a full disk or no memory, else None."""
    for each in _causes(error):
        place = getattr(each, "filename", None)
        number = getattr(each, "errno", None)
        if number in _FULL:
            return f"the disk is full: {place or 'a file'} cannot be written; {CURE}"
        if isinstance(each, MemoryError) or number == errno.ENOMEM:
            return f"memory is used up; {MEMORY_CURE}"
        named = exhaustion_message(_message(each))
        if named is not None:
            return named
    return None


def exhaustion_message(message: str) -> str | None:
    """Return the same for the message of an error that is only known as text."""
    for texts, sentence in (
        (_FULL_TEXTS, f"the disk is full: a file cannot be written ({{}}); {CURE}"),
        (_MEMORY_TEXTS, f"memory is used up ({{}}); {MEMORY_CURE}"),
    ):
        text = next((text for text in texts if text in message), None)
        if text is not None:
            return sentence.format(text)
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it came from, the first cause last."""
    seen: set[int] = set()
    rest = [error]
    while rest:
        each = rest.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        rest += [cause for cause in (each.__context__, each.__cause__) if cause is not None]


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 — the message of foreign code may itself raise
        return ""
