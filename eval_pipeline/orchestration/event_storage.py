"""Dagster's SQLite event log, opened once per file instead of twice per event.

The stock storage makes a new engine for each event and commits each on its own: 10 ms of CPU an event. This one writes
the same files with the same statements, so the stock storage of the webserver and the daemon reads them as before. It
replaces the stock storage while a sweep runs in this process (see `instance.open_instance`).

The stock storage also loads all of Dagster's migration scripts each time it opens a database, and makes the tables of a
run's database statement by statement. Here a database with a migration stamp opens as it is (Dagster only tests whether
there is a stamp), and a new one starts as a copy of an empty one (`blank_databases.py`).
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable, SqlEventLogStorageMetadata
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME
from dagster._serdes import ConfigurableClassData, serialize_value
from sqlalchemy import create_engine
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import NullPool

from eval_pipeline.orchestration.blank_databases import is_complete, make_if_missing

BUSY_TIMEOUT_S = 60
"""How long to wait for another process that writes to the same file."""


class PooledEventLogStorage(SqliteEventLogStorage):
    """The SQLite event log with one open connection per file, and several events in one transaction on request."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._turn = threading.RLock()
        self._connections: dict[str, Connection] = {}
        self._tables: dict[str, bool] = {}
        self._has_index_columns: bool | None = None
        self._held = False
        self.newest_asset_event: int | None = None
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
            except BaseException:
                self._end_all(commit=False)
                raise
            else:
                self._end_all(commit=True)
            finally:
                self._held = False

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        with self.together():
            for event in events:
                self.store_event(event)

    def has_table(self, table_name: str) -> bool:
        if not self._tables.get(table_name):
            self._tables[table_name] = super().has_table(table_name)
        return self._tables[table_name]

    def dispose(self) -> None:
        with self._turn:
            for connection in self._connections.values():
                connection.close()
                connection.engine.dispose()
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
        if is_complete(engine, "event_logs"):
            return
        database = Path(str(engine.url.database))
        if database.exists():
            super()._initdb(engine, for_index_shard)
            return
        blank = database.parent.parent / f"blank-events-{dg.__version__}.db"
        make_if_missing(blank, SqlEventLogStorageMetadata)
        shutil.copyfile(blank, database)

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
        super()._store_asset_event(conn, event, event_id)

    def _store_asset_check_evaluation_planned(self, event: EventLogEntry, event_id: int | None) -> None:
        """As the stock storage, except that the event, which lists every partition, is serialized once for them all."""
        planned: Any = event.get_dagster_event().event_specific_data
        keys = planned.partitions_subset.get_partition_keys() if planned.partitions_subset else [None]
        row = {
            "asset_key": planned.asset_key.to_string(),
            "check_name": planned.check_name,
            "run_id": event.run_id,
            "execution_status": AssetCheckExecutionRecordStatus.PLANNED.value,
            "evaluation_event": serialize_value(event),
            "evaluation_event_timestamp": self._event_insert_timestamp(event),  # type: ignore[no-untyped-call]
            "evaluation_event_storage_id": event_id,
        }
        with self.index_connection() as conn:
            conn.execute(AssetCheckExecutionsTable.insert(), [{**row, "partition": key} for key in keys])


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
