"""Files and folders that only their owner may read, while this process writes below a data folder.

The rights come from the umask of the process, so that files of DuckDB, SQLite and Dagster have them: 0600 for files
and 0700 for folders. Files that exist keep their rights. Programs that are started have the umask that was set before.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_PRIVATE = 0o077
UNCHANGED = -1
"""The umask for `subprocess` that means: that of this process."""


class _Umask:
    """The umask of the process, changed while any block of any thread is inside."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._inside = 0
        self.before = UNCHANGED

    def enter(self) -> None:
        with self._turn:
            if not self._inside:
                self.before = os.umask(_PRIVATE)
            self._inside += 1

    def leave(self) -> None:
        with self._turn:
            self._inside -= 1
            if not self._inside:
                os.umask(self.before)
                self.before = UNCHANGED


_UMASK = _Umask()


@contextmanager
def private_files() -> Iterator[None]:
    """Let what is written inside be readable for its owner only."""
    _UMASK.enter()
    try:
        yield
    finally:
        _UMASK.leave()


def umask_of_programs() -> int:
    """Return the umask for programs that are started: what they write is theirs."""
    return _UMASK.before
