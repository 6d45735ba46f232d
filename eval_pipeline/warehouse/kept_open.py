"""A database file that stays open between the transactions of a sweep, as long as no other process wants it.

To open a file DuckDB reads the whole schema, to close it after a write it writes all of it: together 20 ms of CPU, more
than most transactions of a sweep take.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import duckdb

from eval_pipeline.warehouse.waiting import last_wanted

KEPT_S = 2.0
"""How long a file stays open without a transaction."""
SHARED_S = 2.0
"""How long it is closed after each transaction when another process wanted it."""
LOOK_EVERY_S = 0.05
Open = Callable[[], AbstractContextManager[duckdb.DuckDBPyConnection]]
_FILES: weakref.WeakSet[KeptFile] = weakref.WeakSet()


class KeptFile:
    """A file that is opened for a transaction, and stays open for the next one inside a block of `kept`."""

    def __init__(self, turn: AbstractContextManager[object], lock: Path, open_: Open) -> None:
        """`open_` opens the file and holds the `lock` of processes; `turn` is the lock of threads."""
        self._turn = turn
        self._lock = lock
        self._open = open_
        self._blocks = 0
        self._kept: tuple[ExitStack, duckdb.DuckDBPyConnection] | None = None
        self._wanted_before: int | None = None
        self._kept_until = self._shared_until = 0.0
        self._watcher: threading.Thread | None = None

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Inside the block the file may stay open after a transaction."""
        with self._turn:
            self._blocks += 1
        try:
            yield
        finally:
            with self._turn:
                self._blocks -= 1
                if not self._blocks:
                    self.close()

    @contextmanager
    def engine(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield an engine that has the file open, for one transaction. The caller has the turn; an error closes it."""
        closing, engine = self._kept or self._opened()
        self._kept = None
        with closing:
            yield engine
            if self._blocks and not self._is_wanted():
                self._keep(closing.pop_all(), engine)

    def close(self) -> None:
        """Close the file, unless a transaction is under way."""
        with self._turn:
            if self._kept is not None:
                closing, _ = self._kept
                self._kept = None
                closing.close()

    def _opened(self) -> tuple[ExitStack, duckdb.DuckDBPyConnection]:
        with ExitStack() as opening:
            engine = opening.enter_context(self._open())
            self._wanted_before = last_wanted(self._lock)
            return opening.pop_all(), engine

    def _keep(self, closing: ExitStack, engine: duckdb.DuckDBPyConnection) -> None:
        self._kept = closing, engine
        self._kept_until = time.monotonic() + KEPT_S
        _FILES.add(self)
        if self._watcher is None or not self._watcher.is_alive():  # a forked process has the thread no more
            self._watcher = threading.Thread(target=self._watch, name="kept-open", daemon=True)
            self._watcher.start()

    def _is_wanted(self) -> bool:
        """Return whether another process waits for the file, or did so shortly before."""
        if last_wanted(self._lock) != self._wanted_before:
            self._shared_until = time.monotonic() + SHARED_S
        return time.monotonic() < self._shared_until

    def _watch(self) -> None:
        """Close the file as soon as another process waits for it, or nobody used it for long."""
        while True:
            time.sleep(LOOK_EVERY_S)
            with self._turn:
                if self._kept is not None and (self._is_wanted() or time.monotonic() > self._kept_until):
                    self.close()
                if self._kept is None:
                    self._watcher = None
                    return


def _close_all() -> None:
    for file in list(_FILES):
        file.close()


if hasattr(os, "register_at_fork"):  # not on every system
    os.register_at_fork(before=_close_all)  # a forked process must not use the engine of its parent
