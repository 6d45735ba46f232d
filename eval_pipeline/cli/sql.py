"""`eval-pipeline sql`: SQL queries over the published results."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from eval_pipeline.cli.options import open_project, project_options
from eval_pipeline.cli.tables import print_rows, table_console
from eval_pipeline.errors import InputError
from eval_pipeline.fingerprints import to_json
from eval_pipeline.warehouse.published import answer, describe
from eval_pipeline.warehouse.store import Connection


@click.command(name="sql")
@click.argument("query", required=False)
@project_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV with a header line.")
def sql_command(query: str | None, project: Path | None, data: Path | None, as_json: bool, as_csv: bool) -> None:
    """Run QUERY on results.duckdb, read-only (`-`: from stdin). Without QUERY: list the tables and views."""
    with open_project(project, data).open_warehouse().published() as connection:
        if query is None:
            print_rows(table_console(), ("name", "kind", "content"), describe(connection))
            return
        _answer(connection, sys.stdin.read() if query == "-" else query, as_json, as_csv)


def _answer(connection: Connection, query: str, as_json: bool, as_csv: bool) -> None:
    if not query.strip():
        raise InputError("SQL: the query is empty; omit it to list the tables and views")
    names, rows = answer(connection, query)
    if as_json:
        for row in rows:
            click.echo(to_json(dict(zip(names, row, strict=True))).decode())
    elif as_csv:
        import csv  # noqa: PLC0415 — only here

        writer = csv.writer(sys.stdout)
        writer.writerow(names)
        writer.writerows(rows)
    else:
        print_rows(table_console(), names, rows)
