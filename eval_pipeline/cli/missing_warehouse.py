"""What `eval-pipeline run` does when the warehouse is gone and the results made from it are there."""

from __future__ import annotations

import sys

import click

from eval_pipeline.errors import InputError
from eval_pipeline.warehouse.store import Warehouse

RESTORE, NEW = "restore", "new"


def settle_missing_warehouse(warehouse: Warehouse, choice: str | None) -> None:
    """Restore a missing warehouse from the published results, or begin a new one, as chosen or as asked for.

    Raises InputError without a choice and a terminal: a new one executes everything again.
    """
    if not warehouse.is_missing():
        return
    choice = choice or _ask()
    if choice == RESTORE:
        warehouse.restore()
    else:
        warehouse.set_results_aside()


def _ask() -> str:
    text = "the warehouse is missing and its published results are there; without it everything is executed again"
    if not sys.stdin.isatty():
        raise InputError(f"{text}: add --missing-warehouse {RESTORE} (from the results) or {NEW}")
    choices = click.Choice([RESTORE, NEW])
    return str(click.prompt(f"{text}\nrestore it from the results, or begin a new one?", type=choices, err=True))
