"""Reading the published results: what analysts and the command line open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from eval_pipeline.errors import InputError
from eval_pipeline.warehouse.macros import MACROS
from eval_pipeline.warehouse.parquet_files import ROWS_OF_BATCH, Convert, column_of, write_frames
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
        raise _of_query(error) from None


def _of_query(error: duckdb.Error) -> Exception:
    """Return what to raise for an error of DuckDB; damage is not the query's fault: the connection names the cure."""
    return error if is_damage(error) else InputError(f"SQL: {error}")


def write_parquet(connection: Connection, query: str, path: Path) -> int:
    """Write the rows of a user's query to a Parquet file, a batch at a time; return their number.

    The database itself may not write files. Raises InputError for a query that cannot be answered, a value that has no
    place in its column, and a file that cannot be written.
    """
    try:
        cursor = connection.execute(query)
        columns = {str(name): column_of(kind) for name, kind, *_ in cursor.description or ()}
        schema = {name: kind for name, (kind, _) in columns.items()}
        return write_frames(_frames(cursor, schema, [convert for _, convert in columns.values()]), schema, path)
    except duckdb.Error as error:
        raise _of_query(error) from None
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from None
    except (pl.exceptions.PolarsError, TypeError, OverflowError) as error:
        raise InputError(f"SQL: a value does not fit into its column, CAST it to DOUBLE or VARCHAR: {error}") from None


def _frames(cursor: Any, schema: Mapping[str, Any], converts: Sequence[Convert | None]) -> Iterator[pl.DataFrame]:
    while rows := cursor.fetchmany(ROWS_OF_BATCH):
        converted = (
            values if convert is None else map(convert, values)
            for values, convert in zip(zip(*rows, strict=True), converts, strict=True)
        )  # fmt: skip
        yield pl.DataFrame(
            [
                pl.Series(name, list(values), kind)
                for (name, kind), values in zip(schema.items(), converted, strict=True)
            ]
        )


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
