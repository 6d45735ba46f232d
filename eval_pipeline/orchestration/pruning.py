"""Deleting old runs of Dagster with their events, which are most of what Dagster stores of a project.

A run stays while it has the newest event of any partition, or one that boards were made from: what the UI shows of
assets and checks does not change.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import dagster as dg
from dagster._core.definitions.data_version import INPUT_EVENT_POINTER_TAG_PREFIX
from dagster._core.storage.dagster_run import FINISHED_STATUSES, RunsFilter
from dagster._core.storage.event_log import SqlEventLogStorage
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    SqlEventLogStorageTable,
)
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME
from sqlalchemy import Select, func, or_, select

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

_POINTER = f"{INPUT_EVENT_POINTER_TAG_PREFIX}/"


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
    kept = [newest, *_made_from(instance)]
    with _storage(instance).index_connection() as connection:
        by_event = connection.execute(
            select(events.run_id).where(or_(*(events.id.in_(ids) for ids in kept))).distinct()
        ).fetchall()
        by_check = connection.execute(select(checks.run_id).where(checks.id.in_(checked)).distinct()).fetchall()
    return {run for (run,) in (*by_event, *by_check)}


def _made_from(instance: dg.DagsterInstance) -> Iterator[Select[tuple[int]]]:
    """Yield the ids of the events that the newest materializations without a partition were made from: the newest of
    each upstream partition up to the event that a tag points at. Dagster compares later ones with them."""
    events = SqlEventLogStorageTable.c
    whole = select(events.asset_key).where(events.dagster_event_type == _EVENTS[0], events.partition.is_(None))
    with _storage(instance).index_connection() as connection:
        assets = [dg.AssetKey.from_db_string(key) for (key,) in connection.execute(whole.distinct())]
    for event in instance.get_latest_materialization_events([key for key in assets if key is not None]).values():
        made = event.asset_materialization if event is not None else None
        for name, id_ in (made.tags or {}).items() if made is not None else ():
            if name.startswith(_POINTER) and id_.isdigit():
                upstream = dg.AssetKey.from_user_string(name.removeprefix(_POINTER)).to_string()
                before = select(func.max(events.id)).where(events.asset_key == upstream, events.id <= int(id_))
                of_kinds = before.where(events.dagster_event_type.in_(_EVENTS))
                yield of_kinds.group_by(events.partition, events.dagster_event_type)


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
