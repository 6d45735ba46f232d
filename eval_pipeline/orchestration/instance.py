"""The Dagster instance of a project: where runs, events and schedules are kept."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import dagster as dg
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from filelock import FileLock

from eval_pipeline.orchestration.sqlite_storage import SweepSqliteStorage

CONFIG = """\
# Dagster's own settings for this project (docs.dagster.io, "dagster.yaml"); written once, yours to change.
telemetry:
  enabled: false
concurrency:
  runs:
    max_concurrent_runs: 2
run_monitoring:
  enabled: true
retention:
  schedule:
    purge_after_days: 90
  sensor:
    purge_after_days:
      skipped: 7
      failure: 30
      success: 90
"""


EVENTS_AT_ONCE = 200
"""Events of one kind that Dagster itself reports together, such as what a run plans, in one transaction."""


def dagster_home(data: Path) -> Path:
    """`DAGSTER_HOME` when set, else `dagster/` in the data folder."""
    named = os.environ.get("DAGSTER_HOME")
    return Path(named).expanduser().absolute() if named else data.absolute() / "dagster"


def prepare_home(data: Path) -> Path:
    """Makes the instance's folder, with settings when it has none yet."""
    home = dagster_home(data)
    home.mkdir(parents=True, exist_ok=True)
    config = home / "dagster.yaml"
    if not config.exists():
        config.write_text(CONFIG, encoding="utf-8")
    return home


def end_killed_runs(instance: dg.DagsterInstance, run_ids: Iterable[str]) -> None:
    """Report runs whose process was killed as failed; without that they would stay running for ever."""
    for run_id in run_ids:
        run = instance.get_run_by_id(run_id)
        if run is not None and not run.is_finished:
            instance.report_run_failed(run, "the process of this run was killed; finished executions are kept")


def open_instance(data: Path) -> dg.DagsterInstance:
    """Return the instance for a sweep in this process.

    Output goes to the terminal instead of into captured logs, and events are stored several at a time.
    """
    quiet = {
        "compute_logs": {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
    }
    home = prepare_home(data)
    with FileLock(home / "opening.lock"):  # two first runs must not both make Dagster's tables
        instance = dg.DagsterInstance.from_ref(_with_our_storage(InstanceRef.from_dir(str(home), overrides=quiet)))
    instance._get_event_batch_size = lambda: EVENTS_AT_ONCE  # type: ignore[method-assign]
    return instance


def _with_our_storage(ref: InstanceRef) -> InstanceRef:
    """The instance with SQLite opened by SweepSqliteStorage; another storage, or one of the user's, stays."""
    storage = ref.storage_data
    if storage is None or storage.class_name != DagsterSqliteStorage.__name__:
        return ref
    module = SweepSqliteStorage.__module__
    return ref._replace(storage_data=storage._replace(module_name=module, class_name=SweepSqliteStorage.__name__))
