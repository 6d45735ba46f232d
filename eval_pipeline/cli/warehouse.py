"""`eval-pipeline warehouse`: copy all results into another warehouse, and compact one."""

from __future__ import annotations

from pathlib import Path

import click

from eval_pipeline.cli.options import open_project, project_options
from eval_pipeline.cli.terminal import echo
from eval_pipeline.warehouse.copying import copy_warehouse
from eval_pipeline.warehouse.store import KEPT_DAYS, open_warehouse


@click.group(name="warehouse")
def warehouse_command() -> None:
    """Copy all results into another warehouse, or compact one."""


@warehouse_command.command(name="copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def copy_command(source: str, target: str) -> None:
    """Copy all tables from one warehouse into another: data folders or URLs, such as `data` and `ducklake:postgres:…`.

    Rows are counted and hashed on both sides. A copy that broke off goes on with the tables that differ. Raw output of
    executions stays where it is: copy the folder `artifacts` as well.

    Exit codes: 0; 2 for a warehouse that cannot be copied, or another that has results of its own.
    """
    folder = Path.cwd()
    tables = copy_warehouse(open_warehouse(source, root=folder), open_warehouse(target, root=folder))
    rows = 0
    for table in tables:
        rows += table.rows
        echo(f"{table.name}: {table.rows:,} rows, {'copied' if table.is_new else 'there already'}")
    echo(f"{rows:,} rows are the same in both")


@warehouse_command.command(name="compact")
@project_options
@click.option(
    "--keep-days",
    type=click.IntRange(min=0),
    default=KEPT_DAYS,
    show_default=True,
    help="Days whose snapshots stay, for time travel in a shared warehouse.",
)
def compact_command(project: Path | None, data: Path | None, keep_days: int) -> None:
    """Merge files, and remove deleted rows and old snapshots from them. Once a day is enough; sweeps may go on.

    Exit codes: 0; 2 for a warehouse that cannot be reached.
    """
    warehouse = open_project(project, data).open_warehouse()
    warehouse.compact(keep_days)
    echo("compacted")
