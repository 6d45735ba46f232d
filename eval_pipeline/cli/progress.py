"""Progress of a running sweep on stderr: a live table on a terminal, plain lines elsewhere.

Calls per case only update counters; drawing happens four times a second, independent of the rate of cases.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from eval_pipeline.cli.session_lines import session_lines
from eval_pipeline.cli.tables import Layout, column_widths, columns_that_fit, message_console, print_line
from eval_pipeline.cli.terminal import echo
from eval_pipeline.executions.model import Plan
from eval_pipeline.leaderboards.show import amount, money
from eval_pipeline.parsing.visible import escape_controls
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.model import Status
from eval_pipeline.sweeps.outcomes import PairOutcome
from eval_pipeline.sweeps.pairs import Pair
from eval_pipeline.sweeps.progress import PairProgress, ProgressCounter, duration, tokens_of
from eval_pipeline.warehouse.journal import PairKey

PLAIN_EVERY_S = 10.0
SESSIONS_EVERY_S = 9.0
MAX_ROWS = 20
MAX_SESSIONS = 20
BAR_WIDTH = 20
_HEAD = ("suite", "runner", "done", "passed", "failed", "errors", "left", "rate", "tokens", "cost")
"""The columns, the most important first: a narrow terminal shows those on the left."""


class Progress(ProgressCounter):
    """Counts plans per suite × runner and shows nothing; `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock=clock)

    def waiting(self, text: str) -> None:
        """Print what the sweep waits for, even where nothing else is shown."""
        print_line(message_console(), text, style="yellow")

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class LiveProgress(Progress):
    """A live table."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=True, get_renderable=self.render)

    def waiting(self, text: str) -> None:
        print_line(self._console, text, style="yellow")  # the console of the table prints above it

    def render(self) -> RenderableType:
        """Return the current table: running pairs first, the latest finished ones below."""
        if not self.rows:
            return Text("starting …", style="dim")
        started = [(name, row) for name, row in self.rows.items() if row.total]
        ordered = sorted(started, key=lambda item: item[1].finished)
        shown = ordered[:MAX_ROWS]
        table = self._table([self._cells(pair, row) for pair, row in shown], [row for _, row in shown])
        hidden = len(ordered) - MAX_ROWS
        notes = [f"… and {hidden} more"] if hidden > 0 else []
        notes += [f"{name.runner}: {escape_controls(talking)}" for name, row in shown if (talking := row.talking)]
        lines = [Text(note, style="dim") for note in notes]
        lines += [Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in session_lines(MAX_SESSIONS)]
        return Group(table, *lines) if lines else table

    def _table(self, cells: list[list[str]], rows: list[PairProgress]) -> Table:
        """Return a table of the columns that fit the terminal, from the left; the bar comes last."""
        widths = [*column_widths(_HEAD, cells), BAR_WIDTH]
        fitting = columns_that_fit(widths, self._live.console.width, Layout(keep=2))
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in (*_HEAD, "")[:fitting]:
            table.add_column(name, justify="left" if name in _HEAD[:2] else "right", no_wrap=True)
        for line, row in zip(cells, rows, strict=True):
            bar = ProgressBar(total=max(1, row.total), completed=row.done, width=BAR_WIDTH)
            styled: list[RenderableType] = [
                Text(text, style=_style(name, text)) for name, text in zip(_HEAD, line, strict=True)
            ]
            table.add_row(*[*styled, bar][:fitting], style="dim" if row.finished else None)
        return table

    def _cells(self, name: PairKey, row: PairProgress) -> list[str]:
        rate, left = self.rate(row), self.seconds_left(row)
        return [
            escape_controls(name.suite),
            escape_controls(name.runner),
            f"{row.done}/{row.total}",
            str(row.counts.passed),
            str(row.counts.failed),
            str(row.counts.errored),
            duration(left),
            f"{rate:,.1f}/s" if rate else "–",
            amount(tokens_of(row.counts)),
            money(row.counts.cost_usd),
        ]

    def __enter__(self) -> Progress:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()


def _style(column: str, text: str) -> str:
    return {"failed": "red", "errors": "yellow"}.get(column, "") if text != "0" else ""


class PlainProgress(Progress):
    """Prints a line at most every ten seconds, and when a pair is finished; a line for each session that runs, every
    ten seconds."""

    def __init__(
        self, write: Callable[[str], object] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(clock)
        self._write = write or partial(echo, err=True)
        self._written_at = clock()
        self._ended = threading.Event()
        self._sessions = threading.Thread(target=self._write_sessions, name="session lines", daemon=True)

    def __enter__(self) -> Progress:
        self._sessions.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()

    def _write_sessions(self) -> None:
        while not self._ended.wait(SESSIONS_EVERY_S):
            for line in session_lines(MAX_SESSIONS):
                self._write(line)

    def plan_finished(self, pair: Pair, status: Status | None, report: SessionReport | None) -> None:
        super().plan_finished(pair, status, report)
        self._write_in_time(pair.name)

    def turn_started(self, plan: Plan, turn: int) -> None:
        super().turn_started(plan, turn)
        self._write_in_time(PairKey(plan.suite, plan.runner.name))

    def _write_in_time(self, name: PairKey) -> None:
        now = self._clock()
        if now - self._written_at >= PLAIN_EVERY_S:
            self._written_at = now
            self._write_row(name)

    def pairs_finished(self, outcomes: Sequence[PairOutcome]) -> None:
        super().pairs_finished(outcomes)
        for outcome in outcomes:
            self._write_row(outcome.pair.name)
            if outcome.error is not None:
                self._write(f"{outcome.pair.name.suite} × {outcome.pair.name.runner}: not stored: {outcome.error}")

    def _write_row(self, name: PairKey) -> None:
        row = self.rows.get(name)
        if row is None or not row.total:
            return
        counts = row.counts
        parts = [
            f"{name.suite} × {name.runner}: {row.done}/{row.total}",
            f"passed {counts.passed}",
            f"failed {counts.failed}",
            f"errors {counts.errored}",
        ]
        parts += [f"reused {row.reused}"] if row.reused else []
        rate, left = self.rate(row), self.seconds_left(row)
        parts += [f"{rate:,.1f}/s"] if rate else []
        parts += [f"tokens {tokens_of(counts):,}"] if tokens_of(counts) is not None else []
        parts += [f"cost {money(counts.cost_usd)}"] if counts.cost_usd is not None else []
        parts += [f"left {duration(left)}"] if left else []
        parts += [f"talking: {escape_controls(row.talking)}"] if row.talking else []
        self._write(", ".join(parts))


def choose_progress(console: Console, quiet: bool) -> Progress:
    """Return live progress on a terminal, plain lines elsewhere, and none with `quiet`."""
    if quiet:
        return Progress()
    return LiveProgress(console) if console.is_terminal else PlainProgress()
