"""Reading the published results: what analysts and the command line open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from eval_pipeline.errors import WarehouseError


@contextmanager
def open_results(data: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A read-only connection to `results.duckdb`; what it reads stays as it is while a sweep publishes anew."""
    path = data / "results.duckdb"
    if not path.is_file():
        raise WarehouseError(f"no results at {path}: carry something out first (eval-pipeline run), or name --data")
    try:
        connection = duckdb.connect(str(path), read_only=True)
    except duckdb.Error as error:
        raise WarehouseError(f"{path} cannot be read: {error}") from None
    try:
        connection.execute("SET enable_external_access = false")  # a question writes no files
        _name_as_now(connection)
        yield connection
    finally:
        connection.close()


def _name_as_now(connection: duckdb.DuckDBPyConnection) -> None:
    """Give results that an older version published the present names of tables, for this connection only."""
    names = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    if ("sweep_cells",) in names:
        for old, new in (("sweep_cells", "sweep_pairs"), ("current_cells", "current_pairs")):
            connection.execute(f'CREATE TEMP VIEW "{new}" AS SELECT * RENAME (suite_cells AS suite_plans) FROM "{old}"')


def rows_frame(connection: duckdb.DuckDBPyConnection, query: str, values: Sequence[Any]) -> pl.DataFrame:
    """A small answer as a Polars frame."""
    cursor = connection.execute(query, list(values))
    names = [column[0] for column in cursor.description or ()]
    return pl.DataFrame(cursor.fetchall(), schema=names, orient="row", infer_schema_length=None)


def describe(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str, str]]:
    """Every table and view with its kind and comment, views first."""
    rows = connection.execute(
        """SELECT view_name, 'view', comment FROM duckdb_views() WHERE NOT internal
           UNION ALL SELECT table_name, 'table', comment FROM duckdb_tables() ORDER BY 2 DESC, 1"""
    ).fetchall()
    return [(str(name), str(kind), str(comment or "")) for name, kind, comment in rows]
