"""A warehouse that several machines share: a DuckLake with its catalog in PostgreSQL, its rows as Parquet files.

Readers see every committed transaction: nothing is published apart. A transaction that fails because the server went
away, or because a program without our lock changed the same table, is run again from its beginning.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from eval_pipeline.errors import InputError, NoResults, WarehouseError
from eval_pipeline.warehouse.attached import AttachedConnection
from eval_pipeline.warehouse.catalog import Catalog
from eval_pipeline.warehouse.engines import THREADS, Config, sql_text
from eval_pipeline.warehouse.lake_address import LakeAddress, lake_address
from eval_pipeline.warehouse.lake_engine import LAKE, Engine, check_files, lake_engine, temporary
from eval_pipeline.warehouse.lake_readers import LakeReader
from eval_pipeline.warehouse.lake_retries import Retries, denied, is_transient
from eval_pipeline.warehouse.leases import Leases
from eval_pipeline.warehouse.migrations import migrate, schema_version
from eval_pipeline.warehouse.publishing import first_line
from eval_pipeline.warehouse.schema import SCHEMA_VERSION
from eval_pipeline.warehouse.scraps import remove_left_over
from eval_pipeline.warehouse.shared_files import SharedFiles
from eval_pipeline.warehouse.storage import Storage
from eval_pipeline.warehouse.store import DEFAULT_MEMORY_MB, Connection
from eval_pipeline.warehouse.table_writer import TableWriter, committed

_LOG = logging.getLogger(__name__)
LOCK_TIMEOUT_S = 600.0
_HAS_TABLES = "SELECT to_regclass('ducklake_table') IS NOT NULL"
_HAS_SCHEMA = "SELECT EXISTS (SELECT 1 FROM ducklake_table WHERE table_name = 'schema_migrations')"
_SNAPSHOT = "SELECT max(snapshot_id) FROM ducklake_snapshot"
_NAMED_FILES = """SELECT DISTINCT file ->> 'sha256' AS sha256
    FROM (SELECT unnest(from_json(artifacts, '["JSON"]')) AS file FROM target_executions)"""
_NEW_S = 86_400.0
"""Common files are kept for so long, though no row names them: their rows may be in a journal."""
_DATA_PATH = "SELECT value FROM ducklake_metadata WHERE key = 'data_path'"
Answer = TypeVar("Answer")


class DuckLakeWarehouse(TableWriter):
    """The warehouse in a DuckLake. One engine of a process stays connected to it for writing, one for reading."""

    lock_timeout_s = LOCK_TIMEOUT_S

    def __init__(self, address: LakeAddress, storage: Storage) -> None:
        self.address = address
        self.storage = storage
        self.folder = storage.progress.parent
        self.memory_mb = DEFAULT_MEMORY_MB
        self.catalog = Catalog(address)
        self.leases: Leases | None = Leases(Catalog(address), address.lease_s)
        self.shared_files = None if address.files is None else SharedFiles(address.files)
        self._turn = threading.RLock()
        self._engine: Engine | None = None
        self._connection: Engine | None = None
        self._reader = LakeReader()
        self._exists = False
        self._process = os.getpid()

    @classmethod
    def open(cls, address: str, root: Path, storage: Storage) -> DuckLakeWarehouse:
        """Return the warehouse of a catalog. Raises InputError for an address that is none."""
        return cls(lake_address(address, root), storage)

    @property
    def _config(self) -> Config:
        return {"memory_limit": f"{self.memory_mb}MB", "threads": THREADS, **temporary(self.folder)}

    def exists(self) -> bool:
        if not self._exists:
            self._exists = self._retried(self._has_schema)
        return self._exists

    def is_missing(self) -> bool:
        return False

    def restore(self) -> None:
        """Do nothing: there is no published copy apart from the tables."""

    def set_results_aside(self) -> None:
        """Do nothing: there is no published copy apart from the tables."""

    @contextmanager
    def transaction(self) -> Iterator[Engine]:
        """Yield a connection inside one transaction, which no other writer's overlaps.

        The block cannot be run again: a server that goes away meanwhile ends it with an error. `run` repeats its work.
        """
        with self._turn:
            if self._connection is not None:
                yield self._connection
                return
            with ExitStack() as begun:
                yield self._retried(lambda: begun.enter_context(self._begun(is_writing=True)))

    def run(self, work: Callable[[Engine], Answer]) -> Answer:
        return self._repeated(work, is_writing=True)

    def run_beside(self, work: Callable[[Engine], Answer]) -> Answer:
        """As `run`, at first without the lock of writers: transactions that only add rows have no conflicts."""
        with self._turn:
            if self._connection is None:
                try:
                    with self._begun(is_writing=False) as connection:
                        return work(connection)
                except duckdb.Error as error:  # a conflict, a lost server, a file that a compaction removed
                    _LOG.debug("stored again, alone: %s", first_line(error))
                    self.close()
            return self.run(work)

    def read(self, work: Callable[[Engine], Answer]) -> Answer:
        return self._repeated(work, is_writing=False)

    def _repeated(self, work: Callable[[Engine], Answer], *, is_writing: bool) -> Answer:
        def once() -> Answer:
            with self._begun(is_writing=is_writing) as connection:
                return work(connection)

        with self._turn:
            return work(self._connection) if self._connection is not None else self._retried(once)

    def _retried(self, attempt: Callable[[], Answer]) -> Answer:
        """Return what an attempt returns that no lost connection or conflict ended."""
        retries = Retries()
        while True:
            try:
                return attempt()
            except Exception as error:
                if (refused := denied(error)) is not None:
                    raise refused from error
                if not is_transient(error):
                    raise
                self.close()
                retries.wait(error)

    def _is_inside(self) -> bool:
        with self._turn:
            return self._connection is not None

    @contextmanager
    def _begun(self, *, is_writing: bool) -> Iterator[Engine]:
        if not is_writing:
            with self._used(self._opened()) as connection:
                yield connection
            return
        with self.catalog.writing(self.lock_timeout_s), self._used(self._opened()) as connection:
            yield connection

    @contextmanager
    def _used(self, engine: Engine) -> Iterator[Engine]:
        connection = engine.cursor()
        try:
            for name in ("memory_limit", "threads"):
                connection.execute(f"SET {name} = '{self._config[name]}'")
            self._connection = connection
            with committed(connection):
                connection.execute(f"USE {LAKE}")  # before the transaction it would be one of its own
                yield connection
        finally:
            self._connection = None
            with suppress(duckdb.Error):
                connection.close()

    def _opened(self) -> Engine:
        """Return the engine of this process; the first one makes or upgrades the tables, which one process does."""
        if self._process != os.getpid():  # a forked child has no threads of the engine
            self._engine, self._process = None, os.getpid()
            self.catalog.forget()
        if self._engine is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            remove_left_over(self.folder)
            with self.catalog.writing(self.lock_timeout_s):
                address = self._located()
                engine = _attached(address, self._config)
                try:
                    check_files(engine, address)
                    if schema_version(engine) != SCHEMA_VERSION:
                        migrate(engine)
                except BaseException:
                    engine.close()
                    raise
                self._engine = engine
        return self._engine

    def _located(self) -> LakeAddress:
        """Return the address with the place of the rows that the catalog has where the URL names none."""
        query = self.catalog.query
        if self.address.data_path is not None or not query(_HAS_TABLES)[0][0]:
            return self.address
        return replace(self.address, data_path=str(query(_DATA_PATH)[0][0]))

    def close(self) -> None:
        """End connections, which may be broken; the next transaction opens others."""
        self.catalog.close()
        self._reader.forget()
        engine, self._engine = self._engine, None
        if engine is not None:
            with suppress(duckdb.Error):
                engine.close()

    def _has_schema(self) -> bool:
        query = self.catalog.query
        return bool(query(_HAS_TABLES)[0][0]) and bool(query(_HAS_SCHEMA)[0][0])

    def compact(self, keep_days: int = 0) -> None:
        """Merge files, and remove what only older snapshots than these days have: deleted rows, time travel."""
        if not self.exists():
            return
        with self._turn:
            self._retried(lambda: self._maintained(f"now() - to_days({int(keep_days)})"))
        if self.shared_files is not None:
            named = self.frame(_NAMED_FILES)["sha256"].to_list()
            self.shared_files.remove_artifacts_but(named, max(_NEW_S, keep_days * 86_400.0))

    def _maintained(self, older_than: str) -> None:
        engine = self._opened()
        with self.catalog.writing(self.lock_timeout_s):
            for statement in _MAINTENANCE:
                engine.execute(statement.format(older_than=older_than))

    def publish(self) -> None:
        """Do nothing: readers see what is committed."""

    @contextmanager
    def published(self) -> Iterator[Connection]:
        if not self.exists():
            raise NoResults("no results in the warehouse: run a sweep first (eval-pipeline run)")
        connection = self._retried(self._reader_connection)
        with self._reader.used(connection):
            yield AttachedConnection(connection, f"USE {LAKE}")

    def _reader_connection(self) -> Engine:
        """Return a connection to the newest snapshot."""
        (snapshot,) = self.catalog.query(_SNAPSHOT)[0]
        return self._reader.connection((snapshot, self.memory_mb), lambda: self._new_reader(snapshot))

    def _new_reader(self, snapshot: int) -> Engine:
        """Return an engine that can only read this snapshot of the lake, no files and no other databases."""
        (path,) = self.catalog.query(_DATA_PATH)[0]
        self.folder.mkdir(parents=True, exist_ok=True)
        snapshot_only = {"read_only": True, "options": f"SNAPSHOT_VERSION {int(snapshot)}"}
        engine = _attached(replace(self.address, data_path=str(path)), self._config, **snapshot_only)
        engine.execute(f"SET allowed_directories = [{sql_text(str(path))}]")
        engine.execute("SET enable_external_access = false")  # a user's query must not read or write files
        return engine

    def published_version(self) -> str | None:
        return str(self._retried(lambda: self.catalog.query(_SNAPSHOT)[0][0])) if self.exists() else None


_MAINTENANCE = (
    f"CALL ducklake_flush_inlined_data('{LAKE}')",
    f"CALL ducklake_rewrite_data_files('{LAKE}', delete_threshold => 0)",
    f"CALL ducklake_merge_adjacent_files('{LAKE}')",
    f"CALL ducklake_expire_snapshots('{LAKE}', older_than => {{older_than}})",
    f"CALL ducklake_cleanup_old_files('{LAKE}', older_than => {{older_than}})",
)


def _attached(address: LakeAddress, config: Config, **how: Any) -> Engine:
    """Return an engine. Raises InputError for another `data_path` than the lake's, WarehouseError without a lake."""
    try:
        return lake_engine(address, config, **how)
    except duckdb.Error as error:
        if is_transient(error):
            raise
        if "DATA_PATH" in str(error):
            raise InputError(f"data_path of the warehouse: {first_line(error)}") from None
        raise WarehouseError(f"the ducklake warehouse cannot be opened: {first_line(error)}") from None
