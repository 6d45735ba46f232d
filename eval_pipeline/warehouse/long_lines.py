"""Lines of journals, some as large as an answer: no line is read as a whole."""

from __future__ import annotations

import os
from pathlib import Path

LONG_LINE_BYTES = 2**20


def cut_torn_line(path: Path) -> None:
    """Truncate the file after its last newline: the rest is an incomplete line of a killed writer."""
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        at = size
        while at > 0:
            step = min(65_536, at)
            file.seek(at - step)
            newline = file.read(step).rfind(b"\n")
            if newline >= 0:
                file.truncate(at - step + newline + 1)
                return
            at -= step
        file.truncate(0)


def longest_line(path: Path) -> int:
    """Return the bytes of the longest line; for a small file its size, without reading it."""
    size = path.stat().st_size
    if size <= LONG_LINE_BYTES:
        return size
    longest = begun = 0
    with path.open("rb") as file:
        while part := file.read(LONG_LINE_BYTES):  # never a whole line: it may be as large as an answer
            first, *others = map(len, part.split(b"\n"))
            longest = max(longest, begun + first, *others)
            begun = others[-1] if others else begun + first
    return longest + 1
