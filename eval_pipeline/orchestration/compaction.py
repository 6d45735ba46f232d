"""Compaction of a shared warehouse as a job, and its schedule: merged files, and no snapshots that nobody needs."""

from __future__ import annotations

import dagster as dg

from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.warehouse.store import KEPT_DAYS

NAME = "compact_warehouse"
_EVERY_NIGHT = "30 4 * * *"


def compaction_of(session: ProjectSession) -> tuple[list[dg.JobDefinition], list[dg.ScheduleDefinition]]:
    """Return the job and its schedule, which is stopped until someone starts it; none for a warehouse in a file."""
    if session.warehouse.leases is None:
        return [], []

    @dg.op(name="compact", description="What `eval-pipeline warehouse compact` does.")
    def compact() -> None:
        session.warehouse.compact(KEPT_DAYS)

    @dg.job(
        name=NAME,
        executor_def=dg.in_process_executor,
        description=f"Merge files of the shared warehouse; snapshots of {KEPT_DAYS} days stay.",
    )
    def compact_warehouse() -> None:
        compact()

    schedule = dg.ScheduleDefinition(name=NAME, job=compact_warehouse, cron_schedule=_EVERY_NIGHT)
    return [compact_warehouse], [schedule]
