"""Reading the published results: what analysts and the command line open."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from eval_pipeline.errors import InputError
from eval_pipeline.warehouse.macros import MACROS
from eval_pipeline.warehouse.publishing import is_damage
from eval_pipeline.warehouse.store import Connection, open_warehouse


def open_results(where: str | Path) -> AbstractContextManager[Connection]:
    """Yield a read-only connection to the published results of a data folder or a warehouse URL.

    The connection keeps reading the same results while a sweep publishes newer ones; one that is opened afterwards
    reads the newer ones, also while the first is open.
    Raises WarehouseError when nothing was published.
    """
    return open_warehouse(where).published()


def answer(connection: Connection, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the column names and rows of a user's query. Raises InputError for one that cannot be answered."""
    try:
        cursor = connection.execute(query)
        return [str(column[0]) for column in cursor.description or ()], cursor.fetchall()
    except duckdb.Error as error:
        if is_damage(error):  # not the query's fault: the connection names the cure
            raise
        raise InputError(f"SQL: {error}") from None


def write_parquet(connection: Connection, query: str, path: Path) -> int:
    """Write the rows of a user's query to a Parquet file, all of them in memory; return their number.

    The database itself may not write files. Raises InputError for a query that cannot be answered, and a file that
    cannot be written.
    """
    names, rows = answer(connection, query)
    frame = pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)
    try:
        frame.write_parquet(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error}") from None
    return frame.height


def rows_frame(connection: Connection, query: str, values: Sequence[Any]) -> pl.DataFrame:
    """A small answer as a Polars frame."""
    cursor = connection.execute(query, list(values))
    names = [column[0] for column in cursor.description or ()]
    return pl.DataFrame(cursor.fetchall(), schema=names, orient="row", infer_schema_length=None)


def describe(connection: Connection) -> list[tuple[str, str, str]]:
    """Every table, view and macro with its kind and comment: views first, then tables, then macros."""
    rows = connection.execute(
        """SELECT view_name, 'view', comment FROM duckdb_views() WHERE NOT internal
           UNION ALL SELECT table_name, 'table', comment FROM duckdb_tables() ORDER BY 2 DESC, 1"""
    ).fetchall()
    functions = connection.execute("SELECT DISTINCT function_name FROM duckdb_functions() WHERE NOT internal")
    stored = {name for (name,) in functions.fetchall()}
    macros = [(macro.signature, "macro", macro.comment) for macro in MACROS if macro.name in stored]
    return [*((str(name), str(kind), str(comment or "")) for name, kind, comment in rows), *macros]
