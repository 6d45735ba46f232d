"""The published results that commands show. What the project has no more leaves the board before they are opened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from eval_pipeline.cli.tables import message_console, print_line
from eval_pipeline.errors import WarehouseError
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.sweeps.project import Project
from eval_pipeline.sweeps.retirement import Vanished, may_lack, retire_now
from eval_pipeline.warehouse.project_pairs import published_pairs
from eval_pipeline.warehouse.retired_cases import current_cases
from eval_pipeline.warehouse.store import Connection, Warehouse

_SHOWN = 5


@contextmanager
def open_published(project: Project, warehouse: Warehouse | None = None, *, is_own: bool) -> Iterator[Connection]:
    """Yield a read-only connection to the published results of a project.

    In its own data folder (`is_own`: not one that an option names) pairs that the project has no more are retired
    first, and named on stderr. A shared warehouse is left to sweeps and sensors: a reader may have another checkout.
    """
    warehouse = warehouse or project.open_warehouse()
    with warehouse.published() as connection:
        is_kept_here = warehouse.leases is None and not warehouse.is_missing()
        lacks = (
            is_own
            and is_kept_here
            and may_lack(project, published_pairs(connection), partial(current_cases, connection))
        )
        if not lacks:
            yield connection
            return
    retire_and_report(project)
    with warehouse.published() as connection:
        yield connection


def retire_and_report(project: Project) -> None:
    """Retire what the project has no more, and report it. One that cannot be written stays as it is."""
    console = message_console()
    try:
        gone = retire_now(project)
    except (WarehouseError, OSError) as error:
        print_line(console, f"what the project has no more is still shown: {error}", style="yellow")
        return
    if gone:
        print_line(console, f"the project has no more {_names(gone)}: off the board, kept in history", style="dim")


def _names(gone: Vanished) -> str:
    pairs = [f"{pair.suite} · {pair.runner}" for pair in gone.pairs]
    cases = [f"{suite}/{case}" for suite, names in gone.cases.items() for case in names]
    listed = (_listed(pairs, "other pair"), _listed(cases, "other case"))
    return "; ".join(text for text in listed if text)


def _listed(names: Sequence[str], others: str) -> str:
    named = ", ".join(names[:_SHOWN])
    return named if len(names) <= _SHOWN else f"{named} and {counted(len(names) - _SHOWN, others)}"
