"""A session is watched while it runs: its output, and the log that the CLI writes, are read as they grow.

The watch shows the session (`LIVE_SESSIONS`), and ends it when it has more steps, or costs more, than its runner
allows. Long lines are results of tools: they are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from eval_pipeline.agents.live_records import Glimpse, LiveReader
from eval_pipeline.executions.live_sessions import LiveSession
from eval_pipeline.executions.process import ProgramStopped
from eval_pipeline.failures import MAX_STEPS
from eval_pipeline.reports.jsonl_records import objects_of
from eval_pipeline.reports.retries import with_cost
from eval_pipeline.reports.usage import Usage

MOST_LINE = 65_536
_READ_BYTES = 4_000_000


@dataclass(slots=True)
class GrowingFile:
    """A file that a program writes: its lines since the last look. The last line of all may lack its end."""

    path: Path
    at: int = 0
    rest: bytes = b""
    passing: bool = False

    def lines(self, *, whole: bool = False) -> Iterator[bytes]:
        """Yield the lines that are new; with `whole` also one without its end."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.at)
                while piece := file.read(_READ_BYTES):
                    self.at += len(piece)
                    yield from self._lines_of(piece)
        except OSError:
            return
        if whole and self.rest:
            yield self.rest

    def _lines_of(self, piece: bytes) -> Iterator[bytes]:
        *lines, rest = piece.split(b"\n")
        for number, line in enumerate(lines):
            if number == 0:
                line, passed = self.rest + line, self.passing
                self.rest, self.passing = b"", False
                if passed:
                    continue
            if len(line) <= MOST_LINE:
                yield line
        self.rest += b"" if self.passing else rest
        if len(self.rest) > MOST_LINE:
            self.rest, self.passing = b"", True


@dataclass(slots=True, kw_only=True)
class SessionTally:
    """Steps, tokens and cost of a session so far."""

    steps: int = 0
    action: str | None = None
    ids: set[str] = field(default_factory=set)
    summed: dict[str, tuple[int | None, int | None, float | None]] = field(default_factory=dict)
    total: tuple[int | None, int | None, float | None] | None = None

    def add(self, glimpse: Glimpse) -> None:
        """Count what a record reports."""
        if glimpse.step is not None and glimpse.step not in self.ids:
            self.steps += 1
            self.ids.update([glimpse.step] if glimpse.step else [])
        self.action = glimpse.action or self.action
        values = glimpse.input_tokens, glimpse.output_tokens, glimpse.cost_usd
        if glimpse.is_total:
            self.total = values
        elif values != (None, None, None):
            self.summed[glimpse.usage_id or f"#{len(self.summed)}"] = values

    @property
    def usage(self) -> Usage:
        """What is known of the usage so far."""
        parts = [self.total] if self.total is not None else list(self.summed.values())
        fed, made, cost = ([part[at] for part in parts if part[at] is not None] for at in range(3))
        return Usage(
            input_tokens=sum(fed) if fed else None,  # type: ignore[arg-type]
            output_tokens=sum(made) if made else None,  # type: ignore[arg-type]
            cost_usd=sum(cost) if cost else None,  # type: ignore[arg-type]
            cost_source="reported" if cost else None,
        )


@dataclass(slots=True, kw_only=True)
class SessionWatch:
    """Follows one session. `find_log` returns the log that the CLI writes, once there is one."""

    session: LiveSession
    read: LiveReader
    stdout: GrowingFile
    find_log: Callable[[], Path | None] = lambda: None
    prices: Mapping[str, float] = field(default_factory=dict)
    max_steps: int | None = None
    max_cost_usd: float | None = None
    printed: SessionTally = field(default_factory=SessionTally)
    logged: SessionTally = field(default_factory=SessionTally)
    log: GrowingFile | None = None

    def __call__(self, ended: bool) -> ProgramStopped | None:
        """Read what is new; return why the session has to end."""
        for line in self.stdout.lines(whole=ended):
            for record in objects_of(line):
                for glimpse in self.read(record):
                    self.printed.add(glimpse)
        self._read_log()
        self._show()
        return self._limit()

    def _read_log(self) -> None:
        """Read the log: it has the tokens, and the calls of the model, that an output leaves out."""
        if self.log is None and (path := self.find_log()) is not None:
            self.log = GrowingFile(path)
        for line in self.log.lines() if self.log is not None else ():
            for record in objects_of(line):
                for glimpse in self.read(record):
                    self.logged.add(glimpse)

    def _show(self) -> None:
        usage = self.usage
        tokens = [count for count in (usage.input_tokens, usage.output_tokens) if count is not None]
        self.session.steps, self.session.action = self.steps, self.printed.action
        self.session.tokens = sum(tokens) if tokens else None
        self.session.cost_usd = usage.cost_usd

    @property
    def steps(self) -> int:
        """The steps so far: of the log, where it has any, else of the output."""
        return self.logged.steps or self.printed.steps

    @property
    def usage(self) -> Usage:
        """The usage so far: of the output, else of the log; with its cost by the runner's prices."""
        usage = self.printed.usage
        return with_cost(usage if usage.input_tokens is not None else self.logged.usage, self.prices, None)

    def _limit(self) -> ProgramStopped | None:
        if self.max_steps is not None and self.steps > self.max_steps:
            return ProgramStopped(MAX_STEPS, f"more than {self.max_steps} steps (max_steps)")
        cost = self.usage.cost_usd
        if self.max_cost_usd is not None and cost is not None and cost > self.max_cost_usd:
            return ProgramStopped(MAX_STEPS, f"{cost:.4g} USD, more than {self.max_cost_usd:g} USD (max_cost_usd)")
        return None
