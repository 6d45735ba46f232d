"""What became of the plans of one pair so far: counts, and which stored executions count as they are."""

from __future__ import annotations

from dataclasses import dataclass, field

from eval_pipeline.executions.model import Execution
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.model import Status
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.outcomes import SweepCounts, SweepObserver
from eval_pipeline.sweeps.pairs import Pair, judges
from eval_pipeline.warehouse.stored_pairs import StoredExecution


@dataclass(slots=True)
class PairLedger:
    """The counts of a pair, passed on to the observer as they change.

    `reused` are the ids of stored executions that count; `rebinds` those of them whose verdict belongs to an older
    revision of the suite.
    """

    pair: Pair
    options: SweepOptions
    observer: SweepObserver
    counts: SweepCounts = field(default_factory=SweepCounts)
    reused: list[str] = field(default_factory=list)
    rebinds: list[str] = field(default_factory=list)

    def plan(self) -> None:
        """Count a plan that belongs to the sweep."""
        self.counts.planned += 1

    def skip(self) -> None:
        """Count a repetition that is not needed."""
        self.counts.skipped += 1

    def execute(self, execution: Execution) -> None:
        """Count an execution: as executed, or as refused when its target was never called."""
        self.plan()
        if execution.attempts:
            self.counts.executed += 1
        else:
            self.counts.refused += 1

    def finish(self, status: Status | None, report: SessionReport | None) -> None:
        """Count the verdict and usage of an execution."""
        if report is not None:
            self.counts.add_usage(report)
        if status is not None:
            self.counts.count(status)
        self.observer.plan_finished(self.pair, status, report)

    def reuse(self, stored: StoredExecution) -> None:
        """Count a stored execution whose verdict, if it has one, remains."""
        status = Status(stored.status) if stored.status is not None else None
        self.counts.reused += 1
        if judges(self.options):
            self.reused.append(stored.execution_id)
            if stored.suite_revision != self.pair.ready.suite.revision:
                self.rebinds.append(stored.execution_id)
            if status is not None:
                self.counts.count(status)
        self.observer.plan_reused(self.pair, status)

    def rescore(self, stored: StoredExecution, status: Status | None) -> None:
        """Count a stored execution with a new verdict."""
        self.counts.rescored += 1
        self.reused.append(stored.execution_id)
        if status is not None:
            self.counts.count(status)
        self.observer.plan_reused(self.pair, status)
