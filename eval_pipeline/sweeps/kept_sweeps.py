"""What a sweep of the project file keeps of its earlier runs: what is older is deleted when one has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from eval_pipeline.leaderboards.show import counted
from eval_pipeline.sweeps.deletion import NO_FILES, FileCount, delete_artifacts, delete_stored
from eval_pipeline.sweeps.keep_rules import Keep
from eval_pipeline.sweeps.month_budgets import month_budget
from eval_pipeline.sweeps.named_sweeps import named_sweep
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.sweep_store import SweepStore
from eval_pipeline.warehouse.deletion import all_sweeps_named, expired_sweeps


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was deleted: sweeps, their Dagster runs, and files."""

    sweeps: Sequence[str] = ()
    dagster_runs: Sequence[str] = ()
    files: FileCount = NO_FILES

    def __bool__(self) -> bool:
        return bool(self.sweeps or self.files.files)

    def __str__(self) -> str:
        parts = [counted(len(self.sweeps), "earlier sweep")] if self.sweeps else []
        parts += [f"{counted(self.files.files, 'file')} of {self.files.bytes / 1e6:.1f} MB"] if self.files.files else []
        return " and ".join(parts)


def forget_old(session: ProjectSession, name: str) -> Forgotten:
    """Delete what a sweep does not keep, under the lock of sweeps; what is current stays. Its Dagster runs are left to
    the caller."""
    keep = named_sweep(session.project, name).keep
    if keep is None:
        return Forgotten()
    with session.store.exclusive(session.observer.waiting, session.stop):
        deleted = _without_old_sweeps(session, name, keep)
        files = _without_old_artifacts(session.store, name, keep)
    return Forgotten(deleted.sweeps, deleted.dagster_runs, deleted.files + files)


def _without_old_sweeps(session: ProjectSession, name: str, keep: Keep) -> Forgotten:
    """Delete old sweeps, but none whose cost counts in the budget of the present month: it would be spent again."""
    if keep.sweeps is None:
        return Forgotten()
    budget = month_budget(session.project, session.warehouse, name)
    counts = budget.by_sweep if budget is not None else {}
    old = [id_ for id_ in expired_sweeps(session.warehouse, None, keep.sweeps, name) if id_ not in counts]
    if not old:
        return Forgotten()
    rows, files = delete_stored(session.store, "sweep", old, dry_run=False)
    return Forgotten(rows.sweeps, rows.dagster_runs, files)


def _without_old_artifacts(store: SweepStore, name: str, keep: Keep) -> FileCount:
    if keep.artifacts_days is None:
        return NO_FILES
    before = datetime.now(UTC) - timedelta(days=keep.artifacts_days)
    return delete_artifacts(store, all_sweeps_named(store.warehouse, name), before)
