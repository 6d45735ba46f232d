"""A warehouse in a DuckDB file: short locked transactions on the pipeline's own file, a published copy for readers.

DuckDB allows one writing process or several readers per file. Only the pipeline opens `warehouse.duckdb`, for one
transaction at a time and under an inter-process lock. Analysts read `results.duckdb`, a copy that replaces the previous
one by a rename: an open connection keeps reading the file that it opened.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
from filelock import FileLock
from polars import selectors

from eval_pipeline.errors import InputError, NoResults, WarehouseError
from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.private_files import private_files
from eval_pipeline.parsing.redaction import redact_line
from eval_pipeline.warehouse.attached import attached
from eval_pipeline.warehouse.columns import Row, Table
from eval_pipeline.warehouse.engines import opened_file, sql_text
from eval_pipeline.warehouse.long_lines import LONG_LINE_BYTES, cut_torn_line, longest_line
from eval_pipeline.warehouse.migrations import IN_UTC, MIGRATIONS, Migration, migrate, schema_version
from eval_pipeline.warehouse.publishing import (
    STORAGE_VERSION,
    Config,
    Copy,
    damaged,
    damaged_results,
    is_readable_by_all,
    merge_log,
)
from eval_pipeline.warehouse.schema import SCHEMA_VERSION
from eval_pipeline.warehouse.scraps import remove_scraps, scratch_path
from eval_pipeline.warehouse.storage import LocalStorage, Storage
from eval_pipeline.warehouse.store import DEFAULT_MEMORY_MB, Connection
from eval_pipeline.warehouse.tables import BY_NAME
from eval_pipeline.warehouse.waiting import held

_LOG = logging.getLogger(__name__)
THREADS = 2
LOCK_TIMEOUT_S = 600.0
LOCK_SILENT_S = 1.0
"""How long another process may write before a wait for it is reported: most waits are over by then."""
_UNUSABLE = frozenset("?\\")
"""DuckDB looks for its log before the first `?` of a path, and takes a backslash for a slash."""
LINE_BYTES = 2**20
"""The shortest line limit of a reader; DuckDB allocates a multiple of it."""


class DuckDBWarehouse:
    """The warehouse in a folder: `warehouse.duckdb`, created on first use and migrated when it is older, and the
    published `results.duckdb`."""

    lock_timeout_s = LOCK_TIMEOUT_S

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
            "threads": THREADS,
            "storage_compatibility_version": STORAGE_VERSION,
            "preserve_insertion_order": False,
        }

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
        lock = FileLock(self.folder / "warehouse.lock")
        return held(lock, _report_wait, silent_s=LOCK_SILENT_S, timeout_s=self.lock_timeout_s)

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
            with self._locked(), self._open() as connection:
                self._connection = connection
                try:
                    self._check(connection)
                    with _committed(connection):
                        yield connection
                except duckdb.Error as error:
                    if (damage := damaged(self.path, self.results, error)) is not None:
                        raise damage from error
                    raise
                finally:
                    self._connection = None

    @private_files()
    def ingest(self, *journals: Mapping[str, Path]) -> None:
        """Store journals (JSON lines, by table) in one transaction; rows replace stored rows of the same key.

        Storing a journal again has no effect. An incomplete last line of a killed process is dropped. Journals of one
        call must not share keys.
        """
        there: dict[str, list[Path]] = {}
        for name, path in (item for journal in journals for item in journal.items()):
            if path.exists() and path.stat().st_size:
                there.setdefault(name, []).append(path)
        if not there:
            return
        for path in (path for paths in there.values() for path in paths):
            cut_torn_line(path)
        with ExitStack() as joined:
            files = {name: joined.enter_context(self._joined(name, paths)) for name, paths in there.items()}
            try:
                self._fold(files, exact=True)
            except (duckdb.ConversionException, duckdb.InvalidInputException):
                self._fold(files, exact=False)
            except duckdb.OutOfMemoryException:
                if self._is_inside():
                    raise
                self._fold(files, exact=True, roomy=True)  # many long rows; the failed transaction was rolled back

    def _is_inside(self) -> bool:
        """Return whether this thread is inside a transaction, which an error has ended."""
        with self._turn:
            return self._connection is not None

    def _fold(self, journals: Mapping[str, Path], *, exact: bool, roomy: bool = False) -> None:
        """Store all journals in one transaction. Unless `exact`, a number outside its column's range becomes NULL;
        `roomy` raises the memory limit to what the journals may need."""
        with self.transaction() as connection:
            for name, path in journals.items():
                longest = longest_line(path)
                if roomy or longest > LONG_LINE_BYTES:
                    _make_room(connection, self.memory_mb, path.stat().st_size, longest)
                source = _reader(BY_NAME[name], path, longest, exact=exact)
                _replace(connection, BY_NAME[name], source, read_twice=longest > LONG_LINE_BYTES)

    @private_files()
    def write(self, table: str, rows: Iterable[Row]) -> None:
        with self._spooled(table, rows) as path:
            self.ingest({table: path})

    @private_files()
    def replace(self, table: str, frame: pl.DataFrame, where: Mapping[str, Any]) -> None:
        columns = ", ".join(f'"{name}"' for name in BY_NAME[table].column_names)
        with self._spooled(table, frame.iter_rows(named=True)) as path, self.transaction() as connection:
            connection.execute(f'DELETE FROM "{table}" WHERE {_equals(where)}', list(where.values()))
            if len(frame):
                source = _reader(BY_NAME[table], path, longest_line(path), exact=True)
                connection.execute(f'INSERT INTO "{table}" ({columns}) SELECT {columns} FROM {source}')

    def frame(self, query: str, values: Sequence[Any] = ()) -> pl.DataFrame:
        path = scratch_path(self.folder, "answer", ".parquet")
        try:
            with self.transaction() as connection:
                _write_answer(connection, query, values, path)
            return pl.read_parquet(path, memory_map=False, glob=False).with_columns(_times_without_zone())
        finally:
            path.unlink(missing_ok=True)

    def compact(self) -> None:
        """Copy all rows into a new file that replaces the old one: DuckDB leaves deleted rows in free blocks."""
        if not self.path.exists():
            return
        copy = self.path.with_suffix(f".{os.getpid()}.compact")
        with private_files(), self._turn, self._locked():
            merge_log(self.path, self._config)  # a log that is left would belong to the file that is replaced
            try:
                _copy_rows(self.path, copy, self._migrations, self._config)
                copy.replace(self.path)
            finally:
                copy.unlink(missing_ok=True)
                copy.with_name(f"{copy.name}.wal").unlink(missing_ok=True)

    def publish(self) -> None:
        if not self.path.exists():
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
    def _joined(self, table: str, paths: Sequence[Path]) -> Iterator[Path]:
        """Yield one file with the lines of several: DuckDB allocates buffers for each file that it reads."""
        if len(paths) == 1:
            yield paths[0]
            return
        path = self._spool_path(table)
        try:
            with path.open("wb") as file:
                for part in paths:
                    with part.open("rb") as lines:
                        shutil.copyfileobj(lines, file)
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _spool_path(self, table: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return scratch_path(self.folder, table, ".jsonl")

    @contextmanager
    def _spooled(self, table: str, rows: Iterable[Row]) -> Iterator[Path]:
        """Yield a temporary file with the rows as JSON lines."""
        path = self._spool_path(table)
        try:
            with path.open("wb") as file:
                file.writelines(redact_line(to_json(row)) + b"\n" for row in rows)
            yield path
        finally:
            path.unlink(missing_ok=True)

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
        with ExitStack() as opened:
            try:
                connection = opened.enter_context(opened_file(self.path, self._config))
            except duckdb.Error as error:
                damage = damaged(self.path, self.results, error)
                raise damage or WarehouseError(f"{self.path} cannot be opened: {error}") from None
            connection.execute(IN_UTC)
            yield connection

    def _check(self, connection: duckdb.DuckDBPyConnection) -> None:
        if self._checked:
            return
        if self._migrations is not MIGRATIONS or schema_version(connection) != SCHEMA_VERSION:
            migrate(connection, self._migrations)
        remove_scraps(self.folder)
        self._checked = True


def _report_wait(text: str) -> None:
    _LOG.warning("the warehouse is locked: %s", text)


def _times_without_zone() -> pl.Expr:
    """Return the times of a frame, which are in UTC, without their zone."""
    return selectors.datetime(time_zone="*").dt.replace_time_zone(None)


def _copy_rows(source: Path, target: Path, migrations: Sequence[Migration], config: Config) -> None:
    """Write all rows of a database into a new one of the same schema."""
    target.unlink(missing_ok=True)
    connection = duckdb.connect(str(target), config={**config})
    try:
        connection.execute(IN_UTC)
        migrate(connection, migrations)
        connection.execute(f"ATTACH {sql_text(str(source))} AS source (READ_ONLY)")
        for table in BY_NAME.values():
            columns = ", ".join(f'"{name}"' for name in table.column_names)
            connection.execute(f'DELETE FROM "{table.name}"')
            connection.execute(f'INSERT INTO "{table.name}" ({columns}) SELECT {columns} FROM source."{table.name}"')
        connection.execute("CHECKPOINT")
    finally:
        connection.close()


@contextmanager
def _committed(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """A transaction, committed at the end, rolled back on an error."""
    connection.execute("BEGIN")
    try:
        yield
    except BaseException:
        with suppress(duckdb.Error):  # keep the first error
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _make_room(connection: duckdb.DuckDBPyConnection, usual_mb: int, bytes_: int, longest: int) -> None:
    """Raise the memory limit for long lines: DuckDB holds two copies of a line, and a batch of lines."""
    megabytes = usual_mb + 4 * bytes_ // 2**20 + 8 * longest // 2**20
    connection.execute(f"SET memory_limit = '{megabytes}MB'")
    connection.execute("SET threads = 1")


def _reader(table: Table, path: Path, longest: int, *, exact: bool) -> str:
    """Return a subquery of the rows in a file of JSON lines."""
    types = {column.name: column.type if exact or column.type not in WHOLE else "DOUBLE" for column in table.columns}
    columns = ", ".join(f"'{name}': '{type_}'" for name, type_ in types.items())
    chosen = ", ".join(
        f'"{column.name}"'
        if types[column.name] == column.type
        else f'TRY_CAST("{column.name}" AS {column.type}) AS "{column.name}"'
        for column in table.columns
    )
    options = f"format='newline_delimited', maximum_object_size={max(LINE_BYTES, longest + 1)}"
    return f"(SELECT {chosen} FROM read_json({sql_text(_no_pattern(path))}, columns={{{columns}}}, {options}))"


WHOLE = ("INTEGER", "BIGINT")


def _no_pattern(path: Path) -> str:
    """Return the path with glob characters escaped for DuckDB."""
    return "".join(f"[{char}]" if char in "[*?" else char for char in str(path))


def _replace(connection: duckdb.DuckDBPyConnection, table: Table, source: str, *, read_twice: bool = False) -> None:
    """Replace stored rows by incoming rows of the same key. A trailing `position` of a key is ignored: the events of a
    session, and the members of a score, are replaced together. `read_twice` makes no copy of the rows on the way."""
    names = table.key[:-1] if table.key[-1] == "position" else table.key
    key = " AND ".join(f'old."{name}" IS NOT DISTINCT FROM new."{name}"' for name in names)
    columns = ", ".join(f'"{name}"' for name in table.column_names)
    if read_twice:
        keys = ", ".join(f'"{name}"' for name in names)
        connection.execute(f'DELETE FROM "{table.name}" AS old USING (SELECT {keys} FROM {source}) AS new WHERE {key}')
        connection.execute(f'INSERT INTO "{table.name}" ({columns}) SELECT {columns} FROM {source}')
        return
    connection.execute(f"CREATE OR REPLACE TEMP TABLE incoming AS SELECT {columns} FROM {source}")
    connection.execute(f'DELETE FROM "{table.name}" AS old USING incoming AS new WHERE {key}')
    connection.execute(f'INSERT INTO "{table.name}" ({columns}) SELECT {columns} FROM incoming')
    connection.execute("DROP TABLE incoming")


def _equals(where: Mapping[str, Any]) -> str:
    """Return an SQL condition that compares columns with parameters."""
    return " AND ".join(f'"{name}" IS NOT DISTINCT FROM ?' for name in where) or "true"


def _name_as_now(connection: Connection) -> None:
    """Create temporary views with the current table names in results of an older version."""
    names = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    if ("sweep_cells",) in names:
        for old, new in (("sweep_cells", "sweep_pairs"), ("current_cells", "current_pairs")):
            connection.execute(f'CREATE TEMP VIEW "{new}" AS SELECT * RENAME (suite_cells AS suite_plans) FROM "{old}"')


def _write_answer(connection: duckdb.DuckDBPyConnection, query: str, values: Sequence[Any], path: Path) -> None:
    """Write the answer to a query as Parquet: this needs no pyarrow (40 MB of memory), and without pyarrow DuckDB 2.0
    prints leak warnings at exit after an in-memory transfer."""
    connection.execute(f"CREATE OR REPLACE TEMP TABLE answer AS {query}", list(values))
    connection.execute(f"COPY answer TO {sql_text(str(path))} (FORMAT parquet)")
    connection.execute("DROP TABLE answer")
