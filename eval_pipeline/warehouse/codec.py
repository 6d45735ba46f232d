"""Values of the other rooms ⇄ rows, derived from the declaration of a table, the only list of its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

import orjson

from eval_pipeline.reports.moments import parse_time
from eval_pipeline.warehouse.columns import Row, Table

Value = TypeVar("Value")


Encode = Callable[..., Row]
"""A function from one value for each source of a table, and its given columns by name, to a row."""


def encoder(table: Table, *sources: type, given: Iterable[str] = ()) -> Encode:
    """Return the function that turns values into rows of a table.

    A column takes the attribute of its name from the first of `sources` (classes) that has one. The columns of `given`
    are passed for each row instead. Raises TypeError for a column without a source, and for a given one that the table
    does not have.
    """
    values = {name: name for name in given}
    if unknown := values.keys() - set(table.column_names):
        raise TypeError(f"{table.name}: no column of {sorted(unknown)}")
    for name in table.column_names:
        if name not in values:
            values[name] = f"_{_source_of(table, name, sources)}.{name}"
    return _compiled(f"encode_{table.name}", [f"_{number}" for number in range(len(sources))], list(given), values)


def _source_of(table: Table, name: str, sources: Sequence[type]) -> int:
    for number, source in enumerate(sources):
        if hasattr(source, name) or name in getattr(source, "__dataclass_fields__", ()):
            return number
    raise TypeError(f"{table.name}: no source of '{name}'")


def _compiled(
    name: str,
    positional: Sequence[str],
    keywords: Sequence[str],
    values: Mapping[str, str],
    known: Mapping[str, Any] | None = None,
) -> Encode:
    """Return a function of these parameters that returns a dict of these expressions.

    Compiled, as named tuples are: it is called for every event of every session, and takes half the time of a loop
    over columns. Only names of columns get in, quoted. `known` are the functions that the expressions call.
    """
    if improper := [column for column in values if not column.isidentifier()]:
        raise TypeError(f"not names of columns: {improper}")
    parameters = ", ".join([*positional, *(["*", *keywords] if keywords else [])])
    row = ", ".join(f"{column!r}: {value}" for column, value in values.items())
    function: Encode = eval(f"lambda {parameters}: {{{row}}}", {"__builtins__": {}, **(known or {})})
    function.__qualname__ = name  # errors about arguments show it
    return function


def utc(value: datetime | str) -> datetime | None:
    """Return a stored time in UTC. Results of an older version have times without a zone, which are UTC, or as text."""
    if isinstance(value, str):
        return parse_time(value)
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


_CONVERTERS: Mapping[str, str] = {
    "JSON": "loads",
    "TIMESTAMPTZ": "utc",
    "VARCHAR[]": "tuple",
    "INTEGER[]": "tuple",
    "DOUBLE[]": "tuple",
}
"""How a value that the database returns becomes Python, by type of the column; other types need nothing."""
_CONVERSIONS: Mapping[str, Any] = {"loads": orjson.loads, "utc": utc, "tuple": tuple}


def decoder(names: Sequence[str], *tables: Table) -> Callable[[Sequence[Any]], Row]:
    """Return a function from a row of a query with these column names to a dict.

    Columns of `tables` (the first that has the name) are decoded by their declared type: JSON as Python values, times
    as UTC, lists as tuples. NULL is None. Declared columns of the first table that the query lacks are None.
    """
    types = {column.name: column.type for table in reversed(tables) for column in table.columns}
    absent = [name for table in tables[:1] for name in table.column_names if name not in names]
    return _decoder(tuple(absent), tuple((name, _CONVERTERS.get(types.get(name, ""))) for name in names))


@lru_cache
def _decoder(absent: tuple[str, ...], read: tuple[tuple[str, str | None], ...]) -> Callable[[Sequence[Any]], Row]:
    """Return the function from a row of these columns, each with the name of its conversion, to a dict."""
    values = dict.fromkeys(absent, "None")
    for place, (name, convert) in enumerate(read):
        value = f"row[{place}]"
        values[name] = value if convert is None else f"None if {value} is None else {convert}({value})"
    return _compiled("decode", ["row"], [], values, _CONVERSIONS)


def value_of(cls: Callable[..., Value], row: Mapping[str, Any], **others: Any) -> Value:
    """Return a value of a class whose fields have the names of columns; `others` are passed as they are.

    NULL becomes the field's default where it has one.
    """
    value: Value = _constructor(cls, tuple(row), tuple(others))(row, others)
    return value


@lru_cache
def _constructor(cls: Any, columns: tuple[str, ...], others: tuple[str, ...]) -> Callable[..., Any]:
    """Return the function from a row with these columns, and other values of these names, to a value of a class;
    compiled, as encoders are: most rows of a table have the same columns."""
    defaults = {name: default for name, default in _fields(cls) if name in columns and name not in others}
    given = [
        f"{name}=row[{name!r}]" + (f" if row[{name!r}] is not None else {name}()" if default is not None else "")
        for name, default in defaults.items()
    ]
    arguments = ", ".join([*given, "**others"])
    build: Callable[..., Any] = eval(
        f"lambda row, others: cls({arguments})", {"__builtins__": {}, **defaults, "cls": cls}
    )
    return build


def field_names(*classes: type) -> frozenset[str]:
    """Return the names of the fields of dataclasses and named tuples: the columns that `value_of` may read."""
    return frozenset(name for cls in classes for name, _ in _fields(cls))


@lru_cache
def _fields(cls: Any) -> tuple[tuple[str, Callable[[], Any] | None], ...]:
    """The fields of a dataclass or a named tuple, each with what returns its default; None without one."""
    if issubclass(cls, tuple):
        return tuple((name, _constant(cls._field_defaults.get(name, MISSING))) for name in cls._fields)
    return tuple(
        (field.name, _constant(field.default) if field.default_factory is MISSING else field.default_factory)
        for field in fields(cls)
        if field.init
    )


def _constant(value: Any) -> Callable[[], Any] | None:
    return None if value is MISSING else lambda: value
