"""Dagster's launcher of runs on Celery workers, which notices that a worker is gone: see `deploy/home/dagster.yaml`.

Celery keeps the state STARTED of a task whose worker was killed with its machine: the run would go on for ever.
"""

from __future__ import annotations

from typing import Any

import dagster as dg
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from dagster_celery.launcher import CeleryRunLauncher
from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG

PATIENCE_S = 20.0
"""How long a busy worker has to answer which tasks it carries out."""


class WatchedCeleryRunLauncher(CeleryRunLauncher):
    """A run is healthy while the worker that began it says that it carries it out."""

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return how the run's task is: as Celery says, and failed where its worker does not have it any more."""
        health = super().check_run_worker_health(run)
        if health.status is not WorkerStatus.RUNNING:
            return health
        task = self.celery.AsyncResult(run.tags[DAGSTER_CELERY_TASK_ID_TAG])
        worker = _worker_of(task)
        if worker is None or self._carries_out(worker, task.id):
            return health
        if task.state != "STARTED":  # it ended meanwhile
            return super().check_run_worker_health(run)
        return CheckRunHealthResult(WorkerStatus.FAILED, f"the worker {worker} does not carry it out any more")

    def _carries_out(self, worker: str, task_id: str) -> bool:
        active = self.celery.control.inspect(destination=[worker], timeout=PATIENCE_S).active() or {}
        return any(task["id"] == task_id for task in active.get(worker, []))


def _worker_of(task: Any) -> str | None:
    """Return the name of the worker that began a task of Celery (which has no types); None when it is not known."""
    name = task.info.get("hostname") if isinstance(task.info, dict) else None
    return str(name) if name else None
