"""Deleting old runs of Dagster with their events, which are most of what Dagster stores of a project.

A run stays while it has the newest event of any partition: what the UI shows of assets and checks does not change.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import dagster as dg
from dagster._core.storage.dagster_run import FINISHED_STATUSES, RunsFilter
from dagster._core.storage.event_log import SqlEventLogStorage
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable, SqlEventLogStorageTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME
from sqlalchemy import func, select

from eval_pipeline.orchestration.instance import end_killed_runs, open_instance
from eval_pipeline.orchestration.sqlite_storage import PooledEventLogStorage
from eval_pipeline.sweeps.deletion import NO_FILES, FileCount

_EVENTS = [
    kind.value
    for kind in (
        dg.DagsterEventType.ASSET_MATERIALIZATION,
        dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED,
        dg.DagsterEventType.ASSET_OBSERVATION,
    )
]


def prune_runs(
    data: Path, root: Path, before: datetime | None, *, dry_run: bool, killed: Sequence[str] = ()
) -> tuple[int, FileCount]:
    """Delete the runs that finished before a time (None: any) and have no newest event; return how many, and the size
    of their files. `killed` runs are reported as failed. A dry run only counts."""
    with open_instance(data, root) as instance:
        end_killed_runs(instance, () if dry_run else killed)
        runs = list(_old_runs(instance, before))
        files = [path for run in runs for path in _files_of(instance, run)]
        counted = sum((FileCount(1, path.stat().st_size) for path in files), NO_FILES)
        if dry_run or not runs:
            return len(runs), counted
        shrunk = _index_bytes(instance)
        delete_runs(instance, runs)
        shrunk -= _index_bytes(instance)
    return len(runs), counted + FileCount(0, max(0, shrunk))


def delete_runs(instance: dg.DagsterInstance, runs: Sequence[str]) -> None:
    """Delete runs with their events, their checks and their files, which Dagster leaves behind."""
    for run in runs:
        instance.delete_run(run)
    storage = instance.event_log_storage
    if runs and isinstance(storage, SqlEventLogStorage):
        with storage.index_connection() as connection:
            for run in runs:
                connection.execute(AssetCheckExecutionsTable.delete().where(AssetCheckExecutionsTable.c.run_id == run))
    if runs and isinstance(storage, PooledEventLogStorage):
        storage.remove_files(runs)
        with suppress(sqlite3.OperationalError):  # the UI reads at the moment: later events use the space
            storage.vacuum_index()


def _old_runs(instance: dg.DagsterInstance, before: datetime | None) -> Iterator[str]:
    records = instance.get_run_records(RunsFilter(statuses=list(FINISHED_STATUSES)))
    old = [
        record.dagster_run.run_id
        for record in records
        if before is None or (record.end_time or 0.0) < before.timestamp()
    ]
    newest = _runs_with_newest(instance) if old else set()
    return (run for run in old if run not in newest)


def _runs_with_newest(instance: dg.DagsterInstance) -> set[str]:
    """Return the runs that have the newest event of a kind, or the newest check, of any partition of an asset."""
    events, checks = SqlEventLogStorageTable.c, AssetCheckExecutionsTable.c
    newest = select(func.max(events.id)).where(events.dagster_event_type.in_(_EVENTS))
    newest = newest.group_by(events.asset_key, events.partition, events.dagster_event_type)
    checked = select(func.max(checks.id)).group_by(checks.asset_key, checks.check_name, checks.partition)
    with _storage(instance).index_connection() as connection:
        by_event = connection.execute(select(events.run_id).where(events.id.in_(newest)).distinct()).fetchall()
        by_check = connection.execute(select(checks.run_id).where(checks.id.in_(checked)).distinct()).fetchall()
    return {run for (run,) in (*by_event, *by_check)}


def _storage(instance: dg.DagsterInstance) -> SqlEventLogStorage:
    storage = instance.event_log_storage
    assert isinstance(storage, SqlEventLogStorage)
    return storage


def _files_of(instance: dg.DagsterInstance, run: str) -> list[Path]:
    """Return the files that SQLite keeps of the events of one run."""
    storage = instance.event_log_storage
    return storage.files_of(run) if isinstance(storage, PooledEventLogStorage) else []


def _index_bytes(instance: dg.DagsterInstance) -> int:
    storage = instance.event_log_storage
    if not isinstance(storage, PooledEventLogStorage):
        return 0
    return Path(storage.path_for_shard(INDEX_SHARD_NAME)).stat().st_size
