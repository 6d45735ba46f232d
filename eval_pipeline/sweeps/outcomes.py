"""What a sweep did: counts and outcomes, and the observer that follows it. Values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from eval_pipeline.executions.model import Execution, Plan
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.model import Status
from eval_pipeline.sweeps.failed_cases import FailedCases
from eval_pipeline.sweeps.pairs import Pair
from eval_pipeline.sweeps.snapshots import Snapshot

INTERRUPTED = "interrupted; what was executed is kept, and the same command goes on from there"


@dataclass(slots=True)
class SweepCounts:
    """What a sweep did with one pair, or what its plan expects.

    `refused` are plans whose target was not called: the budget was spent, or a dependency failed. `skipped` are
    repetitions left out because an earlier one settled their case; they are not `planned`. `moved` are verdicts
    bound to a new revision of their suite; `updated` are those that got new tags or a new cost, without any call.
    `earlier` are answers with a new verdict that count beside a later one to the same plan, which is the one counted.
    `recovered` is 1 when a sweep that was killed stored verdicts of the pair, or its answers are counted anew: they are
    summarized and ranked now.
    """

    planned: int = 0
    reused: int = 0
    rescored: int = 0
    updated: int = 0
    executed: int = 0
    refused: int = 0
    skipped: int = 0
    moved: int = 0
    earlier: int = 0
    recovered: int = 0
    passed: int = 0
    failed: int = 0
    errored: int = 0
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None

    def count(self, status: Status) -> None:
        """Count a verdict."""
        if status.as_expected:
            self.passed += 1
        elif status.graded:
            self.failed += 1
        else:
            self.errored += 1

    def add_usage(self, report: SessionReport) -> None:
        """Add the cost and tokens of a report."""
        usage = report.usage
        self.cost_usd = _sum(self.cost_usd, report.cost_usd)
        self.input_tokens = _sum(self.input_tokens, usage.input_tokens)
        self.output_tokens = _sum(self.output_tokens, usage.output_tokens)

    @property
    def graded(self) -> int:
        """How many plans have a verdict other than `error`."""
        return self.passed + self.failed

    @property
    def pass_rate(self) -> float | None:
        """The share of graded plans that passed; None when none is graded."""
        return self.passed / self.graded if self.graded else None

    @property
    def coverage(self) -> float | None:
        """The share of planned plans that are graded; None when none is planned."""
        return self.graded / self.planned if self.planned else None

    @property
    def changed(self) -> bool:
        """Whether anything was written."""
        written = self.executed + self.refused + self.rescored + self.updated + self.moved + self.earlier
        return bool(written or self.recovered)


def _sum(total: Any, more: Any) -> Any:
    return total if more is None else more if total is None else total + more


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOutcome:
    """A pair that is done and stored.

    `error` is a fault of ours, in words; then nothing of the pair counts as done. `failures` are its rows of the table
    `failure_classes`, None where there are none; `snapshots` how its tokens compare with their baselines.
    """

    pair: Pair
    counts: SweepCounts
    error: str | None = None
    failures: pl.DataFrame | None = field(default=None, compare=False, repr=False)
    snapshots: Sequence[Snapshot] = ()


class SweepObserver:
    """Called while a sweep runs; does nothing by itself.

    Calls about plans come from the thread of the sweep, those about finished pairs from the thread that started it.
    """

    def sweep_started(self, sweep_id: str) -> None:
        """A sweep begins, recorded under this id."""

    def pair_planned(self, pair: Pair, plans: int) -> None:
        """A pair is about to be carried out; `plans` plans belong to it."""

    def plan_reused(self, pair: Pair, status: Status | None) -> None:
        """A plan needs no call of the target."""

    def plan_started(self, plan: Plan) -> None:
        """The first attempt of a plan begins."""

    def turn_started(self, plan: Plan, turn: int) -> None:
        """A turn (from 1) of a plan's conversation begins."""

    def execution_stored(self, plan: Plan) -> None:
        """An execution is on disk: whatever happens now, it is kept."""

    def plan_finished(self, pair: Pair, status: Status | None, report: SessionReport | None) -> None:
        """A plan was executed, and scored if that stage is selected."""

    def plan_ended(self, plan: Plan, execution: Execution, report: SessionReport | None, status: Status | None) -> None:
        """A plan was executed, and has this verdict if that stage is selected. Comes before `plan_finished`."""

    def pairs_finished(self, outcomes: Sequence[PairOutcome]) -> None:
        """Pairs are done and stored; those that were stored together come together."""

    def snapshots_taken(self, taken: Sequence[Snapshot]) -> None:
        """The tokens of pairs that just finished were compared with their baselines."""

    def cases_failed(self, failed: FailedCases) -> None:
        """The sweep has ended, and these of its cases did not pass."""

    def waiting(self, text: str) -> None:
        """The sweep cannot go on until something else ends; `text` names it."""


class ForwardingObserver(SweepObserver):
    """An observer that passes everything on to another one; a subclass adds its own work."""

    def __init__(self, onward: SweepObserver) -> None:
        self._onward = onward
        self.pair_planned = onward.pair_planned  # type: ignore[method-assign]
        self.plan_reused = onward.plan_reused  # type: ignore[method-assign]
        self.plan_started = onward.plan_started  # type: ignore[method-assign]
        self.turn_started = onward.turn_started  # type: ignore[method-assign]
        self.execution_stored = onward.execution_stored  # type: ignore[method-assign]
        self.plan_ended = onward.plan_ended  # type: ignore[method-assign]
        self.plan_finished = onward.plan_finished  # type: ignore[method-assign]
        self.cases_failed = onward.cases_failed  # type: ignore[method-assign]
        self.waiting = onward.waiting  # type: ignore[method-assign]

    def sweep_started(self, sweep_id: str) -> None:
        self._onward.sweep_started(sweep_id)

    def pairs_finished(self, outcomes: Sequence[PairOutcome]) -> None:
        self._onward.pairs_finished(outcomes)

    def snapshots_taken(self, taken: Sequence[Snapshot]) -> None:
        self._onward.snapshots_taken(taken)


class CollectingObserver(ForwardingObserver):
    """An observer that appends every outcome to `outcomes`, every snapshot to `snapshots`, keeps the failed cases, and
    passes everything else on."""

    def __init__(self, onward: SweepObserver, outcomes: list[PairOutcome], snapshots: list[Snapshot]) -> None:
        super().__init__(onward)
        self._outcomes, self._snapshots = outcomes, snapshots
        self.failed: FailedCases | None = None
        self.cases_failed = self._keep_failed  # type: ignore[method-assign]

    def _keep_failed(self, failed: FailedCases) -> None:
        self.failed = failed

    def pairs_finished(self, outcomes: Sequence[PairOutcome]) -> None:
        self._outcomes += outcomes
        super().pairs_finished(outcomes)

    def snapshots_taken(self, taken: Sequence[Snapshot]) -> None:
        self._snapshots += taken
        super().snapshots_taken(taken)
