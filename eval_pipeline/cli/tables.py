"""Standings and other frames as terminal tables or JSON."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eval_pipeline.leaderboards.show import BOARD_HEAD, UNKNOWN, board_rows

_TEXT_COLUMNS = ("runner", "#")
WIDE = 160


def table_console() -> Console:
    """Return a console for tables on stdout: as wide as the terminal, or wide enough for all columns without one."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDE)


def print_boards(console: Console, standings: pl.DataFrame) -> None:
    """Print one table per suite, preceded by the overall table if there are several suites."""
    per_suite = standings.filter(pl.col("scope") == "suite")
    overall = standings.filter(pl.col("scope") == "overall")
    suites = per_suite["suite"].unique(maintain_order=True).to_list()
    if len(suites) > 1 and overall.height:
        counts = [str(count) for count in overall["suites"]]
        _print_board(console, "overall (mean over the suites of each runner)", overall, ("suites", counts))
    for suite in suites:
        _print_board(console, suite, per_suite.filter(pl.col("suite") == suite))


def _print_board(
    console: Console, title: str, standings: pl.DataFrame, more: tuple[str, list[str]] | None = None
) -> None:
    """Print one leaderboard without its empty columns (all unknown, or no errors); `more` is the last column."""
    rows = board_rows(standings)
    columns = [(name, [row[index] for row in rows]) for index, name in enumerate(BOARD_HEAD)]
    columns = [(name, cells) for name, cells in columns if any(cell not in (UNKNOWN, "0") for cell in cells)]
    columns += [more] if more is not None else []
    table = Table(
        title=Text(title), title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim"
    )
    for name, _ in columns:
        text = name in _TEXT_COLUMNS
        table.add_column(name, justify="left" if text else "right", no_wrap=not text, overflow="fold")
    for row in zip(*(cells for _, cells in columns), strict=True):
        table.add_row(*map(Text, row))
    console.print(table)
    console.print()


def print_rows(console: Console, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a small table."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in head:
        table.add_column(Text(str(name)), overflow="fold")
    for row in rows:
        table.add_row(*(Text(UNKNOWN if cell is None else str(cell)) for cell in row))
    console.print(table)


def print_line(console: Console, text: str, *, mark: str = "", style: str = "") -> None:
    """Print a line without markup.

    `mark` is a leading word in `style`; without it, `style` applies to the whole line.
    """
    line = Text.assemble((mark, style), " ", text) if mark else Text(text, style=style)
    console.print(line, soft_wrap=True)
