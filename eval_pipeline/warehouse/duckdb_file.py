"""A warehouse in a DuckDB file: short locked transactions on the pipeline's own file, a published copy for readers.

DuckDB allows one writing process or several readers per file. Only the pipeline opens `warehouse.duckdb`, under an
inter-process lock: for one transaction, or for those of a sweep as long as no other process waits (`kept_open.py`).
Analysts read `results.duckdb`, a copy that replaces the previous one by a rename: an open connection keeps reading the
file that it opened.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
from filelock import FileLock

from eval_pipeline.errors import InputError, NoResults, WarehouseError
from eval_pipeline.parsing.private_files import private_files
from eval_pipeline.warehouse.attached import attached
from eval_pipeline.warehouse.columns import Table
from eval_pipeline.warehouse.engines import (
    FOR_FEW_ROWS,
    FOR_MANY_ROWS,
    IN_UTC,
    SMALL_BYTES,
    TEMPORARY,
    Config,
    connected,
    open_engine,
    sql_text,
)
from eval_pipeline.warehouse.kept_open import KeptFile
from eval_pipeline.warehouse.migrations import MIGRATIONS, Migration, migrate, schema_version
from eval_pipeline.warehouse.publishing import (
    STORAGE_VERSION,
    Copy,
    damaged,
    damaged_results,
    is_readable_by_all,
    log_of,
    merge_log,
)
from eval_pipeline.warehouse.schema import SCHEMA_VERSION
from eval_pipeline.warehouse.scraps import remove_scraps, scratch_path
from eval_pipeline.warehouse.storage import LocalStorage, Storage
from eval_pipeline.warehouse.store import DEFAULT_MEMORY_MB, Connection
from eval_pipeline.warehouse.table_writer import TableWriter, committed
from eval_pipeline.warehouse.waiting import held

if TYPE_CHECKING:
    from eval_pipeline.warehouse.leases import Leases
    from eval_pipeline.warehouse.shared_files import SharedFiles

_LOG = logging.getLogger(__name__)
_LOCK = "warehouse.lock"
LOCK_TIMEOUT_S = 600.0
LOCK_SILENT_S = 1.0
"""How long another process may write before a wait for it is reported: most waits are over by then."""
_UNUSABLE = frozenset("?\\")
"""DuckDB looks for its log before the first `?` of a path, and takes a backslash for a slash."""


class DuckDBWarehouse(TableWriter):
    """The warehouse in a folder: `warehouse.duckdb`, created on first use and migrated when it is older, and the
    published `results.duckdb`."""

    lock_timeout_s = LOCK_TIMEOUT_S
    leases: Leases | None = None
    shared_files: SharedFiles | None = None

    def __init__(
        self, folder: Path, migrations: Sequence[Migration] = MIGRATIONS, storage: Storage | None = None
    ) -> None:
        self.folder = folder
        self.path = folder / "warehouse.duckdb"
        self.results = folder / "results.duckdb"
        self.storage = storage or LocalStorage(folder)
        self.memory_mb = DEFAULT_MEMORY_MB
        self._migrations = migrations
        self._checked = False
        self._turn = threading.RLock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._file = KeptFile(self._turn, folder / _LOCK, self._open)
        self._held = 0

    @classmethod
    def open(cls, address: str, root: Path, storage: Storage) -> DuckDBWarehouse:
        """Return the warehouse in a folder. Raises InputError without one."""
        if not address:
            raise InputError("expected duckdb:FOLDER, got no folder")
        return cls(Path(os.path.normpath(root / Path(address).expanduser())), storage=storage)

    @property
    def _config(self) -> Config:
        return {
            "memory_limit": f"{self.memory_mb}MB",
            **(FOR_MANY_ROWS if self._is_large() else FOR_FEW_ROWS),
            "storage_compatibility_version": STORAGE_VERSION,
            "preserve_insertion_order": False,
        }

    def _is_large(self) -> bool:
        stored = 0
        for path in (self.path, log_of(self.path)):  # the log has what is not in the file yet
            with suppress(FileNotFoundError):
                stored += path.stat().st_size
        return stored > SMALL_BYTES

    def exists(self) -> bool:
        return self.path.exists() or self.results.exists()

    def is_missing(self) -> bool:
        return self.results.exists() and not self.path.exists()

    @private_files()
    def restore(self) -> None:
        copy = self.path.with_suffix(f".{os.getpid()}.tmp")
        with self._locked():
            shutil.copyfile(self.results, copy)
            copy.replace(self.path)

    def _locked(self) -> AbstractContextManager[None]:
        """Keep other processes out. A wait is reported with what holds the lock; a long one raises WarehouseError."""
        self._file.close()
        lock = FileLock(self.folder / _LOCK, thread_local=False)  # a file may be closed by another thread
        return held(lock, _report_wait, silent_s=LOCK_SILENT_S, timeout_s=self.lock_timeout_s)

    def kept_open(self) -> AbstractContextManager[None]:
        """Inside the block the file may stay open between transactions, as long as no other process waits for it."""
        return self._file.kept()

    @contextmanager
    def publishing_held(self) -> Iterator[None]:
        """Inside the block `publish` does nothing: who asks for it publishes afterwards."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def set_results_aside(self) -> None:
        self.results.replace(self.results.with_name(f"results-until-{datetime.now(UTC):%Y%m%dT%H%M%S}.duckdb"))

    @contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a connection inside one transaction, committed at the end, rolled back on an error.

        Transactions of one thread nest: an inner one is part of the outer one. An in-process lock serializes threads
        without polling; a file lock, held for the transaction only, serializes processes.
        """
        # Lock order: thread lock, then file lock. FileLock polls, so threads of one process never compete for it.
        with self._turn, private_files():
            if self._connection is not None:
                yield self._connection
                return
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._file.engine() as engine, connected(engine, self._config) as connection:
                self._connection = connection
                try:
                    self._check(connection)
                    with committed(connection):
                        yield connection
                except duckdb.Error as error:
                    if (damage := damaged(self.path, self.results, error)) is not None:
                        raise damage from error
                    raise
                finally:
                    self._connection = None

    def _is_inside(self) -> bool:
        with self._turn:
            return self._connection is not None

    def _is_empty(self, connection: duckdb.DuckDBPyConnection, table: Table) -> bool:
        return not connection.execute(f'SELECT 1 FROM "{table.name}" LIMIT 1').fetchall()

    def compact(self, keep_days: int = 0) -> None:
        """Copy all rows into a new file that replaces the old one: DuckDB leaves deleted rows in free blocks."""
        if not self.path.exists():
            return
        copy = self.path.with_suffix(f".{os.getpid()}.compact")
        with private_files(), self._turn, self._locked():
            merge_log(self.path, self._config)  # a log that is left would belong to the file that is replaced
            try:
                _copy_whole(self.path, copy, {**self._config, **FOR_MANY_ROWS})
                copy.replace(self.path)
            finally:
                copy.unlink(missing_ok=True)
                copy.with_name(f"{copy.name}.wal").unlink(missing_ok=True)

    def publish(self) -> None:
        if self._held or not self.path.exists():
            return
        if not is_readable_by_all(self.path):
            with self.transaction():  # migrates: compact() copies tables of the newest schema
                pass
            self.compact()
        made, replaced = (scratch_path(self.folder, "results", ".duckdb") for _ in range(2))
        copy = Copy(self.path, self.results, made, replaced, self._config)
        with private_files(), copy.removed_at_the_end():
            with self._turn, self._locked():
                copy.begin()
            if not copy.is_needed():  # others may write to the warehouse meanwhile: a large file takes long
                return
            with self._turn, self._locked():
                pass  # who wrote while it was looked at has finished
            copy.write()
            copy.read_ahead()
            with self._turn, self._locked():
                copy.publish()

    @contextmanager
    def published(self) -> Iterator[Connection]:
        if not self.results.is_file():
            raise NoResults(f"no results at {self.results}: run a sweep first (eval-pipeline run), or name --data")
        try:
            connection = attached(self.results)
        except duckdb.Error as error:
            damage = damaged_results(self.results, self.path, error)
            raise damage or WarehouseError(f"{self.results} cannot be read: {error}") from None
        try:
            connection.execute(IN_UTC)
            connection.execute("SET enable_external_access = false")  # a user's query must not read or write files
            _name_as_now(connection)
            yield connection
        except duckdb.Error as error:
            if (damage := damaged_results(self.results, self.path, error)) is not None:
                raise damage from None
            raise
        finally:
            connection.close()

    def published_version(self) -> str | None:
        try:
            status = self.results.stat()
        except FileNotFoundError:
            return None
        return f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"

    @contextmanager
    def _open(self) -> Iterator[duckdb.DuckDBPyConnection]:
        if self.is_missing():
            raise WarehouseError(
                f"{self.path} is missing, and {self.results} is there: cp {self.results} {self.path} goes on from what "
                f"was published; without {self.results} everything is executed again"
            )
        if _UNUSABLE & set(str(self.path)):
            raise WarehouseError(
                f"DuckDB cannot keep a database in a folder whose path has a `?` or a backslash: {self.path}; name "
                "another data folder (`data` in the project file, or --data)"
            )
        with self._locked(), ExitStack() as opened:
            try:
                engine = opened.enter_context(open_engine(self.path, self._config))
            except duckdb.Error as error:
                damage = damaged(self.path, self.results, error)
                raise damage or WarehouseError(f"{self.path} cannot be opened: {error}") from None
            yield engine

    def _check(self, connection: duckdb.DuckDBPyConnection) -> None:
        if self._checked:
            return
        if self._migrations is not MIGRATIONS or schema_version(connection) != SCHEMA_VERSION:
            migrate(connection, self._migrations)
        remove_scraps(self.folder)
        self._checked = True


def _report_wait(text: str) -> None:
    _LOG.warning("the warehouse is locked: %s", text)


def _copy_whole(source: Path, target: Path, config: Config) -> None:
    """Write all of a database into a new one: tables with their rows, views, macros and comments. To make the schema
    anew takes six times as long."""
    target.unlink(missing_ok=True)
    connection = duckdb.connect(config={**config, TEMPORARY: f"{target}.tmp"})
    try:
        connection.execute(f"ATTACH {sql_text(str(source))} AS source (READ_ONLY)")
        connection.execute(f"ATTACH {sql_text(str(target))} AS target")
        connection.execute("COPY FROM DATABASE source TO target")
        connection.execute("CHECKPOINT target")
    finally:
        connection.close()


def _name_as_now(connection: Connection) -> None:
    """Create temporary views with the current table names in results of an older version."""
    names = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    if ("sweep_cells",) in names:
        for old, new in (("sweep_cells", "sweep_pairs"), ("current_cells", "current_pairs")):
            connection.execute(f'CREATE TEMP VIEW "{new}" AS SELECT * RENAME (suite_cells AS suite_plans) FROM "{old}"')
