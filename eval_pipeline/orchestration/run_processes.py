"""Runs and their processes: a run is tagged with the process that carries it out, and ends when that one is gone.

Dagster does not notice when a run's process is killed, neither that of a command nor that of `dagster dev`: the run
would stay STARTED for ever, and take a place of the queue.
"""

from __future__ import annotations

import dagster as dg
from dagster._core.instance import DagsterInstance
from dagster._core.storage.dagster_run import DagsterRunStatus
from dagster._core.storage.runs import SqliteRunStorage
from dagster._core.storage.tags import GRPC_INFO_TAG

from eval_pipeline.processes import ProcessMark, parse_mark, process_start, this_process

PROCESS_TAG = "process"
"""The tag of a run that names its process. It begins with the run's id: a run that is started again from another one
inherits the tags of that one."""
IN_ONE_PROCESS = ("in_process", "execute_in_process_executor")
"""Executors that carry out the steps of a run in the process of the run."""
REASON = "the process of this run (pid {pid}) is gone; finished executions are kept"
_OWNED = (
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
)
"""The statuses of runs that a process may be carrying out; a queued one waits for the daemon."""


def process_tag(run_id: str) -> dict[str, str]:
    """Return the tag of a run that this process carries out."""
    return {PROCESS_TAG: f"{run_id}|{this_process()}"}


def tag_process(context: dg.AssetExecutionContext) -> None:
    """Tag the run of a step with this process, where it is the one that carries out the whole run."""
    run = context.run
    if context.job_def.executor_def.name in IN_ONE_PROCESS and _mark_of(run) is None:
        context.instance.add_run_tags(run.run_id, process_tag(run.run_id))


def end_dead_runs(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """Report runs whose process is gone as failed, or as canceled if that had been requested; return them.

    Runs of other machines, and runs whose process is not known, stay as they are.
    """
    unfinished = instance.get_runs(dg.RunsFilter(statuses=list(_OWNED)))
    return [run for run in unfinished if (pid := _dead_process(instance, run)) is not None and _end(instance, run, pid)]


def _end(instance: dg.DagsterInstance, run: dg.DagsterRun, pid: int) -> bool:
    """Report the end of a run, unless its process did so before it ended."""
    now = instance.get_run_by_id(run.run_id)
    if now is None or now.is_finished:
        return False
    report = instance.report_run_canceled if now.status is DagsterRunStatus.CANCELING else instance.report_run_failed
    report(now, REASON.format(pid=pid))
    return True


def _dead_process(instance: dg.DagsterInstance, run: dg.DagsterRun) -> int | None:
    """Return the id of a run's process that is gone; None when it is there, or not known."""
    mark = _mark_of(run)
    if mark is not None:
        return mark.pid if mark.is_gone else None
    pid = _announced_process(instance, run)
    return pid if pid is not None and process_start(pid) is None else None


def _mark_of(run: dg.DagsterRun) -> ProcessMark | None:
    run_id, _, mark = run.tags.get(PROCESS_TAG, "").partition("|")
    return parse_mark(mark) if run_id == run.run_id else None


def _announced_process(instance: DagsterInstance, run: dg.DagsterRun) -> int | None:
    """Return the id of the process that Dagster's code server started for a run; its log names it before any step.

    None for runs that may have been started on another machine: only a SQLite file is certainly of this one.
    """
    if GRPC_INFO_TAG not in run.tags or not isinstance(instance.run_storage, SqliteRunStorage):
        return None
    for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT):
        pid = entry.get_dagster_event().engine_event_data.metadata.get("pid")
        if pid is not None and str(pid.value).isdecimal():
            return int(str(pid.value))
    return None
