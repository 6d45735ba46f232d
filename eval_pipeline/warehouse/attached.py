"""A connection to the published file as it is now, whatever other connections of this process have open.

DuckDB shares one instance between the connections of a process to the same path: while one is open, another reads its
copy, which may have been replaced. An in-memory database attaches the file of today instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

from eval_pipeline.warehouse.engines import TEMPORARY, WITHOUT_PROGRESS, sql_text
from eval_pipeline.warehouse.scraps import scratch_path

_USE = "USE results"


class AttachedConnection:
    """A DuckDB connection whose cursors use the attached file as well; a cursor of DuckDB begins in memory."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, use: str = _USE) -> None:
        self._connection = connection
        self._use = use
        connection.execute(use)

    def cursor(self) -> AttachedConnection:
        """Return a connection to the same results."""
        return AttachedConnection(self._connection.cursor(), self._use)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def attached(path: Path) -> AttachedConnection:
    """Return a connection that reads the file at this path as it is. Raises duckdb.Error for an unreadable one."""
    connection = duckdb.connect(config={TEMPORARY: str(scratch_path(path.parent, "results", ".duckdb"))})
    try:
        connection.execute(WITHOUT_PROGRESS)
        connection.execute(f"ATTACH {sql_text(str(path))} AS results (READ_ONLY)")
        return AttachedConnection(connection)
    except duckdb.Error:
        connection.close()
        raise
