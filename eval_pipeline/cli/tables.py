"""Standings and other frames as terminal tables or JSON."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from rich.console import Console
from rich.table import Table

from eval_pipeline.leaderboards.show import BOARD_HEAD, UNKNOWN, board_rows
from eval_pipeline.leaderboards.standings import OVERALL

_TEXT_COLUMNS = ("runner", "#")


def print_boards(console: Console, standings: pl.DataFrame) -> None:
    """One table per suite, and the overall one first where there are several suites."""
    suites = standings.filter(pl.col("scope") == "suite")["suite"].unique(maintain_order=True).to_list()
    if len(suites) > 1:
        print_board(console, "overall (mean over suites)", standings.filter(pl.col("suite") == OVERALL))
    for suite in suites:
        print_board(console, suite, standings.filter((pl.col("suite") == suite) & (pl.col("scope") == "suite")))


def print_board(console: Console, title: str, standings: pl.DataFrame) -> None:
    """One leaderboard."""
    rows = board_rows(standings)
    known = [index for index in range(len(BOARD_HEAD)) if any(row[index] != UNKNOWN for row in rows)]
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    for index in known:
        name = BOARD_HEAD[index]
        table.add_column(name, justify="left" if name in _TEXT_COLUMNS else "right", overflow="fold")
    for row in rows:
        table.add_row(*(row[index] for index in known))
    console.print(table)
    console.print()


def print_rows(console: Console, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Any small table."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in head:
        table.add_column(str(name), overflow="fold")
    for row in rows:
        table.add_row(*("–" if cell is None else str(cell) for cell in row))
    console.print(table)
