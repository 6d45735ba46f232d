"""The Dagster instance of a project: where runs, events and schedules are kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from dagster._core.definitions.repository_definition import SINGLETON_REPOSITORY_NAME
from dagster._core.instance.ref import InstanceRef
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteRepositoryOrigin
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from filelock import FileLock

from eval_pipeline.orchestration.locations import location_name
from eval_pipeline.orchestration.sqlite_storage import SweepSqliteStorage

CONFIG = """\
# Dagster's own settings for this project (docs.dagster.io, "dagster.yaml"); written once, yours to change.
telemetry:
  enabled: false
nux:  # the invitation to Dagster's community
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
_WRITTEN_BEFORE = CONFIG.replace("nux:  # the invitation to Dagster's community\n  enabled: false\n", "")
SETTINGS_FILE = "dagster.yaml"

EVENTS_AT_ONCE = 200
"""Events of one kind that Dagster itself reports together, such as what a run plans, in one transaction."""


def dagster_home(data: Path, root: Path | None = None) -> Path:
    """Return the folder of the instance of a data folder.

    `DAGSTER_HOME` when set; the project's folder when its own `dagster.yaml` keeps the runs of this data folder, so
    that a plain `dagster dev` and the commands have the same settings; else `dagster/` in the data folder.
    """
    named = os.environ.get("DAGSTER_HOME")
    if named:
        return Path(named).expanduser().absolute()
    return root if root is not None and configures(root, data) else _own_home(data)


def _own_home(data: Path) -> Path:
    return data.absolute() / "dagster"


def configures(root: Path, data: Path) -> bool:
    """Return whether `dagster.yaml` in a folder keeps Dagster's runs where the commands do for this data folder."""
    try:
        settings = yaml.safe_load((root / SETTINGS_FILE).read_text(encoding="utf-8"))
        storage = settings["storage"]["sqlite"]["base_dir"]
        return Path(root, storage).resolve() == _own_home(data).resolve()
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError):
        return False


def describe_home(folder: Path, data: Path) -> str:
    """Return where a plain `dagster dev` in a folder keeps its runs, and how to see those of the commands."""
    named = os.environ.get("DAGSTER_HOME")
    if named and not configures(Path(named), data):
        return f"Dagster's runs are kept in {named} (DAGSTER_HOME)"
    if configures(Path(named or folder), data):
        return f"Dagster's runs, also those of eval-pipeline, are kept in {_own_home(data)} ({SETTINGS_FILE})"
    return (
        "Dagster's runs are kept in a temporary folder, and those of eval-pipeline are not shown; to see them, start "
        f"`eval-pipeline dev`, or `dagster dev` with DAGSTER_HOME={_own_home(data)}"
    )


def prepare_home(data: Path, root: Path | None = None) -> Path:
    """Return the instance's folder, with settings when it has none yet; settings of a user stay as they are."""
    home = dagster_home(data, root)
    home.mkdir(parents=True, exist_ok=True)
    settings = home / SETTINGS_FILE
    if not settings.exists() or settings.read_text("utf-8") == _WRITTEN_BEFORE:
        settings.write_text(CONFIG, encoding="utf-8")
    return home


def end_killed_runs(instance: dg.DagsterInstance, run_ids: Iterable[str]) -> None:
    """Report runs whose process was killed as failed; without that they would stay running for ever."""
    for run_id in run_ids:
        run = instance.get_run_by_id(run_id)
        if run is not None and not run.is_finished:
            instance.report_run_failed(run, "the process of this run was killed; finished executions are kept")


def open_instance(data: Path, root: Path | None = None) -> dg.DagsterInstance:
    """Return the instance for a sweep in this process; `root` is the project's folder.

    Output goes to the terminal instead of into captured logs, and events are stored several at a time.
    """
    quiet = {
        "compute_logs": {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
    }
    home = prepare_home(data, root)
    lock = _own_home(data) / "opening.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):  # two first runs must not both make Dagster's tables
        ref = InstanceRef.from_dir(str(home), overrides=quiet)
        instance = dg.DagsterInstance.from_ref(_with_our_storage(_stored_below(home, ref) if home == root else ref))
    instance._get_event_batch_size = lambda: EVENTS_AT_ONCE  # type: ignore[method-assign]
    instance.create_run_for_job = partial(  # type: ignore[method-assign]
        _create_run, instance.create_run_for_job, location_name(root or Path.cwd())
    )
    return instance


def _create_run(create: Callable[..., dg.DagsterRun], location: str, job_def: dg.JobDefinition, **run: Any) -> Any:
    """Create a run that belongs to its job in a code location.

    The pages Overview and Jobs of the UI show runs by code location, which a run in the caller's process has not.
    """
    repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(location), SINGLETON_REPOSITORY_NAME)
    return create(job_def=job_def, remote_job_origin=repository.get_job_origin(job_def.name), **run)


def _stored_below(root: Path, ref: InstanceRef) -> InstanceRef:
    """The instance with SQLite's folder relative to the project's: a command may start in another one."""
    storage = ref.storage_data
    if storage is None or "base_dir" not in storage.config_dict:
        return ref
    settings = yaml.safe_dump({"base_dir": str(root / storage.config_dict["base_dir"])})
    return ref._replace(storage_data=storage._replace(config_yaml=settings))


def _with_our_storage(ref: InstanceRef) -> InstanceRef:
    """The instance with SQLite opened by SweepSqliteStorage; another storage, or one of the user's, stays."""
    storage = ref.storage_data
    if storage is None or storage.class_name != DagsterSqliteStorage.__name__:
        return ref
    module = SweepSqliteStorage.__module__
    return ref._replace(storage_data=storage._replace(module_name=module, class_name=SweepSqliteStorage.__name__))
