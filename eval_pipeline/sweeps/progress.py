"""Progress of a running sweep as numbers: plans done, verdicts, rate, tokens, money, and the time left.

How it is shown is up to the caller: the command line draws a table, a Dagster run reports events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from eval_pipeline.executions.model import Execution, Plan
from eval_pipeline.leaderboards.show import counted, money
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.model import Status
from eval_pipeline.sweeps.failed_cases import FailedCases
from eval_pipeline.sweeps.outcomes import PairOutcome, SweepCounts, SweepObserver
from eval_pipeline.sweeps.pairs import Pair
from eval_pipeline.sweeps.snapshots import Snapshot
from eval_pipeline.warehouse.journal import PairKey

MOST_TURNS_SHOWN = 3
Number = TypeVar("Number", int, float)


@dataclass(slots=True)
class PairProgress:
    """How far a pair is. Times are seconds of the caller's clock; `total`, `done` and `reused` count plans. `turns` are
    the case and the turn of each conversation that is held, by plan key."""

    total: int
    started: float
    counts: SweepCounts = field(default_factory=SweepCounts)
    done: int = 0
    reused: int = 0
    running: int = 0
    finished: bool = False
    ended: float | None = None
    turns: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def talking(self) -> str | None:
        """The conversations that are held, the one that began its turn last first: `case turn 3, …`; None: none."""
        latest = [f"{case} turn {turn}" for case, turn in reversed(list(self.turns.values()))]
        more = f" and {len(latest) - MOST_TURNS_SHOWN} more" if len(latest) > MOST_TURNS_SHOWN else ""
        return ", ".join(latest[:MOST_TURNS_SHOWN]) + more or None

    def take_verdicts(self, outcome: PairOutcome) -> None:
        """Count the verdicts as they were stored: token baselines may have made others of them."""
        if outcome.error is None:
            self.counts.passed, self.counts.failed = outcome.counts.passed, outcome.counts.failed

    @property
    def executed(self) -> int:
        """How many plans are done that were not reused."""
        return self.done - self.reused


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepProgress:
    """How far a sweep is: plans, verdicts, usage of what was executed, and speed. None: unknown."""

    total: int
    done: int
    reused: int
    running: int
    passed: int
    failed: int
    errored: int
    tokens: int | None
    cost_usd: float | None
    per_second: float | None
    seconds_left: float | None

    def __str__(self) -> str:
        parts = [f"{self.done:,} of {counted(self.total, 'plan')}"]
        parts += [f"{self.reused:,} reused"] if self.reused else []
        parts += [f"{self.passed:,} passed, {self.failed:,} failed, {self.errored:,} not graded"]
        parts += [f"{self.per_second:,.1f}/s"] if self.per_second is not None else []
        parts += [counted(self.tokens, "token")] if self.tokens is not None else []
        parts += [money(self.cost_usd)] if self.cost_usd is not None else []
        parts += [f"about {duration(self.seconds_left)} left"] if self.seconds_left is not None else []
        return ", ".join(parts)


class ProgressCounter(SweepObserver):
    """Counts plans per pair and stored executions, and passes everything on. `clock` returns seconds."""

    def __init__(self, onward: SweepObserver | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.rows: dict[PairKey, PairProgress] = {}
        self.stored = 0
        self._clock = clock
        self._onward = onward or SweepObserver()

    def sweep_started(self, sweep_id: str) -> None:
        self._onward.sweep_started(sweep_id)

    def snapshots_taken(self, taken: Sequence[Snapshot]) -> None:
        self._onward.snapshots_taken(taken)

    def cases_failed(self, failed: FailedCases) -> None:
        self._onward.cases_failed(failed)

    def pair_planned(self, pair: Pair, plans: int) -> None:
        self.start_pair(pair.name, plans)
        self._onward.pair_planned(pair, plans)

    def start_pair(self, name: PairKey, plans: int) -> None:
        """Begin the row of a pair with so many plans."""
        self.rows[name] = PairProgress(total=plans, started=self._clock())

    def plan_reused(self, pair: Pair, status: Status | None) -> None:
        row = self.rows[pair.name]
        row.done += 1
        row.reused += 1
        if status is not None:
            row.counts.count(status)
        self._onward.plan_reused(pair, status)

    def plan_started(self, plan: Plan) -> None:
        self.rows[PairKey(plan.suite, plan.runner.name)].running += 1
        self._onward.plan_started(plan)

    def turn_started(self, plan: Plan, turn: int) -> None:
        row = self.rows.get(PairKey(plan.suite, plan.runner.name))
        if row is not None:
            row.turns[plan.key] = plan.case.id, turn
        self._onward.turn_started(plan, turn)

    def execution_stored(self, plan: Plan) -> None:
        row = self.rows.get(PairKey(plan.suite, plan.runner.name))
        if row is not None:
            row.turns.pop(plan.key, None)
        self.stored += 1
        self._onward.execution_stored(plan)

    def plan_ended(self, plan: Plan, execution: Execution, report: SessionReport | None, status: Status | None) -> None:
        self._onward.plan_ended(plan, execution, report, status)

    def plan_finished(self, pair: Pair, status: Status | None, report: SessionReport | None) -> None:
        row = self.rows[pair.name]
        row.done += 1
        row.running = max(0, row.running - 1)
        if status is not None:
            row.counts.count(status)
        if report is not None:
            row.counts.add_usage(report)
        self._onward.plan_finished(pair, status, report)

    def pairs_finished(self, outcomes: Sequence[PairOutcome]) -> None:
        for outcome in outcomes:
            row = self.rows.get(outcome.pair.name)
            if row is not None:
                row.finished, row.ended = True, self._clock()
                row.take_verdicts(outcome)
        self._onward.pairs_finished(outcomes)

    def rate(self, row: PairProgress) -> float | None:
        """Return executions per second; None before the first."""
        elapsed = (row.ended or self._clock()) - row.started
        return row.executed / elapsed if row.executed and elapsed > 0 else None

    def seconds_left(self, row: PairProgress) -> float | None:
        """Return the estimated seconds until the pair is finished; None without an estimate."""
        rate = self.rate(row)
        return (row.total - row.done) / rate if rate and not row.finished else None

    def overall(self, total: int | None = None) -> SweepProgress:
        """Return the progress of all pairs together.

        `total` counts the plans of the whole sweep; without it, those of the pairs that began.
        """
        rows = list(self.rows.values())
        executed = sum(row.executed for row in rows)
        elapsed = self._clock() - min((row.started for row in rows), default=self._clock())
        total = max(sum(row.total for row in rows), total or 0)
        done = sum(row.done for row in rows)
        rate = executed / elapsed if executed and elapsed > 0 else None
        return SweepProgress(
            total=total,
            done=done,
            reused=sum(row.reused for row in rows),
            running=sum(row.running for row in rows),
            passed=sum(row.counts.passed for row in rows),
            failed=sum(row.counts.failed for row in rows),
            errored=sum(row.counts.errored for row in rows),
            tokens=_known_sum([tokens_of(row.counts) for row in rows]),
            cost_usd=_known_sum([row.counts.cost_usd for row in rows]),
            per_second=rate,
            seconds_left=(total - done) / rate if rate and total > done else None,
        )


def tokens_of(counts: SweepCounts) -> int | None:
    """Return input and output tokens together; None when either is unknown."""
    if counts.input_tokens is None or counts.output_tokens is None:
        return None
    return counts.input_tokens + counts.output_tokens


def _known_sum(values: Sequence[Number | None]) -> Number | None:
    """The sum of the known values; None when none is known."""
    known = [value for value in values if value is not None]
    return sum(known[1:], start=known[0]) if known else None


def duration(seconds: float | None) -> str:
    """Format seconds for people: `42 s`, `3:05 min`, `2:04 h`; `–` when unknown."""
    if seconds is None:
        return "–"
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    minutes, rest = divmod(total, 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"
