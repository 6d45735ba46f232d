"""Rows are encoded and decoded by the declaration of their table."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from eval_pipeline.warehouse.codec import decoder, encoder, value_of
from eval_pipeline.warehouse.columns import Column, Table


def table(*columns: str) -> Table:
    """A table of columns written `name TYPE`."""
    return Table("t", "", (), tuple(Column(name, type_, "") for name, type_ in map(str.split, columns)))


@dataclass(frozen=True, kw_only=True)
class Point:
    x: int
    y: int = 7
    tags: tuple[str, ...] = ()
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return self.x + self.y


class Named(NamedTuple):
    name: str
    x: int = 0


def test_a_column_takes_the_attribute_of_the_first_source_that_has_it() -> None:
    encode = encoder(table("x INTEGER", "total INTEGER", "name VARCHAR", "at TIMESTAMPTZ"), Point, Named, given=["at"])

    assert encode(Point(x=1, y=2), Named("n", 9), at="now") == {"x": 1, "total": 3, "name": "n", "at": "now"}


def test_a_column_without_a_source_is_found_when_the_encoder_is_made() -> None:
    with pytest.raises(TypeError, match="t: no source of 'colour'"):
        encoder(table("x INTEGER", "colour VARCHAR"), Point)


def test_a_given_column_is_required_for_each_row() -> None:
    encode = encoder(table("x INTEGER", "at TIMESTAMPTZ"), Point, given=["at"])

    with pytest.raises(TypeError, match=r"encode_t\(\) missing .*'at'"):
        encode(Point(x=1))


def test_a_given_column_that_the_table_lacks_is_refused() -> None:
    with pytest.raises(TypeError, match=r"t: no column of \['at'\]"):
        encoder(table("x INTEGER"), Point, given=["at"])


@pytest.mark.parametrize(
    ("type_", "stored", "value"),
    [
        ("JSON", '{"a": [1]}', {"a": [1]}),
        ("JSON", "null", None),
        ("JSON", None, None),
        ("TIMESTAMPTZ", datetime(2026, 1, 2), datetime(2026, 1, 2, tzinfo=UTC)),
        ("TIMESTAMPTZ", "2026-01-02T01:00:00+01:00", datetime(2026, 1, 2, tzinfo=UTC)),
        ("TIMESTAMPTZ", None, None),
        ("VARCHAR[]", ["a"], ("a",)),
        ("VARCHAR", "{}", "{}"),
        ("DOUBLE", 0.5, 0.5),
    ],
)
def test_a_value_is_decoded_by_the_type_of_its_column(type_: str, stored: Any, value: Any) -> None:
    assert decoder(["c"], table(f"c {type_}"))([stored]) == {"c": value}


def test_a_declared_column_that_a_query_lacks_is_unknown_and_others_pass_through() -> None:
    decode = decoder(["a", "other"], table("a INTEGER", "b INTEGER"), table("c INTEGER"))

    assert decode((1, "x")) == {"a": 1, "b": None, "other": "x"}


def test_null_becomes_the_default_of_a_field_that_has_one() -> None:
    row = {"x": None, "y": None, "tags": ("a",), "notes": None, "colour": "red"}

    assert value_of(Point, row) == Point(x=None, y=7, tags=("a",), notes={})  # type: ignore[arg-type]
    assert value_of(Named, {"name": "n", "x": None}, x=3) == Named("n", 3)
