"""Rows of tables that suites take their cases from: files of columns, or a query over them, read in a stream.

A query is that of a suite's author, who may not be trusted: it is one `SELECT` in a database in memory that reads the
files which it names after `FROM`, `JOIN` or in `read_csv(…)`, and nothing else of this machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from eval_pipeline.errors import InputError, did_you_mean
from eval_pipeline.parsing.json_text import parse_row
from eval_pipeline.warehouse.engines import WITHOUT_PROGRESS

Find = Callable[[str], Sequence[Path]]
TABLE_SUFFIXES = (".parquet", ".csv", ".tsv")
_READERS = {
    ".parquet": "read_parquet({})",
    ".csv": "read_csv({}, header = true, all_varchar = true)",
    ".tsv": "read_csv({}, header = true, all_varchar = true, delim = '\t')",
}
_IN_QUERIES = {**dict.fromkeys((".csv", ".tsv"), "read_csv({})"), ".parquet": "read_parquet({})"}
_IN_QUERIES |= dict.fromkeys((".json", ".jsonl", ".ndjson"), "read_json({})")
_SUFFIXES = "|".join(suffix[1:] for suffix in _IN_QUERIES)
_NAMED = re.compile(
    rf"""(?P<before>\b(?:from|join)\s+|\bread_\w+\s*\(\s*)(?P<quote>['"])(?P<name>[^'"]+\.(?:{_SUFFIXES}))(?P=quote)""",
    re.IGNORECASE,
)
_QUERY = re.compile(r"\s*(?:select|with|from|values|\()[\s(\"'*]", re.IGNORECASE)
_PRIVATE = {"autoinstall_known_extensions": False, "autoload_known_extensions": False, "threads": 1}
_BATCH = 1_000
_MAY_READ = ": a query reads files of the project whose names are in quotes after FROM, JOIN or in read_csv(…)"


@dataclass(frozen=True, slots=True)
class TableQuery:
    """One `SELECT`, the files that it may read, and the database file that its tables are in (None: in none)."""

    sql: str
    files: tuple[Path, ...]
    database: Path | None = None


def is_query(text: str) -> bool:
    """Return whether a text is a query, not the name of a file."""
    return _QUERY.match(text) is not None


def columns_of_json(file: str, columns: Mapping[str, str]) -> str:
    """Return the query of the rows of a file of JSON lines, whose columns have these types and no guessed ones."""
    types = ", ".join(f"{name}: {type_}" for name, type_ in columns.items())
    return f"SELECT * FROM read_json({_quoted(file)}, columns = {{{types}}})"


def query_of_files(files: Sequence[Path]) -> TableQuery:
    """Return the query of all rows of files of one kind; entries of CSV files are texts. Raises InputError."""
    suffixes = {file.suffix.lower() for file in files}
    reader = _READERS.get(next(iter(suffixes))) if len(suffixes) == 1 else None
    if reader is None:
        names = ", ".join(sorted(suffixes))
        raise InputError(f"no table in '{names}' files: expected a query, or files of {', '.join(TABLE_SUFFIXES)}")
    return TableQuery(f"SELECT * FROM {reader.format(_list(files))}", tuple(files))


def query_of_text(text: str, find: Find, database: Path | None = None) -> TableQuery:
    """Return a query whose file names are replaced by the files that `find` returns. Raises InputError."""
    files: list[Path] = []

    def placed(match: re.Match[str]) -> str:
        found = find(match["name"])
        files.extend(found)
        if match["before"].rstrip().endswith("("):
            return match["before"] + _list(found)
        return match["before"] + _IN_QUERIES[Path(match["name"]).suffix.lower()].format(_list(found))

    sql = _NAMED.sub(placed, text.strip().rstrip(";"))
    return TableQuery(_one_select(sql), tuple(files), database)


def _one_select(sql: str) -> str:
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise _wrong(error) from None
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise InputError("expected one SELECT")
    return sql


class TableRows:
    """The rows of a query: `columns` are their names."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, sql: str) -> None:
        try:
            self.columns = [str(row[0]) for row in connection.execute(f"DESCRIBE {sql}").fetchall()]
            self._rows = connection.execute(f'SELECT to_json("its row") FROM ({sql}\n) AS "its row"')
        except duckdb.Error as error:
            raise _wrong(error) from None
        twice = next((name for index, name in enumerate(self.columns) if name in self.columns[:index]), None)
        if twice is not None:
            raise InputError(f"two columns are called '{twice}'; name one of them otherwise: … AS name")

    def require(self, column: str) -> None:
        """Raise InputError with the nearest name for a column that does not exist."""
        if column not in self.columns:
            listed = ", ".join(self.columns)
            raise InputError(f"no column '{column}'; there are: {listed}{did_you_mean(column, self.columns)}")

    def __iter__(self) -> Iterator[dict[str, object] | InputError]:
        """Yield each row by column, without its NULLs; one that is no JSON is an InputError.

        Raises InputError for a row that cannot be computed.
        """
        try:
            while rows := self._rows.fetchmany(_BATCH):
                for (text,) in rows:
                    yield _row(text)
        except duckdb.Error as error:
            raise _wrong(error) from None


def _row(text: str) -> dict[str, object] | InputError:
    try:
        return {name: value for name, value in parse_row(text).items() if value is not None}
    except ValueError as error:
        return InputError(f"cannot be written as JSON: {error}")


@contextmanager
def open_rows(query: TableQuery) -> Iterator[TableRows]:
    """Yield the rows of a query. Raises InputError for one that cannot be answered."""
    with duckdb.connect(config=dict(_PRIVATE)) as connection:
        connection.execute(WITHOUT_PROGRESS)
        if query.database is not None:
            _attach(connection, query.database)
        connection.execute(f"SET allowed_paths = {_list(query.files)}")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield TableRows(connection, query.sql)


def _attach(connection: duckdb.DuckDBPyConnection, database: Path) -> None:
    try:
        connection.execute(f"ATTACH {_quoted(str(database))} AS tables (READ_ONLY)")
        connection.execute("USE tables")
    except duckdb.Error as error:
        raise _wrong(error) from None


def _wrong(error: duckdb.Error) -> InputError:
    """Return an error with what DuckDB reports, in one line."""
    paragraph = str(error).split("\n\n", 1)[0]
    if isinstance(error, duckdb.PermissionException):
        paragraph = paragraph.replace(" - file system operations are disabled by configuration", _MAY_READ)
    return InputError(f"SQL: {'; '.join(line.strip() for line in paragraph.splitlines() if line.strip())}")


def _list(files: Sequence[Path]) -> str:
    return f"[{', '.join(_quoted(str(file)) for file in files)}]"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
