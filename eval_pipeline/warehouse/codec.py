"""Values of the other rooms ⇄ rows, derived from the declaration of a table: no list of columns is written twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

import orjson

from eval_pipeline.warehouse.columns import Row, Table

Value = TypeVar("Value")


class Encoder:
    """Turns values into rows of a table.

    A column takes the attribute of its name from the first of `sources` (classes) that has one. The columns of `given`
    are passed for each row instead. Raises TypeError for a column without a source, when the encoder is made.
    """

    def __init__(self, table: Table, *sources: type, given: Iterable[str] = ()) -> None:
        self._given = frozenset(given)
        open_ = [name for name in table.column_names if name not in self._given]
        self._parts: list[tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]] = []
        for source in sources:
            names = tuple(name for name in open_ if _has(source, name))
            open_ = [name for name in open_ if name not in names]
            self._parts.append((names, _getter(names)))
        if open_ or not self._given <= set(table.column_names):
            raise TypeError(f"{table.name}: no source of {open_}, or no column of {sorted(self._given)}")

    def __call__(self, *values: object, **given: Any) -> Row:
        """Return the row of these values, one for each of `sources`."""
        if len(given) != len(self._given) or len(values) != len(self._parts):
            raise TypeError(f"expected {len(self._parts)} values and {sorted(self._given)}, got {sorted(given)}")
        for (names, get), value in zip(self._parts, values):  # noqa: B905 — once per row of every case: checked above
            given.update(zip(names, get(value)))  # noqa: B905
        return given


def _has(source: type, name: str) -> bool:
    return hasattr(source, name) or name in getattr(source, "__dataclass_fields__", ())


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC)


_DECODERS: Mapping[str, Callable[[Any], Any]] = {"JSON": orjson.loads, "TIMESTAMP": _utc, "VARCHAR[]": tuple}
"""How a value that the database returns becomes Python, by type of the column; other types need nothing."""


def decoder(names: Sequence[str], *tables: Table) -> Callable[[Sequence[Any]], Row]:
    """Return a function from a row of a query with these column names to a dict.

    Columns of `tables` (the first that has the name) are decoded by their declared type: JSON as Python values, times
    as UTC, lists as tuples. NULL is None. Declared columns of the first table that the query lacks are None.
    """
    types = {column.name: column.type for table in reversed(tables) for column in table.columns}
    converted = [(name, _DECODERS[types[name]]) for name in names if types.get(name) in _DECODERS]
    absent = {name: None for table in tables[:1] for name in table.column_names if name not in names}

    def decode(values: Sequence[Any]) -> Row:
        row = dict(zip(names, values, strict=True))
        for name, convert in converted:
            if row[name] is not None:
                row[name] = convert(row[name])
        return {**absent, **row} if absent else row

    return decode


def value_of(cls: Callable[..., Value], row: Mapping[str, Any], **others: Any) -> Value:
    """Return a value of a class whose fields have the names of columns; `others` are passed as they are.

    NULL becomes the field's default where it has one.
    """
    for name, has_default in _fields(cls):
        if name not in others and name in row and (row[name] is not None or not has_default):
            others[name] = row[name]
    return cls(**others)


@lru_cache
def _fields(cls: Any) -> tuple[tuple[str, bool], ...]:
    """The fields of a dataclass or a named tuple, each with whether it has a default."""
    if issubclass(cls, tuple):
        return tuple((name, name in cls._field_defaults) for name in cls._fields)
    return tuple(
        (field.name, field.default is not MISSING or field.default_factory is not MISSING)
        for field in fields(cls)
        if field.init
    )
