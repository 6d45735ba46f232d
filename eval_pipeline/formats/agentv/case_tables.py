"""`cases: {from: …, map: {…}}`: a test for each row of a table, which is a file of columns or a query.

`map` names for each field of a test (dotted names nest) a column, or a text with `{{ column }}` in it; without it,
columns have the names of fields, as in a CSV file of tests. Texts of the suite, such as those of its evaluators, may
contain `{{ row.column }}`. Entries of the table are data: placeholders of the environment are not replaced in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, did_you_mean
from eval_pipeline.formats.agentv.documents import RawTest
from eval_pipeline.formats.agentv.load_context import LoadContext
from eval_pipeline.formats.agentv.table import as_text, plain_value, put, test_of_record
from eval_pipeline.formats.agentv.variables import VARIABLE
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.fields import FieldCursor, Map, kind
from eval_pipeline.parsing.file_search import NotFound, is_pattern
from eval_pipeline.parsing.source import Source
from eval_pipeline.suites.fields import CASE, CASE_TABLE
from eval_pipeline.warehouse.case_tables import (
    TableQuery,
    TableRows,
    is_query,
    open_rows,
    query_of_files,
    query_of_text,
)

FIELD = "cases"
ROW = "row"
_COMMON = ("id", "input", "expected_output", "criteria", "tags", "metadata.…")
Record = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def is_table(document: Map) -> bool:
    """Return whether a suite takes its tests from a table."""
    return FIELD in document


def table_tests(document: Map, cursor: FieldCursor, context: LoadContext) -> Iterator[RawTest]:
    """Yield the test of each row. Raises InputError with the place for a table that cannot be read."""
    raw, at = document[FIELD], cursor.at(FIELD)
    if not isinstance(raw, Mapping):
        listed = "; a list of tests belongs under 'tests'" if isinstance(raw, list) else ""
        raise at.error(f"expected a mapping with 'from', got {kind(raw)}{listed}")
    for key in raw.keys() - CASE_TABLE.names:
        context.warn_of_unknown(str(key), CASE_TABLE.names, at, "field of cases")
    query, mapped = _query(raw, at, context), _mapped(raw, at)
    try:
        with open_rows(query) as rows:
            record = _reader(rows, mapped, at)
            tests = _tests(rows, record, query, at)
            first = next(tests, None)
            if first is None:
                context.diagnostics.add("the table has no rows: the suite has no tests", lambda: at.place("from"))
                return
            yield first
            yield from tests
    except InputError as error:
        raise (error if error.place.file else at.error(error.problem, "from")) from None


def _tests(rows: TableRows, record: Record, query: TableQuery, cursor: FieldCursor) -> Iterator[RawTest]:
    """Yield the tests; the place of a field has the number of its row, from 1."""
    line = cursor.line
    source = Source(cursor.source.path, cursor.source.shown, lambda path: line)
    for number, row in enumerate(rows, start=1):
        at = FieldCursor(source, (FIELD, f"row {number}"))
        yield RawTest(at.error(row.problem) if isinstance(row, InputError) else record(row), at)


def _query(raw: Map, cursor: FieldCursor, context: LoadContext) -> TableQuery:
    text = fields.words(raw, "from", cursor)
    if text is None:
        raise cursor.error(f"expected {CASE_TABLE['from'].kind.title}: a query, or a file of columns", "from")
    name = fields.words(raw, "database", cursor)
    database = _found(name, cursor, "database", context)[0] if name is not None else None
    try:
        if is_query(text):
            return query_of_text(text, lambda each: _found(each, cursor, "from", context), database)
        return query_of_files(_found(text.removeprefix("file://"), cursor, "from", context))
    except InputError as error:
        raise (error if error.place.file else cursor.error(error.problem, "from")) from None


def _found(name: str, cursor: FieldCursor, key: str, context: LoadContext) -> Sequence[Path]:
    """Return the files of a name or a pattern, which are parts of the suite."""
    try:
        files = context.roots.matches(name) if is_pattern(name) else [context.roots.file(name)]
    except NotFound as error:
        raise cursor.error(str(error), key) from None
    if not files:
        raise cursor.error(f"'{name}' matches no file", key)
    context.parts.update(dict.fromkeys(file.absolute() for file in files))
    return files


def _mapped(raw: Map, cursor: FieldCursor) -> Mapping[str, str]:
    """Return for each field its column or text. Raises InputError."""
    given = fields.mapping(raw, "map", cursor)
    at = cursor.at("map")
    for field, column in given.items():
        if not isinstance(column, str) or not column.strip():
            raise at.error(f"expected a column, or a text with {{{{ column }}}}, got {kind(column)}", field)
        if str(field).split(".")[0] not in CASE.names:
            known = ", ".join(_COMMON)
            raise at.error(f"no field of a test; such as {known}{did_you_mean(str(field), CASE.names)}", field)
    return given


def _reader(rows: TableRows, mapped: Mapping[str, str], cursor: FieldCursor) -> Record:
    """Return the function from a row to a test. Raises InputError for a column that does not exist."""
    for field, column in mapped.items():
        try:
            for name in _columns(column):
                rows.require(name)
        except InputError as error:
            raise cursor.error(error.problem, "map", field) from None
    if "id" not in (mapped or rows.columns):
        listed = ", ".join(rows.columns)
        raise InputError(f"no column 'id'; write map: {{id: COLUMN}} with one of: {listed}")
    return (lambda row: _mapped_test(row, mapped)) if mapped else _named_test


def _columns(text: str) -> list[str]:
    """Return the columns in an entry of `map`: those of its placeholders, else the entry itself."""
    return VARIABLE.findall(text) if "{{" in text else [text]


def _mapped_test(row: Mapping[str, Any], mapped: Mapping[str, str]) -> dict[str, Any]:
    test: dict[str, Any] = {"vars": {ROW: row}}
    for field, column in mapped.items():
        value = row.get(column) if "{{" not in column else _filled(column, row)
        if value is not None:
            put(test, field, plain_value(field, value))
    return test


def _filled(text: str, row: Mapping[str, Any]) -> str:
    return VARIABLE.sub(lambda match: as_text(row.get(match[1], "")), text)


def _named_test(row: Mapping[str, Any]) -> dict[str, Any]:
    test = test_of_record(row)
    return {**test, "vars": {**test.get("vars", {}), ROW: row}}
