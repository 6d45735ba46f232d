"""Tables of fields: one declaration for readers, reference docs and JSON Schemas.

A `FieldTable` describes one kind of document or mapping (a suite, a case, a runner). Readers check names against it and
read values by the kinds of its fields; docs and schemas are generated from the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.parsing import fields as readers
from eval_pipeline.parsing.diagnostics import first_of_each
from eval_pipeline.parsing.fields import FieldCursor, Map

JsonMap = Mapping[str, Any]
Read = Callable[[Map, str, FieldCursor], Any]


def _as_written(raw: Map, key: str, cursor: FieldCursor) -> Any:
    return raw.get(key)


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a value: `title` names it ("a text"), `schema` is its JSON Schema, `read` returns it from a mapping.

    `read` raises InputError for a value of another kind. `table` has the fields of a mapping, or of each mapping in a
    list; None when they are not declared.
    """

    title: str
    schema: JsonMap
    read: Read = _as_written
    table: FieldTable | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a mapping: its name, its type, and one sentence about it.

    `default` is the meaning of its absence (None: nothing). `aliases` are older or foreign spellings, also accepted.
    """

    name: str
    kind: Kind
    doc: str
    default: Any = None
    aliases: tuple[str, ...] = ()
    required: bool = False

    def read(self, raw: Map, cursor: FieldCursor) -> Any:
        """The value of the field in a mapping. Raises InputError."""
        return self.kind.read(raw, self.name, cursor)

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the field's value."""
        default = {"default": self.default} if self.default is not None else {}
        return {**self.kind.schema, "description": self.doc, **default}


@dataclass(frozen=True)
class FieldTable(Mapping[str, Field]):
    """The fields of one kind of mapping, by name. `others` is true where further names are read as they are."""

    title: str
    fields: tuple[Field, ...]
    doc: str = ""
    others: bool = False

    def __getitem__(self, name: str) -> Field:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __hash__(self) -> int:
        return id(self)

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        return {field_.name: field_ for field_ in self.fields}

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name that is read: the fields' own and their aliases."""
        return frozenset(name for field_ in self.fields for name in (field_.name, *field_.aliases))

    def joined(self, other: FieldTable) -> FieldTable:
        """The fields of both tables, under the title of this one."""
        return FieldTable(self.title, (*self.fields, *other.fields), self.doc, self.others or other.others)

    def without(self, *names: str) -> FieldTable:
        """The table without some of its fields."""
        return FieldTable(self.title, tuple(each for each in self.fields if each.name not in names), self.doc)

    def read_values(self, raw: Map, cursor: FieldCursor) -> dict[str, Any]:
        """Return the values of all fields in a mapping. Raises InputError with every one that is wrong, or required and
        absent."""
        values: dict[str, Any] = {}
        errors: list[InputError] = []
        for each in self.fields:
            try:
                if each.required and raw.get(each.name) is None:
                    raise cursor.error(f"expected {each.kind.title}, got nothing", each.name)
                values[each.name] = each.read(raw, cursor)
            except InputError as error:
                errors.append(error)
        if errors:
            raise first_of_each(errors)
        return values

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the mapping; aliases are accepted and marked as deprecated."""
        properties = {each.name: each.schema() for each in self.fields}
        older = {
            alias: {**each.kind.schema, "description": f"Another spelling of `{each.name}`.", "deprecated": True}
            for each in self.fields
            for alias in each.aliases
        }
        required = [each.name for each in self.fields if each.required and not each.aliases]
        return {
            "type": "object",
            "title": self.title,
            **({"description": self.doc} if self.doc else {}),
            "properties": {**properties, **older},
            **({"required": required} if required else {}),
            "additionalProperties": self.others,
        }


# Kinds


TEXT = Kind("a text", {"type": "string"}, readers.text)
NAME = Kind("a text", {"type": ["string", "integer"]})
FLAG = Kind("true or false", {"type": "boolean"}, readers.flag)
COUNT = Kind("a whole number of at least 1", {"type": "integer", "minimum": 1}, readers.count)
WHOLE = Kind("a whole number of at least 0", {"type": "integer", "minimum": 0}, readers.whole)
WORDS = Kind("a text that is not empty", {"type": "string", "minLength": 1}, readers.words)
NUMBER = Kind("a number", {"type": "number"}, readers.number)
INTEGER = Kind("a whole number", {"type": "integer"}, readers.integer)
POSITIVE = Kind("a number above 0", {"type": "number", "exclusiveMinimum": 0}, readers.positive)
WEIGHT = Kind("a number of at least 0", {"type": "number", "minimum": 0}, readers.weight)
SHARE = Kind("a number from 0 to 1", {"type": "number", "minimum": 0, "maximum": 1}, readers.share)
TEXTS = Kind(
    "a text or a list of texts",
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    readers.texts,
)
TEXT_LIST = Kind("a list of texts", {"type": "array", "items": {"type": "string"}})
MAPPING = Kind("a mapping", {"type": "object"}, readers.mapping)
TEXT_MAPPING = Kind(
    "a mapping of texts",
    {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
    readers.mapping,
)
LIST = Kind("a list", {"type": "array"})
ANY = Kind("any value", {})


def one_of(*words: str) -> Kind:
    """One of some words."""

    def read(raw: Map, key: str, cursor: FieldCursor) -> str | None:
        return readers.choice(raw, key, cursor, words)

    return Kind(f"one of {', '.join(words)}", {"enum": list(words)}, read)


def mapping_of(table: FieldTable) -> Kind:
    """A mapping with the fields of a table."""
    return Kind("a mapping", table.json_schema(), readers.mapping, table)


def list_of(item: Kind | FieldTable) -> Kind:
    """A list whose items are of one kind, or mappings with the fields of a table."""
    if isinstance(item, FieldTable):
        return Kind("a list of mappings", {"type": "array", "items": item.json_schema()}, table=item)
    return Kind(f"a list ({item.title} each)", {"type": "array", "items": dict(item.schema)}, table=item.table)


def either(*kinds: Kind) -> Kind:
    """A value of one of several kinds; its reader is the document's own."""
    table = next((kind.table for kind in kinds if kind.table is not None), None)
    return Kind(
        " or ".join(kind.title for kind in kinds), {"anyOf": [dict(kind.schema) for kind in kinds]}, table=table
    )
