"""Standings and other rows as tables and blocks of text.

On a terminal, columns that do not fit are left out from the right, and a line below names them. Output into a pipe or a
file has every column at its full width, one line per row.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from eval_pipeline.errors import InputError
from eval_pipeline.leaderboards.show import (
    BOARD_HEAD,
    UNKNOWN,
    ages_differ,
    board_remarks,
    board_rows,
    counted,
    ranks_legend,
    short_period,
    suites_left_out,
)
from eval_pipeline.parsing.diagnostics import problems_of
from eval_pipeline.parsing.visible import escape_controls

UNLIMITED = 1_000_000
"""The width of output that no terminal shows."""
GAP = 2
NARROWEST_TEXT = 24
"""A last column of prose is wrapped into this many cells at least, else left out."""
_BOARD_NAMES: tuple[str, ...] = ("#", "runner")
_AGE = "answered"
_BOARD_RATE = ("pass rate", _AGE)
"""What a narrow terminal keeps besides the names where a board compares answers of different ages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a table is fitted to a terminal.

    The first `keep` columns are shown whole whatever the width. `prose` wraps the last column instead of leaving it
    out. Columns named in `right` are aligned to the right.
    """

    keep: int = 1
    prose: bool = False
    right: frozenset[str] = frozenset()


class VisibleConsole(Console):
    """A console that shows control characters in texts as escapes, so that no answer and no name reaches a terminal
    as a command. Our own styles and cursor movements are not part of texts."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escape_controls(segment.text))


def table_console() -> Console:
    """Return a console for stdout: as wide as the terminal, or unlimited without one."""
    return VisibleConsole() if sys.stdout.isatty() else unlimited_console()


def unlimited_console() -> Console:
    """Return a console for stdout of unlimited width."""
    return VisibleConsole(width=UNLIMITED)


def message_console() -> Console:
    """Return a console for stderr."""
    return VisibleConsole(stderr=True)


def print_boards(console: Console, standings: pl.DataFrame) -> None:
    """Print one table per suite, preceded by the overall table if there are several suites."""
    per_suite = standings.filter(pl.col("scope") == "suite")
    overall = standings.filter(pl.col("scope") == "overall")
    suites = per_suite["suite"].unique(maintain_order=True).to_list()
    left_out: list[str] = []
    if len(suites) > 1 and overall.height:
        counts = [str(count) for count in overall["suites"]]
        title = "overall (mean over the suites that these runners share)"
        left_out += _print_board(console, title, overall, ("suites", counts), suites_left_out(standings))
    for suite in suites:
        left_out += _print_board(console, suite, per_suite.filter(pl.col("suite") == suite))
    for line in ranks_legend(standings):
        print_line(console, line, style="dim")
    print_left_out(console, left_out)


def _print_board(
    console: Console, title: str, standings: pl.DataFrame, more: tuple[str, list[str]] | None = None,
    remarks: Sequence[str] = (),
) -> Sequence[str]:  # fmt: skip
    """Print one leaderboard without its empty columns (all unknown, or no errors) and return the columns that do not
    fit; `more` is the last column, `remarks` come before those of the board."""
    rows = board_rows(standings)
    columns = [(name, [row[index] for row in rows]) for index, name in enumerate(BOARD_HEAD)]
    columns = [(name, cells) for name, cells in columns if any(cell not in (UNKNOWN, "0") for cell in cells)]
    columns += [more] if more is not None else []
    keep = _BOARD_NAMES
    if ages_differ(standings) and columns_that_fit(_board_widths(columns), console.width, Layout()) < len(columns):
        columns, keep = _ages_first(columns, standings), (*_BOARD_NAMES, *_BOARD_RATE)
    head = [name for name, _ in columns]
    layout = Layout(keep=sum(name in keep for name in head), right=frozenset(head) - frozenset(_BOARD_NAMES))
    print_line(console, title, style="bold")
    left_out = print_table(console, head, list(zip(*(cells for _, cells in columns), strict=True)), layout)
    for remark in (*remarks, *board_remarks(standings)):
        print_line(console, remark, style="dim")
    console.print()
    return left_out


def _board_widths(columns: Sequence[tuple[str, list[str]]]) -> list[int]:
    return [max(map(cell_len, (name, *cells))) for name, cells in columns]


def _ages_first(columns: Sequence[tuple[str, list[str]]], standings: pl.DataFrame) -> list[tuple[str, list[str]]]:
    """Return the columns with when answers were given, shortened, behind the pass rate: a narrow terminal keeps it."""
    periods = zip(standings["oldest_answer_at"], standings["newest_answer_at"], strict=True)
    by_name = dict(columns) | {_AGE: [short_period(*each) for each in periods]}
    first = [name for name in (*_BOARD_NAMES, *_BOARD_RATE) if name in by_name]
    return [(name, by_name[name]) for name in (*first, *(name for name in by_name if name not in first))]


def print_rows(
    console: Console, head: Sequence[str], rows: Sequence[Sequence[object]], layout: Layout | None = None
) -> None:
    """Print a small table, and a line that names the columns that do not fit."""
    print_left_out(console, print_table(console, head, rows, layout or Layout()))


def print_table(
    console: Console, head: Sequence[str], rows: Sequence[Sequence[object]], layout: Layout
) -> Sequence[str]:
    """Print a table; return the names of the columns that do not fit."""
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = column_widths(head, cells)
    shown = columns_that_fit(widths, console.width, layout)
    wraps = shown <= layout.keep or (layout.prose and shown == len(head))
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, GAP, 0, 0))
    for index, name in enumerate(head[:shown]):
        last = index == shown - 1
        table.add_column(
            Text(name),
            justify="right" if name in layout.right else "left",
            no_wrap=not (last and wraps),
            overflow="fold",
            min_width=None if last and wraps else min(widths[index], console.width),
        )
    for row in cells:
        table.add_row(*map(Text, row[:shown]))
    lines = console.render_lines(table, pad=False)
    console.print(Segments(part for line in lines for part in (*_without_padding(line), Segment.line())), end="")
    return head[shown:]


def _without_padding(line: Sequence[Segment]) -> Iterator[Segment]:
    """Yield the parts of a line without the spaces at its end, which the last column has."""
    left = len("".join(part.text for part in line).rstrip(" "))
    for part in line:
        yield Segment(part.text[: max(left, 0)], part.style)
        left -= len(part.text)


def _text(cell: object) -> str:
    """Return a cell as one line."""
    return UNKNOWN if cell is None else escape_controls("↵".join(str(cell).splitlines()))


def column_widths(head: Sequence[str], cells: Iterable[Sequence[str]]) -> list[int]:
    """Return the widest cell of each column."""
    return [max(map(cell_len, column)) for column in zip(head, *cells, strict=True)]


def columns_that_fit(widths: Sequence[int], room: int, layout: Layout) -> int:
    """Return how many columns fit, from the left."""
    used = -GAP
    for index, width in enumerate(widths):
        last = index == len(widths) - 1
        needed = min(width, NARROWEST_TEXT) if last and layout.prose else width
        used += GAP + needed
        if used > room and index >= layout.keep:
            return index
    return len(widths)


def print_left_out(console: Console, names: Iterable[str]) -> None:
    """Print which columns do not fit the terminal; nothing without any."""
    listed = ", ".join(dict.fromkeys(names))
    if listed:
        hint = "a wider terminal or a pipe, such as `| less -S`, has them"
        print_line(console, f"not shown in {console.width} columns: {listed} ({hint})", style="dim")


def is_too_wide(console: Console, head: Sequence[str], rows: Sequence[Sequence[object]]) -> bool:
    """Return whether a table of these rows does not fit the terminal."""
    widths = column_widths(head, [[_text(cell) for cell in row] for row in rows])
    return sum(widths) + GAP * (len(widths) - 1) > console.width


def print_blocks(console: Console, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print each row as a block with one field a line."""
    width = max(map(cell_len, head), default=0)
    for number, row in enumerate(rows, 1):
        print_line(console, f"── row {number}", style="dim")
        for name, cell in zip(head, row, strict=True):
            print_field(console, name, UNKNOWN if cell is None else str(cell), width)


def print_field(console: Console, name: str, text: str, width: int) -> None:
    """Print a field: its name in `width` cells and its text beside it, further lines below the first."""
    first, *more = map(escape_controls, text.splitlines() or [""])
    indent = " " * (width + GAP)
    value = "\n".join([first, *(indent + each for each in more)])
    console.print(Text.assemble((name.ljust(width), "dim"), " " * GAP, value), soft_wrap=True)


def print_line(console: Console, text: str, *, mark: str = "", style: str = "") -> None:
    """Print a line without markup.

    `mark` is a leading word in `style`; without it, `style` applies to the whole line.
    """
    text = escape_controls(text)
    if not console.is_terminal:  # a third of the time of 100,000 findings
        print(f"{mark} {text}" if mark else text, file=console.file)
        return
    line = Text.assemble((mark, style), " ", text) if mark else Text(text, style=style)
    console.print(line, soft_wrap=True)


def print_one_line(console: Console, text: str) -> None:
    """Print a text as one line, cut where the terminal ends; uncut without one."""
    if console.file.isatty():
        console.print(Text(escape_controls(text)), no_wrap=True, overflow="ellipsis", crop=False)
    else:
        print_line(console, text)


_MOST_PROBLEMS = 20


def print_problems(console: Console, problems: Sequence[InputError]) -> None:
    """Print why files and cases cannot be executed, one problem a line; of many the first."""
    for problem in (problem for error in problems[:_MOST_PROBLEMS] for problem in problems_of(error)):
        print_line(console, str(problem), mark="invalid:", style="red")
    if (more := len(problems) - _MOST_PROBLEMS) > 0:
        print_line(console, f"… and {counted(more, 'more invalid case')} (listed by eval-pipeline validate)")


def print_warnings(console: Console, warnings: Iterable[str]) -> None:
    """Print warnings, one a line."""
    for warning in warnings:
        print_line(console, warning, mark="warning:", style="yellow")
