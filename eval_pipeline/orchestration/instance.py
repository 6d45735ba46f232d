"""The Dagster instance of a project: its storage, and the code location of its runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import dagster as dg
import yaml
from dagster._core.definitions.repository_definition import SINGLETON_REPOSITORY_NAME
from dagster._core.instance.ref import InstanceRef
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteRepositoryOrigin
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._core.utils import make_new_run_id
from filelock import FileLock
from sqlalchemy.exc import DatabaseError

from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.orchestration.run_processes import end_dead_runs, process_tag
from eval_pipeline.orchestration.sqlite_storage import SweepSqliteStorage
from eval_pipeline.parsing.redaction import redact_text
from eval_pipeline.parsing.source import show_path
from eval_pipeline.sweeps.dagster_databases import find_damage
from eval_pipeline.sweeps.dagster_files import SETTINGS_FILE, location_name, prepare_home, runs_folder

_OUR_STORAGES = {
    DagsterSqliteStorage.__name__: (SweepSqliteStorage.__module__, SweepSqliteStorage.__name__),
    "DagsterPostgresStorage": ("eval_pipeline.orchestration.postgres_storage", "SweepPostgresStorage"),
}
Made = TypeVar("Made")
_DRIVER = "give the storage `scheme: postgresql+psycopg2`"
_INSTALL = "the storage in PostgreSQL needs: pip install 'eval-pipeline[postgres]'"
EVENTS_AT_ONCE = 200
"""Events of one kind that Dagster itself reports together, such as what a run plans, in one transaction."""


class UnusableInstance(EvalPipelineError):
    """Dagster's own settings, or the storage that they name, cannot be used."""


def end_killed_runs(instance: dg.DagsterInstance, run_ids: Iterable[str]) -> None:
    """Report runs whose process was killed as failed; without that they would stay running for ever."""
    for run_id in run_ids:
        run = instance.get_run_by_id(run_id)
        if run is not None and not run.is_finished:
            instance.report_run_failed(run, "the process of this run was killed; finished executions are kept")


@contextmanager
def open_instance(data: Path, root: Path | None = None) -> Iterator[dg.DagsterInstance]:
    """Yield the instance for a sweep in this process; `root` is the project's folder.

    Output goes to the terminal instead of into captured logs, and events are stored several at a time. Runs that killed
    processes left unfinished are ended first. Raises DagsterDamage for a database of the instance that cannot be read,
    UnusableInstance for settings or a storage that cannot be used.
    """
    try:
        with _open(data, root) as instance:
            end_dead_runs(instance)
            yield instance
    except DatabaseError as error:
        damage = find_damage(data, root)
        if damage is None:
            raise
        raise damage from error


def _open(data: Path, root: Path | None) -> dg.DagsterInstance:
    quiet = {
        "compute_logs": {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
    }
    home = prepare_home(data, root)
    lock = runs_folder(data) / "opening.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):  # two first runs must not both make Dagster's tables
        ref = _usable(lambda: InstanceRef.from_dir(str(home), overrides=quiet), home)
        instance = _usable(
            lambda: dg.DagsterInstance.from_ref(_with_our_storage(_stored_below(home, ref) if home == root else ref)),
            home,
        )
    instance._get_event_batch_size = lambda: EVENTS_AT_ONCE  # type: ignore[method-assign]
    instance.create_run_for_job = partial(  # type: ignore[method-assign]
        _create_run, instance.create_run_for_job, location_name(root or Path.cwd())
    )
    return instance


def _usable(make: Callable[[], Made], home: Path) -> Made:
    """Return what is made of an instance's settings. Raises UnusableInstance with the first cause, without secrets.

    Errors of SQLite go on: their cure is another one.
    """
    try:
        return make()
    except Exception as error:
        causes = list(_causes(error))
        if any(isinstance(cause, sqlite3.Error) for cause in causes):
            raise
        settings = show_path(home / SETTINGS_FILE)
        missing = next((cause.name for cause in causes if isinstance(cause, ModuleNotFoundError)), None)
        if missing is not None:
            cure = _DRIVER if missing == "psycopg" else _INSTALL
            raise UnusableInstance(f"{settings}: the module {missing} is not installed; {cure}") from None
        reason = redact_text(_what_is_wrong(str(causes[-1])), cut=True)
        raise UnusableInstance(f"{settings}: Dagster's storage cannot be opened: {reason}") from None


def _what_is_wrong(message: str) -> str:
    """Return the part of an error's message that says what is wrong: Dagster's may begin with a whole schema."""
    problems = " ".join(message.split())
    return problems[problems.find("Error 1: ") :] if "Error 1: " in problems else problems


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _create_run(
    create: Callable[..., dg.DagsterRun], location: str, job_def: dg.JobDefinition, tags: Mapping[str, str], **run: Any
) -> Any:
    """Create a run that belongs to this process, and to its job in a code location.

    The pages Overview and Jobs of the UI show runs by code location, which a run in the caller's process has not.
    """
    repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(location), SINGLETON_REPOSITORY_NAME)
    origin, run_id = repository.get_job_origin(job_def.name), run.pop("run_id", None) or make_new_run_id()
    tags = {**tags, **process_tag(run_id)}
    return create(job_def=job_def, remote_job_origin=origin, run_id=run_id, tags=tags, **run)


def _stored_below(root: Path, ref: InstanceRef) -> InstanceRef:
    """The instance with SQLite's folder relative to the project's: a command may start in another one."""
    storage = ref.storage_data
    if storage is None or "base_dir" not in storage.config_dict:
        return ref
    settings = yaml.safe_dump({"base_dir": str(root / storage.config_dict["base_dir"])})
    return ref._replace(storage_data=storage._replace(config_yaml=settings))


def _with_our_storage(ref: InstanceRef) -> InstanceRef:
    """The instance with Dagster's own storages opened by ours; another storage, or one of the user's, stays."""
    storage = ref.storage_data
    ours = _OUR_STORAGES.get(storage.class_name) if storage is not None else None
    if storage is None or ours is None:
        return ref
    module, name = ours
    return ref._replace(storage_data=storage._replace(module_name=module, class_name=name))
