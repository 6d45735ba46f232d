"""Dagster's SQLite storage, cheaper to open and to write; the files and their content stay Dagster's own.

It replaces the stock storage while a sweep runs in this process (see `instance.open_instance`); the webserver and the
daemon read the same files with the stock one.

- The stock event log makes a new engine for each event and commits each on its own: 10 ms of CPU an event. Here one
  connection per file stays open, and events are stored several at a time.
- The stock storages load all of Dagster's migration scripts whenever they open a database. Here one with a migration
  stamp opens as it is: Dagster only tests whether there is a stamp.
- The stock storages make the tables of each run's database statement by statement. Here it starts as a copy.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Self

import dagster as dg
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    SqlEventLogStorageMetadata,
    SqlEventLogStorageTable,
)
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME
from dagster._core.storage.runs import SqliteRunStorage
from dagster._core.storage.runs.migration import OPTIONAL_DATA_MIGRATIONS, REQUIRED_DATA_MIGRATIONS
from dagster._core.storage.runs.schema import RunStorageSqlMetadata
from dagster._core.storage.schedules import SqliteScheduleStorage
from dagster._core.storage.schedules.migration import (
    OPTIONAL_SCHEDULE_DATA_MIGRATIONS,
    REQUIRED_SCHEDULE_DATA_MIGRATIONS,
)
from dagster._core.storage.schedules.schema import ScheduleStorageSqlMetadata
from dagster._core.storage.sql import ALEMBIC_SCRIPTS_LOCATION
from dagster._core.storage.sqlite import create_db_conn_string
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData, serialize_value
from sqlalchemy import MetaData, NullPool, create_engine
from sqlalchemy.engine import Connection, Engine

from eval_pipeline.orchestration.light_events import bare_check, light_event, logged_event
from eval_pipeline.sweeps.dagster_databases import database_problem, is_empty

_MIGRATED_RUNS = (*REQUIRED_DATA_MIGRATIONS, *OPTIONAL_DATA_MIGRATIONS)
_MIGRATED_SCHEDULES = (*REQUIRED_SCHEDULE_DATA_MIGRATIONS, *OPTIONAL_SCHEDULE_DATA_MIGRATIONS)
_MATERIALIZATION = dg.DagsterEventType.ASSET_MATERIALIZATION
_CHECK = dg.DagsterEventType.ASSET_CHECK_EVALUATION
_PLANNED = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
_LOGGED = (dg.AssetKey("evaluator_scores").to_string(),)
"""The assets whose partitions the log of a run lists."""
BUSY_TIMEOUT_S = 60
"""How long to wait for another process that writes to the same file."""


class SweepSqliteStorage(DagsterSqliteStorage):
    """`DagsterSqliteStorage` over the storages below."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        history = Path(base_dir, "history")
        self.base_dir = base_dir
        self._run_storage = QuickRunStorage.from_local(str(history))
        self._event_log_storage = PooledEventLogStorage(str(history / "runs"))
        self._schedule_storage = QuickScheduleStorage.from_local(str(Path(base_dir, "schedules")))
        self._inst_data = inst_data

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Any) -> Self:
        return cls.from_local(inst_data=inst_data, **config_value)


class QuickRunStorage(SqliteRunStorage):
    """Opens a stamped `runs.db` without Dagster's migration scripts."""

    @classmethod
    def from_local(cls, base_dir: str, inst_data: ConfigurableClassData | None = None) -> Self:
        opened = _open_stamped(cls, base_dir, "runs", RunStorageSqlMetadata, "instance_info", _MIGRATED_RUNS)
        return opened if opened is not None else super().from_local(base_dir, inst_data)


class QuickScheduleStorage(SqliteScheduleStorage):
    """Opens a stamped `schedules.db` without Dagster's migration scripts."""

    @classmethod
    def from_local(cls, base_dir: str, inst_data: ConfigurableClassData | None = None) -> SqliteScheduleStorage:
        tables = ScheduleStorageSqlMetadata
        opened = _open_stamped(cls, base_dir, "schedules", tables, "job_ticks", _MIGRATED_SCHEDULES)
        return opened if opened is not None else super().from_local(base_dir, inst_data)


class PooledEventLogStorage(SqliteEventLogStorage):
    """The SQLite event log with one open connection per file, and several events in one transaction on request."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._turn = threading.RLock()
        self._connections: dict[str, Connection] = {}
        self._tables: dict[str, bool] = {}
        self._has_index_columns: bool | None = None
        self._held = False
        self._newest_of_assets: dict[tuple[str, str], tuple[EventLogEntry, int]] = {}
        self.newest_asset_event: int | None = None
        index = Path(base_dir, f"{INDEX_SHARD_NAME}.db")
        if is_empty(index):
            index.unlink(missing_ok=True)  # Dagster makes its tables only where there is no file
        super().__init__(base_dir, inst_data)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Commit what is stored inside once, at the end. Other threads and processes wait meanwhile: keep it short."""
        with self._turn:
            if self._held:
                yield
                return
            self._held = True
            try:
                yield
                self._store_newest_of_assets()
                self._end_all(commit=True)
            except BaseException:  # a commit that fails, as on a full disk, leaves its transaction and those after it
                self._end_all(commit=False)
                raise
            finally:
                self._newest_of_assets.clear()
                self._held = False

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        with self.together():
            for event in events:
                self.store_event(event)

    def store_event(self, event: EventLogEntry) -> None:
        """As the stock storage, in fewer bytes (`light_events`), and without what a pair's events say of it twice.

        The log of a run has one line per pair, that of its scores; what a run planned is removed when it is there.
        """
        kind = event.dagster_event_type if event.is_dagster_event else None
        if not event.run_id or kind not in (_MATERIALIZATION, _CHECK):
            super().store_event(event)
            return
        row = self._event_to_row(event)
        if kind is _CHECK:
            self.store_asset_check_event(event, self._id_of_check(row))
            return
        if row["partition"] is None or row["asset_key"] in _LOGGED:
            with self.run_connection(event.run_id) as conn:
                _inserted(conn, {**row, "event": logged_event(row["event"])})
        with self.index_connection() as conn:
            event_id = _inserted(conn, row)
            self._store_asset_event_tags(conn, [event], [event_id])
            self._store_asset_event(conn, event, event_id)
        self._remove_planned(row)

    def _id_of_check(self, row: dict[str, Any]) -> int:
        """Return the id of an evaluated check: that of the materialization which is stored together with it, else of an
        event in the index. What a check found is in Dagster's table of checks."""
        if self._newest_of_assets and self.newest_asset_event is not None:
            return self.newest_asset_event
        with self.index_connection() as conn:
            return _inserted(conn, {**row, "event": bare_check(row["event"])})

    def _event_to_row(self, event: EventLogEntry) -> dict[str, Any]:
        row: dict[str, Any] = super()._event_to_row(event)
        return {**row, "event": light_event(row["event"])}

    def _remove_planned(self, row: dict[str, Any]) -> None:
        """Remove what the run planned of a partition that is there now: only the others can fail or be under way."""
        if row["partition"] is None:
            return
        events = SqlEventLogStorageTable.c
        planned = (
            (events.run_id == row["run_id"])
            & (events.asset_key == row["asset_key"])
            & (events.dagster_event_type == _PLANNED.value)
            & (events.partition == row["partition"])
        )
        for connect in (partial(self.run_connection, row["run_id"]), self.index_connection):
            with connect() as conn:
                conn.execute(SqlEventLogStorageTable.delete().where(planned))

    def has_table(self, table_name: str) -> bool:
        if not self._tables.get(table_name):
            self._tables[table_name] = super().has_table(table_name)
        return self._tables[table_name]

    def files_of(self, run_id: str) -> list[Path]:
        """Return the files with the events of a run."""
        path = self.path_for_shard(run_id)
        return [each for ending in ("", "-wal", "-shm") if (each := Path(f"{path}{ending}")).exists()]

    def remove_files(self, run_ids: Sequence[str]) -> None:
        """Remove the files of deleted runs: Dagster empties them, which leaves them as large as they were."""
        with self._turn:
            for run_id in run_ids:
                if (connection := self._connections.pop(run_id, None)) is not None:
                    connection.close()
                    connection.engine.dispose()
                self._initialized_dbs.discard(run_id)
                for path in self.files_of(run_id):
                    path.unlink(missing_ok=True)

    def vacuum_index(self) -> None:
        """Give back the space of deleted events. Raises OperationalError while another process uses the file."""
        with self._turn:
            self._vacuum(INDEX_SHARD_NAME)

    def _vacuum(self, shard: str) -> None:
        with closing(sqlite3.connect(self.path_for_shard(shard), timeout=1.0)) as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def dispose(self) -> None:
        """Close the connections; the logs of their runs give back the space of what was planned."""
        with self._turn:
            for shard, connection in self._connections.items():
                connection.close()
                connection.engine.dispose()
                if shard != INDEX_SHARD_NAME:
                    with suppress(sqlite3.Error):  # another process reads it, or the disk is full
                        self._vacuum(shard)
            self._connections.clear()
        super().dispose()

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        """A connection inside a transaction: of its own, or the one that `together` ends."""
        with self._turn:
            connection = self._connection(shard)
            if connection.in_transaction():
                yield connection
                return
            if self._held:
                connection.begin()
                yield connection
                return
            with connection.begin():
                yield connection
            self._notify(shard)

    def _connection(self, shard: str) -> Connection:
        if shard not in self._connections:
            engine = create_engine(
                self.conn_string_for_shard(shard),
                poolclass=NullPool,
                connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False},
            )
            if shard not in self._initialized_dbs:
                self._initdb(engine)
                self._initialized_dbs.add(shard)
            self._connections[shard] = engine.connect()
        return self._connections[shard]

    def _initdb(self, engine: Engine, for_index_shard: bool = False) -> None:
        if _is_complete(engine, "event_logs"):
            return
        database = Path(str(engine.url.database))
        if not is_empty(database):
            super()._initdb(engine, for_index_shard)
            return
        part = database.with_suffix(".part")
        shutil.copyfile(self._blank, part)
        part.replace(database)

    @cached_property
    def _blank(self) -> Path:
        """An event log without events, which the database of each run starts as; made again where it is damaged."""
        blank = Path(self._base_dir).parent / f"blank-events-{dg.__version__}.db"
        if database_problem(blank) is not None:
            shutil.rmtree(blank) if blank.is_dir() else blank.unlink()
        _make_if_missing(blank, SqlEventLogStorageMetadata)
        return blank

    def _end_all(self, *, commit: bool) -> None:
        """End open transactions, runs first: an event in the index alone would have no run."""
        shards = sorted(self._connections, key=lambda shard: shard == INDEX_SHARD_NAME)
        for connection in (self._connections[shard] for shard in shards):
            transaction = connection.get_transaction()
            if transaction is not None:
                transaction.commit() if commit else transaction.rollback()
        for shard in shards:
            self._notify(shard)

    def _notify(self, shard: str) -> None:
        """Make the file look changed: the live log of the UI watches it, and SQLite writes to a file beside it."""
        with suppress(OSError):
            os.utime(self.path_for_shard(shard))

    def _has_asset_key_index_cols_on_connection(self, conn: Connection) -> bool:
        if self._has_index_columns is None:
            self._has_index_columns = super()._has_asset_key_index_cols_on_connection(conn)
        return self._has_index_columns

    def _store_asset_event(self, conn: Connection, event: EventLogEntry, event_id: int) -> None:
        self.newest_asset_event = event_id
        if not self._held:
            super()._store_asset_event(conn, event, event_id)
            return
        of_asset = event.get_dagster_event()
        kind = (str(of_asset.asset_key), of_asset.event_type_value)
        self._newest_of_assets.pop(kind, None)  # to the end: the newest event of an asset is stored last
        self._newest_of_assets[kind] = (event, event_id)

    def _store_newest_of_assets(self) -> None:
        """Update the row of each asset with its newest event of each kind: those before would be overwritten."""
        for event, event_id in self._newest_of_assets.values():
            with self.index_connection() as conn:
                super()._store_asset_event(conn, event, event_id)

    def _store_asset_check_evaluation_planned(self, event: EventLogEntry, event_id: int | None) -> None:
        """As the stock storage, without the event, which lists every partition: it is in the log."""
        planned: Any = event.get_dagster_event().event_specific_data
        keys = planned.partitions_subset.get_partition_keys() if planned.partitions_subset else [None]
        row = {
            "asset_key": planned.asset_key.to_string(),
            "check_name": planned.check_name,
            "run_id": event.run_id,
            "execution_status": AssetCheckExecutionRecordStatus.PLANNED.value,
            "evaluation_event": None,
            "evaluation_event_timestamp": self._event_insert_timestamp(event),  # type: ignore[no-untyped-call]
            "evaluation_event_storage_id": event_id,
        }
        with self.index_connection() as conn:
            conn.execute(AssetCheckExecutionsTable.insert(), [{**row, "partition": key} for key in keys])

    def _update_asset_check_evaluation(self, event: EventLogEntry, event_id: int | None) -> None:
        """As the stock storage, in fewer bytes, for a check that its run planned."""
        found: Any = event.get_dagster_event().event_specific_data
        checks, target = AssetCheckExecutionsTable.c, found.target_materialization_data
        status = AssetCheckExecutionRecordStatus.SUCCEEDED if found.passed else AssetCheckExecutionRecordStatus.FAILED
        planned = (
            (checks.asset_key == found.asset_key.to_string())
            & (checks.check_name == found.check_name)
            & (checks.run_id == event.run_id)
            & (checks.partition == found.partition)
        )
        values = {
            "execution_status": status.value,
            "evaluation_event": light_event(serialize_value(event)),
            "evaluation_event_timestamp": self._event_insert_timestamp(event),  # type: ignore[no-untyped-call]
            "evaluation_event_storage_id": event_id,
            "materialization_event_storage_id": target.storage_id if target else None,
        }
        with self.index_connection() as conn:
            updated = conn.execute(AssetCheckExecutionsTable.update().where(planned).values(**values)).rowcount
        if not updated:
            super()._update_asset_check_evaluation(event, event_id)


def _inserted(conn: Connection, row: dict[str, Any]) -> int:
    """Store an event. Returns its id."""
    result = conn.execute(SqlEventLogStorageTable.insert().values(**row))
    return int(result.inserted_primary_key[0])  # type: ignore[index]


@contextmanager
def light_events_of(instance: dg.DagsterInstance) -> Iterator[None]:
    """Store the events of an instance with Dagster's own SQLite storage as a sweep of the command line does."""
    stock = instance.event_log_storage
    if type(stock) is not SqliteEventLogStorage:
        yield
        return
    light = PooledEventLogStorage(stock._base_dir)
    instance._event_storage = light
    try:
        light.register_instance(instance)
        yield
    finally:
        instance._event_storage = stock
        light.dispose()


def newest_storage_id(instance: dg.DagsterInstance, asset: str, partition: str) -> int | None:
    """Return the storage id of a partition's materialization that was just stored."""
    storage = instance.event_log_storage
    if isinstance(storage, PooledEventLogStorage):
        return storage.newest_asset_event
    key, materialized = dg.AssetKey(asset), dg.DagsterEventType.ASSET_MATERIALIZATION
    return storage.get_latest_storage_id_by_partition(key, materialized, {partition}).get(partition)


@contextmanager
def events_together(instance: dg.DagsterInstance) -> Iterator[None]:
    """Store the events reported inside in one transaction, where the instance's storage can."""
    storage = instance.event_log_storage
    if isinstance(storage, PooledEventLogStorage):
        with storage.together():
            yield
    else:
        yield


def _open_stamped(storage: Any, base_dir: str, name: str, tables: MetaData, table: str, migrated: Sequence[str]) -> Any:
    """Return a storage over a database, made where there is none; None where Dagster did not finish making it."""
    address = create_db_conn_string(base_dir, name)
    _make_if_missing(Path(base_dir, f"{name}.db"), tables, migrated)
    return storage(address) if _is_complete(create_engine(address, poolclass=NullPool), table) else None


def _is_complete(engine: Engine, table: str) -> bool:
    """Return whether Dagster finished making a database: it has this table and a migration stamp."""
    if not Path(str(engine.url.database)).exists():
        return False
    with engine.connect() as connection:
        stamped = MigrationContext.configure(connection).get_current_revision() is not None
        return stamped and engine.dialect.has_table(connection, table)


def _make_if_missing(database: Path, tables: MetaData, migrated: Sequence[str] = ()) -> None:
    """Make an empty database as Dagster does, stamped with its newest migration, where there is none.

    Migrations of data (`migrated`) are noted as done: there is nothing to migrate. SQLite commits each statement that
    makes a table to the disk, so they run in memory. The file appears whole or not at all.
    """
    if not is_empty(database):
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    part = database.with_suffix(".part")
    part.unlink(missing_ok=True)
    with create_engine("sqlite://").connect() as memory, closing(sqlite3.connect(part)) as copy:
        tables.create_all(memory)
        done = [{"name": name, "migration_completed": datetime.now()} for name in migrated]
        if done:
            memory.execute(tables.tables["secondary_indexes"].insert(), done)
        MigrationContext.configure(memory).stamp(_migration_scripts(), "head")
        memory.commit()
        memory.connection.driver_connection.backup(copy)  # type: ignore[union-attr]
        copy.execute("PRAGMA journal_mode=WAL")
    part.replace(database)


@cache
def _migration_scripts() -> ScriptDirectory:
    """Dagster's migration scripts: 50 modules, loaded once instead of twice per database."""
    config = Config()
    config.set_main_option("script_location", ALEMBIC_SCRIPTS_LOCATION)
    return ScriptDirectory.from_config(config)
