"""What became of the plans of one pair so far: counts, and which stored executions count as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eval_pipeline.executions.model import Execution, Plan
from eval_pipeline.failures import SNAPSHOT
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.model import Status
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.outcomes import SweepCounts, SweepObserver
from eval_pipeline.sweeps.pairs import Pair, judges
from eval_pipeline.warehouse.stored_pairs import Adoption, Rebind, StoredExecution, has_other_tags, joined_tags


@dataclass(slots=True)
class PairLedger:
    """The counts of a pair, passed on to the observer as they change.

    `reused` are the ids of stored executions that count, `deselected` those of them of whose plan another one was
    selected later; `rebinds` those whose verdict belongs to an older revision of the suite or the runner, has other
    tags, or is not the newest of its plan; `adoptions` those that an older version stored. `retried` are the ids of new
    executions that count beside earlier ones. `above_baseline` is whether a stored verdict that counts is one that a
    token baseline failed.
    """

    pair: Pair
    options: SweepOptions
    observer: SweepObserver
    counts: SweepCounts = field(default_factory=SweepCounts)
    reused: list[str] = field(default_factory=list)
    deselected: list[str] = field(default_factory=list)
    rebinds: list[Rebind] = field(default_factory=list)
    adoptions: list[Adoption] = field(default_factory=list)
    retried: list[str] = field(default_factory=list)
    above_baseline: bool = False
    _failed_by_baselines: int = 0
    _moved_by_baselines: int = 0

    @property
    def current(self) -> list[str]:
        """The executions that are current."""
        return [*self.reused, *self.retried]

    def adopt(self, plan: Plan, stored: StoredExecution, identity: Mapping[str, str]) -> None:
        """Note a stored execution of an older version: it gets today's key."""
        if judges(self.options):
            self.adoptions.append(Adoption(stored.execution_id, plan.key, self.pair.revision, identity))

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

    def reuse(self, plan: Plan, stored: StoredExecution) -> None:
        """Count a stored execution whose verdict, if it has one, remains; its tags may have changed."""
        status = Status(stored.status) if stored.status is not None else None
        retagged = judges(self.options) and has_other_tags(stored, plan.case)
        self.counts.updated += retagged
        self.counts.reused += not retagged
        if judges(self.options):
            self._select(stored)
            revision = self.pair.ready.suite.revision
            if retagged or (stored.suite_revision, stored.runner_revision) != (revision, self.pair.revision):
                tags = joined_tags(plan.case.tags)
                self.rebinds.append(Rebind(stored.execution_id, revision, tags, self.pair.revision, plan.key))
            elif stored.displaced:
                self.rebinds.append(Rebind(stored.execution_id, revision))
            if status is not None:
                self.counts.count(status)
                self.above_baseline |= stored.failure_class == SNAPSHOT.id
        self.observer.plan_reused(self.pair, status)

    def compare(self, failed: int, changed: int) -> None:
        """Count what token baselines made of verdicts: how many more failed, and how many were stored again. The last
        call counts."""
        more = failed - self._failed_by_baselines
        self._failed_by_baselines = failed
        self.counts.passed -= more
        self.counts.failed += more
        self.counts.moved += changed - self._moved_by_baselines
        self._moved_by_baselines = changed

    def rescore(self, stored: StoredExecution, status: Status | None, *, updated: bool = False) -> None:
        """Count a stored execution with a new verdict; `updated`: only its cost is new."""
        self.counts.updated += updated
        self.counts.rescored += not updated
        self._select(stored)
        if status is not None:
            self.counts.count(status)
        self.observer.plan_reused(self.pair, status)

    def _select(self, stored: StoredExecution) -> None:
        self.reused.append(stored.execution_id)
        if stored.deselected:
            self.deselected.append(stored.execution_id)
