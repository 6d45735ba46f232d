"""Rows into the tables of any warehouse that speaks DuckDB's SQL: journals, single rows, frames, and answers as frames.

A warehouse that inherits this brings the transactions. What is written here replaces rows by their key, so that running
it again changes nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import polars as pl
from polars import selectors

from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.private_files import private_files
from eval_pipeline.parsing.redaction import redact_line
from eval_pipeline.warehouse.columns import Row, Table
from eval_pipeline.warehouse.engines import FOR_MANY_ROWS, SMALL_BYTES, assignments, sql_text
from eval_pipeline.warehouse.long_lines import LONG_LINE_BYTES, cut_torn_line, longest_line
from eval_pipeline.warehouse.scraps import scratch_path
from eval_pipeline.warehouse.tables import BY_NAME

LINE_BYTES = 2**20
"""The shortest line limit of a reader; DuckDB allocates a multiple of it."""
Answer = TypeVar("Answer")


class TableWriter:
    """Writes rows and reads frames in the transactions of a warehouse; `folder` has its temporary files."""

    folder: Path
    memory_mb: int

    def transaction(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """Yield a connection inside one transaction."""
        raise NotImplementedError

    def run(self, work: Callable[[duckdb.DuckDBPyConnection], Answer]) -> Answer:
        """Return what `work` returns, called inside one transaction."""
        with self.transaction() as connection:
            return work(connection)

    def run_beside(self, work: Callable[[duckdb.DuckDBPyConnection], Answer]) -> Answer:
        """Return what `work` returns, which writes rows that no other process writes meanwhile."""
        return self.run(work)

    def read(self, work: Callable[[duckdb.DuckDBPyConnection], Answer]) -> Answer:
        """Return what `work` returns, which only reads."""
        return self.run(work)

    def _is_inside(self) -> bool:
        """Return whether this thread is inside a transaction, which an error has ended."""
        raise NotImplementedError

    def _is_empty(self, connection: duckdb.DuckDBPyConnection, table: Table) -> bool:
        """Return whether a table is known to have no rows, so that none are replaced; only where it costs little."""
        return False

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

    def _fold(self, journals: Mapping[str, Path], *, exact: bool, roomy: bool = False) -> None:
        """Store all journals in one transaction. Unless `exact`, a number outside its column's range becomes NULL;
        `roomy` raises the memory limit to what the journals may need."""

        def store(connection: duckdb.DuckDBPyConnection) -> None:
            beside_new = False
            if sum(path.stat().st_size for path in journals.values()) > SMALL_BYTES:
                connection.execute(assignments(FOR_MANY_ROWS))
            for name, path in sorted(journals.items(), key=lambda item: item[0] != _EXECUTIONS):
                longest = longest_line(path)
                if roomy or longest > LONG_LINE_BYTES:
                    _make_room(connection, self.memory_mb, path.stat().st_size, longest)
                source = _reader(BY_NAME[name], path, longest, exact=exact)
                if name == _EXECUTIONS:
                    beside_new = longest <= LONG_LINE_BYTES
                if self._is_empty(connection, BY_NAME[name]):
                    _insert(connection, BY_NAME[name], source)
                else:
                    read_twice = longest > LONG_LINE_BYTES
                    _replace(connection, BY_NAME[name], source, read_twice=read_twice, beside_new=beside_new)

        self.run(store)

    @private_files()
    def write(self, table: str, rows: Iterable[Row]) -> None:
        with self._spooled(table, rows) as path:
            self.ingest({table: path})

    @private_files()
    def replace(self, table: str, frame: pl.DataFrame, where: Mapping[str, Any]) -> None:
        """See the seam. The frame goes by a Parquet file, a tenth of the time of JSON lines."""
        columns = ", ".join(f'"{name}"' for name in BY_NAME[table].column_names if name in frame.columns)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = scratch_path(self.folder, "answer", ".parquet")

        def store(connection: duckdb.DuckDBPyConnection) -> None:
            connection.execute(f'DELETE FROM "{table}" WHERE {_equals(where)}', list(where.values()))
            if len(frame):
                rows = f"read_parquet({sql_text(_no_pattern(path))})"
                connection.execute(f'INSERT INTO "{table}" ({columns}) SELECT {columns} FROM {rows}')

        try:
            frame.with_columns(selectors.float().fill_nan(None)).write_parquet(path, compression="uncompressed")
            self.run(store)
        finally:
            path.unlink(missing_ok=True)

    def frame(self, query: str, values: Sequence[Any] = ()) -> pl.DataFrame:
        path = scratch_path(self.folder, "answer", ".parquet")
        try:
            self.read(lambda connection: _write_answer(connection, query, values, path))
            return pl.read_parquet(path, memory_map=False, glob=False).with_columns(_times_without_zone())
        finally:
            path.unlink(missing_ok=True)

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
def committed(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """A transaction, committed at the end, rolled back on an error."""
    connection.execute("BEGIN")
    try:
        yield
    except BaseException:
        with suppress(duckdb.Error):  # keep the first error
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _times_without_zone() -> pl.Expr:
    """Return the times of a frame, which are in UTC, without their zone."""
    return selectors.datetime(time_zone="*").dt.replace_time_zone(None)


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


def _replace(
    connection: duckdb.DuckDBPyConnection, table: Table, source: str, *, read_twice: bool, beside_new: bool
) -> None:
    """Replace stored rows by incoming rows of the same key. A trailing `position` of a key is ignored: the events of a
    session, and the members of a score, are replaced together. `read_twice` makes no copy of the rows on the way;
    with `beside_new`, rows of executions that are stored in the same transaction for the first time replace nothing."""
    names = table.key[:-1] if table.key[-1] == "position" else table.key
    key = " AND ".join(f'old."{name}" IS NOT DISTINCT FROM new."{name}"' for name in names)
    columns = ", ".join(f'"{name}"' for name in table.column_names)
    if read_twice:
        keys = ", ".join(f'"{name}"' for name in names)
        connection.execute(f'DELETE FROM "{table.name}" AS old USING (SELECT {keys} FROM {source}) AS new WHERE {key}')
        connection.execute(f'INSERT INTO "{table.name}" ({columns}) SELECT {columns} FROM {source}')
        return
    connection.execute(f"CREATE OR REPLACE TEMP TABLE incoming AS SELECT {columns} FROM {source}")
    if not (beside_new and _is_new(connection, table)):
        connection.execute(f'DELETE FROM "{table.name}" AS old USING incoming AS new WHERE {key}')
    connection.execute(f'INSERT INTO "{table.name}" ({columns}) SELECT {columns} FROM incoming')
    connection.execute("DROP TABLE incoming")


def _insert(connection: duckdb.DuckDBPyConnection, table: Table, source: str) -> None:
    """Store incoming rows in an empty table: they replace nothing."""
    columns = ", ".join(f'"{name}"' for name in table.column_names)
    connection.execute(f'INSERT INTO "{table.name}" ({columns}) SELECT {columns} FROM {source}')
    if table.name == _EXECUTIONS:
        connection.execute(f"CREATE OR REPLACE TEMP TABLE new_executions AS SELECT execution_id FROM {_EXECUTIONS}")


_EXECUTIONS = "target_executions"
_OTHERS = "EXISTS (FROM incoming ANTI JOIN new_executions USING (execution_id))"


def _is_new(connection: duckdb.DuckDBPyConnection, table: Table) -> bool:
    """Return whether all incoming rows are of executions that are stored in this transaction for the first time: what
    is derived from an execution is stored with it or later. Executions come first."""
    if "execution_id" not in table.column_names:
        return False
    if table.name == _EXECUTIONS:
        connection.execute(
            f"""CREATE OR REPLACE TEMP TABLE new_executions AS
                SELECT execution_id FROM incoming ANTI JOIN {_EXECUTIONS} USING (execution_id)"""
        )
    return connection.execute(f"SELECT {_OTHERS}").fetchone() == (False,)


def _equals(where: Mapping[str, Any]) -> str:
    """Return an SQL condition that compares columns with parameters."""
    return " AND ".join(f'"{name}" IS NOT DISTINCT FROM ?' for name in where) or "true"


def _write_answer(connection: duckdb.DuckDBPyConnection, query: str, values: Sequence[Any], path: Path) -> None:
    """Write the answer to a query as Parquet: this needs no pyarrow (40 MB of memory), and without pyarrow DuckDB 2.0
    prints leak warnings at exit after an in-memory transfer."""
    connection.execute(f"COPY ({query}) TO {sql_text(str(path))} (FORMAT parquet)", list(values))
