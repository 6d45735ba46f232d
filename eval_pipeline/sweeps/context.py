"""What all pairs of one sweep share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eval_pipeline.executions.model import RunnerNamed
from eval_pipeline.sweeps.budget import Budget
from eval_pipeline.sweeps.grading import Graders
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.order import OrderClock
from eval_pipeline.sweeps.outcomes import SweepObserver
from eval_pipeline.sweeps.snapshot_checks import NO_SNAPSHOTS, SnapshotChecks
from eval_pipeline.sweeps.storing_pace import StoringPace
from eval_pipeline.sweeps.unfinished import UnfinishedRefresh
from eval_pipeline.warehouse.store import Warehouse


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepContext:
    """What all pairs of one sweep share.

    `runner_named` finds graders and fallbacks; `unfinished` are the interrupted refreshes that this sweep completes;
    `clock` orders what is stored, `pace` is how often it is; `snapshots` compares tokens with baselines;
    `failed_reviewers` are the names of those whose failure was reported.
    """

    options: SweepOptions
    warehouse: Warehouse
    sweep_id: str
    observer: SweepObserver
    graders: Graders
    runner_named: RunnerNamed
    budget: Budget
    clock: OrderClock
    unfinished: Sequence[UnfinishedRefresh] = ()
    snapshots: SnapshotChecks = NO_SNAPSHOTS
    pace: StoringPace = field(default_factory=StoringPace)
    failed_reviewers: set[str] = field(default_factory=set)

    @property
    def artifacts(self) -> Path:
        """The folder of large raw artifacts."""
        return self.warehouse.storage.artifacts

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be stored, of every runner in play: any program may print what it was started with."""
        return tuple(self.graders.secrets)
