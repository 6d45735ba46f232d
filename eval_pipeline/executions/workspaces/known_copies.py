"""Snapshots of copies of one template: what the first session's git has read is not read again for the next ones.

A file counts as the template's by its status: of the same kind, permissions, size and time of change as in the first
copy, and not touched since the copy was complete. The kernel notes that last time, and no program can set it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_GIT = ".git"
_TICK_S = 0.001
_LONGEST_TICK_S = 0.1


@dataclass(frozen=True, slots=True)
class Origin:
    """What a folder was filled with: the identity of the template and further files, and when the copy was complete."""

    key: Hashable
    filled_ns: int


@dataclass(frozen=True, slots=True)
class FileStatus:
    """The status of a file or link: `content` is equal in copies of the same file, `inode` is not."""

    content: tuple[int, int, int]
    inode: int
    touched_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCopy:
    """The snapshot of an untouched copy: its tree, its index, the names in the index, and the status of all files."""

    tree: str
    index: Path
    indexed: frozenset[str]
    files: Mapping[str, FileStatus]

    def unchanged(self, files: Mapping[str, FileStatus], first: Mapping[str, FileStatus], since_ns: int) -> set[str]:
        """Return which of the files are as the template has them; `first` are those of the same folder at first."""
        return {
            name
            for name, status in files.items()
            if status.touched_ns <= since_ns
            and (known := self.files.get(name)) is not None
            and status.content == known.content
            and ((before := first.get(name)) is None or before.inode == status.inode)
        }


def moment_after_copy() -> int:
    """Return the time, in nanoseconds since 1970, once every later change of a file will have a later time.

    Times of files advance with the ticks of the kernel, which are some milliseconds apart.
    """
    now = time.time_ns()
    coarse = getattr(time, "CLOCK_REALTIME_COARSE", None)
    if coarse is None:
        time.sleep(_LONGEST_TICK_S)
        return now
    deadline = time.monotonic() + _LONGEST_TICK_S
    while time.clock_gettime_ns(coarse) <= now and time.monotonic() < deadline:
        time.sleep(_TICK_S)
    return now


def statuses(folder: Path) -> dict[str, FileStatus] | None:
    """Return the status of every file and link below a folder; None where it holds a repository. Raises OSError."""
    files: dict[str, FileStatus] = {}
    for name, status in _below(str(folder), ""):
        if status is None:
            return None
        files[name] = FileStatus(
            (status.st_mode, status.st_size, status.st_mtime_ns), status.st_ino, status.st_ctime_ns
        )
    return files


def _below(folder: str, prefix: str) -> Iterator[tuple[str, os.stat_result | None]]:
    """Yield names and statuses; a status of None for the `.git` of a repository."""
    with os.scandir(f"{folder}/{prefix}") as entries:
        for entry in entries:
            if entry.name == _GIT:
                yield entry.name, None
                continue
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                yield from _below(folder, f"{prefix}{entry.name}/")
            else:
                yield f"{prefix}{entry.name}", status
