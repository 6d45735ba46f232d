"""Recognizes that a disk is full, or that a file is as long as a limit allows, in the errors of every library."""

from __future__ import annotations

import errno
from collections.abc import Iterator

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_TEXTS = (
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "database or disk is full",
    "disk I/O error",
)
"""What DuckDB, SQLite and Polars report; SQLite's last one is also that of a damaged disk."""
CURE = "what was stored before is kept: free the disk (or raise the limit of file sizes) and start again"


def full_disk(error: BaseException) -> str | None:
    """Return one line that names the place and the cure when an error means that a disk is full, else None."""
    for each in _causes(error):
        place = getattr(each, "filename", None)
        where = f"{place} cannot be written" if place else "a file cannot be written"
        if getattr(each, "errno", None) in FULL:
            return f"the disk is full: {where}; {CURE}"
        text = _text_in(_message(each))
        if text is not None:
            return f"the disk is full: {where} ({text}); {CURE}"
    return None


def full_disk_message(message: str) -> str | None:
    """Return the same for the message of an error that is only known as text."""
    text = _text_in(message)
    return f"the disk is full: a file cannot be written ({text}); {CURE}" if text is not None else None


def _text_in(message: str) -> str | None:
    return next((text for text in _TEXTS if text in message), None)


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
