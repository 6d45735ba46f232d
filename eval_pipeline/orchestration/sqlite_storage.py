"""Dagster's SQLite storage, cheaper to open and to write; the files and their content stay Dagster's own.

It replaces the stock storage while a sweep runs in this process (see `instance.open_instance`); the webserver and the
daemon read the same files with the stock one.

- The stock event log makes a new engine for each event and commits each on its own: 10 ms of CPU an event. Here one
  connection per file stays open, and events are stored several at a time.
- The stock storages load all of Dagster's migration scripts whenever they open a database. Here one with a migration
  stamp opens as it is: Dagster only tests whether there is a stamp.
- The stock storages make the tables of each run's database statement by statement. Here it starts as a copy.
- The stock storages of runs and schedules make an engine for each access, which compiles its statements anew. Here one
  engine opens all files.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

import dagster as dg
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.event_log.schema import (
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
from dagster._core.storage.sqlite import create_db_conn_string
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Column, MetaData, NullPool, PrimaryKeyConstraint, String, Table, create_engine, make_url
from sqlalchemy.engine import Connection, Engine

from eval_pipeline.orchestration.later_alembic import newest_migration
from eval_pipeline.orchestration.light_event_log import LightEventLog, inserted, planned_of
from eval_pipeline.orchestration.light_events import indexed_event, logged_event
from eval_pipeline.sweeps.dagster_databases import database_problem, is_empty

_STAMP = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Where Alembic looks for the migration that a database has."""
_MIGRATED_RUNS = (*REQUIRED_DATA_MIGRATIONS, *OPTIONAL_DATA_MIGRATIONS)
_MIGRATED_SCHEDULES = (*REQUIRED_SCHEDULE_DATA_MIGRATIONS, *OPTIONAL_SCHEDULE_DATA_MIGRATIONS)
PAGE_BYTES = 512
"""Each table and index of a database takes a page at least, and rows of events fill small pages better: an empty log is
20 kB where SQLite's own 4,096 bytes make it 115 kB."""
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


class _OneEngine:
    """Accesses of a storage without an engine of their own."""

    _conn_string: str

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with _opened(self._file) as connection, connection.begin():
            yield connection

    @cached_property
    def _file(self) -> Path:
        return Path(str(make_url(self._conn_string).database))


class QuickRunStorage(_OneEngine, SqliteRunStorage):
    """Opens a stamped `runs.db` without Dagster's migration scripts."""

    @classmethod
    def from_local(cls, base_dir: str, inst_data: ConfigurableClassData | None = None) -> Self:
        opened = _open_stamped(cls, base_dir, "runs", RunStorageSqlMetadata, "instance_info", _MIGRATED_RUNS)
        return opened if opened is not None else super().from_local(base_dir, inst_data)


class QuickScheduleStorage(_OneEngine, SqliteScheduleStorage):
    """Opens a stamped `schedules.db` without Dagster's migration scripts."""

    @classmethod
    def from_local(cls, base_dir: str, inst_data: ConfigurableClassData | None = None) -> SqliteScheduleStorage:
        tables = ScheduleStorageSqlMetadata
        opened = _open_stamped(cls, base_dir, "schedules", tables, "job_ticks", _MIGRATED_SCHEDULES)
        return opened if opened is not None else super().from_local(base_dir, inst_data)


class PooledEventLogStorage(LightEventLog, SqliteEventLogStorage):
    """The SQLite event log with one open connection per file, and several events in one transaction on request."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._connections: dict[str, Connection] = {}
        self._has_index_columns: bool | None = None
        index = Path(base_dir, f"{INDEX_SHARD_NAME}.db")
        if is_empty(index):
            index.unlink(missing_ok=True)  # Dagster makes its tables only where there is no file
        super().__init__(base_dir, inst_data)

    def _store_with_line(self, event: EventLogEntry, row: dict[str, Any]) -> int:
        """As the stock storage; the log of a run does not list partitions, which its progress and its summary count,
        and what no run reported is in no log."""
        if event.run_id and row["partition"] is None:
            with self.run_connection(event.run_id) as conn:
                inserted(conn, {**row, "event": logged_event(row["event"])})
        with self.index_connection() as conn:
            return inserted(conn, row if row["partition"] is None else {**row, "event": indexed_event(row["event"])})

    def _remove_planned(self, row: dict[str, Any]) -> None:
        with self.run_connection(row["run_id"]) as conn:
            conn.execute(SqlEventLogStorageTable.delete().where(planned_of(row)))
        super()._remove_planned(row)

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
            file = Path(self.path_for_shard(shard))
            if shard not in self._initialized_dbs:
                if not _is_complete(file, "event_logs"):
                    self._initdb(create_engine(self.conn_string_for_shard(shard), poolclass=NullPool))
                self._initialized_dbs.add(shard)
            self._connections[shard] = _opened(file)
        return self._connections[shard]

    def _initdb(self, engine: Engine, for_index_shard: bool = False) -> None:
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


def _open_stamped(storage: Any, base_dir: str, name: str, tables: MetaData, table: str, migrated: Sequence[str]) -> Any:
    """Return a storage over a database, made where there is none; None where Dagster did not finish making it."""
    file = Path(base_dir, f"{name}.db")
    _make_if_missing(file, tables, migrated)
    return storage(create_db_conn_string(base_dir, name)) if _is_complete(file, table) else None


def _is_complete(database: Path, table: str) -> bool:
    """Return whether Dagster finished making a database: it has this table and a migration stamp."""
    if not database.exists():
        return False
    with _opened(database) as connection:
        there = all(connection.dialect.has_table(connection, each) for each in (_STAMP.name, table))
        return there and connection.execute(_STAMP.select()).first() is not None


_OPENED: ContextVar[Path] = ContextVar("_OPENED")
"""The file that the engine is to open."""


def _opened(database: Path) -> Connection:
    """Return a new connection to a database file."""
    before = _OPENED.set(database)
    try:
        return _engine().connect()
    finally:
        _OPENED.reset(before)


@cache
def _engine() -> Engine:
    """The engine of all files: a statement that it compiled for one is ready for the others."""
    return create_engine(
        "sqlite://",
        poolclass=NullPool,
        creator=lambda: sqlite3.connect(_OPENED.get(), timeout=BUSY_TIMEOUT_S, check_same_thread=False),
    )


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
        memory.exec_driver_sql(f"PRAGMA page_size = {PAGE_BYTES}")
        tables.create_all(memory)
        done = [{"name": name, "migration_completed": datetime.now()} for name in migrated]
        if done:
            memory.execute(tables.tables["secondary_indexes"].insert(), done)
        _STAMP.create(memory)
        memory.execute(_STAMP.insert(), {"version_num": newest_migration()})
        memory.commit()
        memory.connection.driver_connection.backup(copy)  # type: ignore[union-attr]
        copy.execute("PRAGMA journal_mode=WAL")
    part.replace(database)
