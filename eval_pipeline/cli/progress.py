"""Progress of a running sweep on stderr: a live table on a terminal, plain lines elsewhere.

Calls per case only update counters; drawing happens four times a second, independent of the rate of cases.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from eval_pipeline.cli.tables import Layout, column_widths, columns_that_fit
from eval_pipeline.executions.model import Plan
from eval_pipeline.leaderboards.show import amount, money
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.model import Status
from eval_pipeline.sweeps.outcomes import PairOutcome, SweepCounts, SweepObserver
from eval_pipeline.sweeps.pairs import Pair
from eval_pipeline.warehouse.journal import PairKey

PLAIN_EVERY_S = 10.0
MAX_ROWS = 20
BAR_WIDTH = 20
_HEAD = ("suite", "runner", "done", "passed", "failed", "errors", "left", "rate", "tokens", "cost")
"""The columns, the most important first: a narrow terminal shows those on the left."""


@dataclass(slots=True)
class _Row:
    total: int
    started: float
    counts: SweepCounts = field(default_factory=SweepCounts)
    done: int = 0
    reused: int = 0
    running: int = 0
    finished: bool = False
    ended: float | None = None

    @property
    def executed(self) -> int:
        return self.done - self.reused


class Progress(SweepObserver):
    """Counts plans per suite × runner; `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.rows: dict[PairKey, _Row] = {}
        self._clock = clock

    def pair_planned(self, pair: Pair, plans: int) -> None:
        self.start_pair(pair.name, plans)

    def start_pair(self, name: PairKey, plans: int) -> None:
        """Begin the row of a pair with so many plans."""
        self.rows[name] = _Row(total=plans, started=self._clock())

    def plan_reused(self, pair: Pair, status: Status | None) -> None:
        row = self.rows[pair.name]
        row.done += 1
        row.reused += 1
        if status is not None:
            row.counts.count(status)

    def plan_started(self, plan: Plan) -> None:
        self.rows[PairKey(plan.suite, plan.runner.name)].running += 1

    def plan_finished(self, pair: Pair, status: Status | None, report: SessionReport | None) -> None:
        row = self.rows[pair.name]
        row.done += 1
        row.running = max(0, row.running - 1)
        if status is not None:
            row.counts.count(status)
        if report is not None:
            row.counts.add_usage(report)

    def pairs_finished(self, outcomes: Sequence[PairOutcome]) -> None:
        for outcome in outcomes:
            row = self.rows.get(outcome.pair.name)
            if row is not None:
                row.finished, row.ended = True, self._clock()

    def rate(self, row: _Row) -> float | None:
        """Return executions per second; None before the first."""
        elapsed = (row.ended or self._clock()) - row.started
        return row.executed / elapsed if row.executed and elapsed > 0 else None

    def seconds_left(self, row: _Row) -> float | None:
        """Return the estimated seconds until the pair is finished; None without an estimate."""
        rate = self.rate(row)
        return (row.total - row.done) / rate if rate and not row.finished else None

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
        self._live = Live(console=console, refresh_per_second=4, transient=True, get_renderable=self.render)

    def render(self) -> RenderableType:
        """Return the current table: running pairs first, the latest finished ones below."""
        if not self.rows:
            return Text("starting …", style="dim")
        started = [(name, row) for name, row in self.rows.items() if row.total]
        ordered = sorted(started, key=lambda item: item[1].finished)
        shown = ordered[:MAX_ROWS]
        table = self._table([self._cells(pair, row) for pair, row in shown], [row for _, row in shown])
        hidden = len(ordered) - MAX_ROWS
        return Group(table, Text(f"… and {hidden} more", style="dim")) if hidden > 0 else table

    def _table(self, cells: list[list[str]], rows: list[_Row]) -> Table:
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

    def _cells(self, name: PairKey, row: _Row) -> list[str]:
        rate, left = self.rate(row), self.seconds_left(row)
        return [
            name.suite,
            name.runner,
            f"{row.done}/{row.total}",
            str(row.counts.passed),
            str(row.counts.failed),
            str(row.counts.errored),
            duration(left),
            f"{rate:,.1f}/s" if rate else "–",
            amount(_tokens(row.counts)),
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
    """Prints a line at most every ten seconds, and when a pair is finished."""

    def __init__(
        self, write: Callable[[str], object] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(clock)
        self._write = write or (lambda line: print(line, file=sys.stderr, flush=True))
        self._written_at = clock()

    def plan_finished(self, pair: Pair, status: Status | None, report: SessionReport | None) -> None:
        super().plan_finished(pair, status, report)
        now = self._clock()
        if now - self._written_at >= PLAIN_EVERY_S:
            self._written_at = now
            self._write_row(pair.name)

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
        parts += [f"tokens {_tokens(counts):,}"] if _tokens(counts) is not None else []
        parts += [f"cost {money(counts.cost_usd)}"] if counts.cost_usd is not None else []
        parts += [f"left {duration(left)}"] if left else []
        self._write(", ".join(parts))


def _tokens(counts: SweepCounts) -> int | None:
    if counts.input_tokens is None or counts.output_tokens is None:
        return None
    return counts.input_tokens + counts.output_tokens


def duration(seconds: float | None) -> str:
    """Format seconds for people: `42 s`, `3:05 min`, `2:04 h`; `–` when unknown."""
    if seconds is None:
        return "–"
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    minutes, rest = divmod(total, 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"


def choose_progress(console: Console, quiet: bool) -> Progress:
    """Return live progress on a terminal, plain lines elsewhere, and none with `quiet`."""
    if quiet:
        return Progress()
    return LiveProgress(console) if console.is_terminal else PlainProgress()
