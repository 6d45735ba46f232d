"""The engine that reads the newest snapshot of a lake. It is kept until there is another snapshot: to load DuckDB's
extensions and to attach a lake takes 0.3 s of CPU, ten times as much as a small query."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import duckdb

from eval_pipeline.warehouse.lake_engine import Engine

_PROBE = "SELECT count(*) FROM lake.schema_migrations"

_OF_PARENT: list[Engine] = []
"""Engines of the process that this one was forked from: it can neither use nor end them."""


class _Kept(NamedTuple):
    key: tuple[object, ...]
    engine: Engine


class LakeReader:
    """Gives connections of one engine, which threads share; a connection that had an error ends it."""

    def __init__(self) -> None:
        self._kept: _Kept | None = None
        self._turn = threading.RLock()

    def connection(self, key: tuple[object, ...], make: Callable[[], Engine]) -> Engine:
        """Return a new connection for what `key` names, of the kept engine if it is for that, else of what `make`
        returns. Raises duckdb.Error where the kept one has lost its server: it is forgotten then."""
        key = (*key, os.getpid())  # a forked child has no threads of the engine
        with self._turn:
            kept = self._kept
            if kept is None or kept.key != key:
                self.forget()
                kept = self._kept = _Kept(key, make())
            connection = kept.engine.cursor()
        with self._ending():
            connection.execute(_PROBE)
        return connection

    @contextmanager
    def used(self, connection: Engine) -> Iterator[None]:
        """Close a connection at the end of the block, which may read by it."""
        try:
            with self._ending():
                yield
        finally:
            with suppress(duckdb.Error):
                connection.close()

    def forget(self) -> None:
        """Close the engine; connections that others have of it go on."""
        with self._turn:
            kept, self._kept = self._kept, None
        if kept is None:
            return
        if kept.key[-1] != os.getpid():
            _OF_PARENT.append(kept.engine)
            return
        with suppress(duckdb.Error):
            kept.engine.close()

    @contextmanager
    def _ending(self) -> Iterator[None]:
        try:
            yield
        except duckdb.Error:
            self.forget()
            raise
