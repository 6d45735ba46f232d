"""Tests in a CSV table: one per row; columns are named after the fields of a test.

`metadata.lang` (any dotted name) becomes an entry of a mapping. `tags`, `input_files` and `depends_on` hold several
values separated by `;`. Each entry of a column whose name begins with `assert` is one assertion: `contains: Paris`
(a type and its value; several values of `contains-any` and the like are separated by `;`), or a text, which is a
criterion. Any other column is a variable: a column `city` replaces `{{ city }}`. Empty entries are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eval_pipeline.fingerprints import to_json
from eval_pipeline.formats.agentv.documents import RawTest, csv_records
from eval_pipeline.formats.agentv.load_context import LoadContext
from eval_pipeline.parsing.fields import Interpolated
from eval_pipeline.parsing.source import jsonl_source
from eval_pipeline.plugins import canonical_name
from eval_pipeline.suites.fields import CASE

_LISTS = frozenset({"tags", "input_files", "depends_on"})
_ONE_VALUE = frozenset({"contains", "icontains", "starts-with", "ends-with", "equals", "regex"})
_VALUES = frozenset({"contains-any", "contains-all", "icontains-any", "icontains-all"})
_NO_VALUE = frozenset({"is-json"})


def csv_tests(path: Path, text: str, context: LoadContext) -> Iterator[RawTest]:
    """The tests of a CSV text. Raises InputError."""
    context.fill(None, text, jsonl_source(path))
    for record, cursor in csv_records(path, text):
        filled = {name: context.filled(cell) for name, cell in record.items() if cell.strip()}
        yield RawTest(test_of_record(filled), cursor)


def test_of_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the test of a row; entries that are no texts, of tables with types, are taken as they are."""
    test: dict[str, Any] = {}
    for column, cell in record.items():
        if column.lower().startswith("assert"):
            test.setdefault("assertions", []).append(_assertion(cell) if isinstance(cell, str) else cell)
        else:
            place = column if column.split(".")[0] in CASE.names else f"vars.{column}"
            put(test, place, plain_value(place, cell))
    return test


def plain_value(field: str, cell: Any) -> Any:
    """Return an entry as the value of a field: a list of texts, or a text that may be read as a number."""
    if isinstance(cell, str):
        return _several(cell) if field in _LISTS else Interpolated(cell)
    return cell if "." in field or isinstance(cell, (list, dict)) else Interpolated(as_text(cell))


def as_text(value: Any) -> str:
    """Return a value as a text: itself, or its JSON."""
    return value if isinstance(value, str) else to_json(value).decode()


def put(test: dict[str, Any], field: str, value: Any) -> None:
    """Set a field of a test; dotted names are entries of mappings."""
    *above, last = field.split(".")
    holder = test
    for name in above:
        inner = holder.setdefault(name, {})
        if not isinstance(inner, dict):
            inner = holder[name] = {}
        holder = inner
    holder[last] = value


def _several(cell: str) -> list[str]:
    return [item.strip() for item in cell.split(";") if item.strip()]


def _assertion(cell: str) -> Any:
    name, _, value = cell.partition(":")
    type_ = canonical_name(name)
    if type_ in _NO_VALUE and not value:
        return {"type": type_}
    if type_ in _ONE_VALUE and value.strip():
        return {"type": type_, "value": value.strip()}
    if type_ in _VALUES and value.strip():
        return {"type": type_, "value": _several(value)}
    return str(cell)
