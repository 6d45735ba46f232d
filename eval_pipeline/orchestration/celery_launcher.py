"""Dagster's launcher of runs on Celery workers, which notices that a worker is gone: see `deploy/home/dagster.yaml`.

Celery keeps the state STARTED of a task whose worker was killed with its machine: the run would go on for ever.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import dagster as dg
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from dagster_celery.launcher import CeleryRunLauncher
from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG

PATIENCE_S = 20.0
"""How long a busy worker has to answer which tasks it carries out."""
SILENT_LOOKS = 2
"""After how many looks in a row without an answer a worker is taken for gone: one may only have been busy."""


class WatchedCeleryRunLauncher(CeleryRunLauncher):
    """A run is healthy while the worker that began it says that it carries it out."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._silent: Counter[str] = Counter()  # looks in a row at a run's worker that had no answer

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
        """Return whether a worker carries a task out; one that does not answer has the benefit of the doubt once."""
        active = (self.celery.control.inspect(destination=[worker], timeout=PATIENCE_S).active() or {}).get(worker)
        if active is None:
            self._silent[task_id] += 1
            return self._silent[task_id] < SILENT_LOOKS
        del self._silent[task_id]
        return any(task["id"] == task_id for task in active)


def _worker_of(task: Any) -> str | None:
    """Return the name of the worker that began a task of Celery (which has no types); None when it is not known."""
    name = task.info.get("hostname") if isinstance(task.info, dict) else None
    return str(name) if name else None
