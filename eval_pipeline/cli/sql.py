"""`eval-pipeline sql`: SQL queries over the published results."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import click

from eval_pipeline.cli.options import open_project, project_options
from eval_pipeline.cli.published_results import open_published
from eval_pipeline.cli.tables import (
    Layout,
    is_too_wide,
    print_blocks,
    print_rows,
    table_console,
    unlimited_console,
)
from eval_pipeline.cli.terminal import echo, echo_csv, echo_json
from eval_pipeline.errors import InputError
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.parsing.source import show_path
from eval_pipeline.warehouse.published import answer, describe, write_parquet
from eval_pipeline.warehouse.store import Connection


@click.command(name="sql")
@click.argument("query", required=False)
@project_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
@click.option(
    "--csv", "as_csv", is_flag=True, help="CSV with a header line; a `'` before texts that look like formulas."
)
@click.option(
    "--parquet",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the rows to a Parquet file.",
)
@click.option(
    "--lines/--table", "in_lines", default=None,
    help="One field a line, or one row a line (default: lines on a terminal that is too narrow for the rows).",
)  # fmt: skip
def sql_command(
    query: str | None,
    project: Path | None,
    data: Path | None,
    as_json: bool,
    as_csv: bool,
    parquet: Path | None,
    in_lines: bool | None,
) -> None:
    """Run QUERY on results.duckdb, read-only (`-`: from stdin). Without QUERY: list the tables and views.

    Into a pipe or a file, rows are one line each at full width; --json, --csv and --parquet are for programs.
    """
    if sum((as_json, as_csv, parquet is not None, in_lines is not None)) > 1:
        raise InputError("name one of --json, --csv, --parquet, --lines and --table")
    with open_published(open_project(project, data), is_own=data is None) as connection:
        if query is None and parquet is not None:
            raise InputError("--parquet needs a query")
        if query is None:
            print_rows(table_console(), ("name", "kind", "content"), describe(connection), Layout(prose=True))
            return
        query = sys.stdin.read() if query == "-" else query
        if not query.strip():
            raise InputError("SQL: the query is empty; omit it to list the tables and views")
        if parquet is not None:
            count = write_parquet(connection, query, parquet)
            echo(f"{counted(count, 'row')} in {show_path(parquet)}", err=True)
            return
        _answer(connection, query, as_json, as_csv, in_lines)


def _answer(connection: Connection, query: str, as_json: bool, as_csv: bool, in_lines: bool | None) -> None:
    names, rows = answer(connection, query)
    if as_json:
        for row in rows:
            echo_json(dict(zip(names, map(_json_value, row), strict=True)))
    elif as_csv:
        echo_csv(names, rows)
    else:
        _print(names, rows, in_lines)


def _json_value(value: object) -> object:
    """Return a value of DuckDB as one of JSON: decimals are numbers, bytes are hexadecimal digits."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {name: _json_value(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in value]
    return value


def _print(names: list[str], rows: list[tuple[object, ...]], in_lines: bool | None) -> None:
    console = table_console() if in_lines is None else unlimited_console()
    if in_lines is None:
        in_lines = is_too_wide(console, names, rows)
    if in_lines:
        print_blocks(console, names, rows)
    else:
        print_rows(console, names, rows, Layout(keep=len(names)))
