"""Readers of one field of a mapping: its value in the expected type, or an InputError that shows the value.

Every reader takes the mapping, the key and the place of the mapping. Which fields a mapping has is in `tables.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation, did_you_mean
from eval_pipeline.parsing.source import FieldPath, Source
from eval_pipeline.parsing.yaml_text import plain_scalar

Map = Mapping[str, Any]
NOTHING: Map = {}


class Interpolated(str):
    """The text that replaced a placeholder, or a table's entry: it is read as a number where one is expected."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class FieldCursor:
    """A field's position in a suite's files."""

    source: Source
    path: FieldPath = ()

    def at(self, *steps: str | int) -> FieldCursor:
        return FieldCursor(self.source, (*self.path, *steps))

    def place(self, *steps: str | int) -> SourceLocation:
        return self.source.place((*self.path, *steps))

    def error(self, problem: str, *steps: str | int) -> InputError:
        return self.source.error((*self.path, *steps), problem)

    @property
    def line(self) -> int | None:
        return self.source.line_at(self.path)


DETACHED = FieldCursor(Source(Path(), "", lambda path: None))
"""The place of values whose file is not known here: errors name the field alone."""


def mapping(raw: Map, key: str, cursor: FieldCursor) -> Map:
    """A mapping; empty when the field is not there."""
    value = raw.get(key)
    if value is None:
        return NOTHING
    if not isinstance(value, Mapping):
        raise cursor.error(f"expected a mapping, got {kind(value)}", key)
    return value


def text(raw: Map, key: str, cursor: FieldCursor) -> str | None:
    """A text; None when the field is not there."""
    value = raw.get(key)
    if value is None or type(value) is str:
        return value
    if isinstance(value, str):
        return str(value)
    raise cursor.error(f"expected a text, got {kind(value)}", key)


def texts(raw: Map, key: str, cursor: FieldCursor) -> tuple[str, ...]:
    """A list of texts, or one text; empty when the field is not there."""
    value = raw.get(key)
    if value is None:
        return ()
    if isinstance(value, str):
        return (str(value),)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(map(str, value))
    raise cursor.error(f"expected a list of texts, got {kind(value)}", key)


def flag(raw: Map, key: str, cursor: FieldCursor) -> bool | None:
    """True or false; None when the field is not there."""
    value = _scalar(raw, key)
    if value is None or isinstance(value, bool):
        return value
    raise cursor.error(f"expected true or false, got {kind(value)}{_unquoted(value)}", key)


def share(raw: Map, key: str, cursor: FieldCursor) -> float | None:
    """A number from 0 to 1; None when the field is not there."""
    value = _scalar(raw, key)
    if value is None:
        return None
    if not is_number(value) or not 0 <= value <= 1:
        raise cursor.error(f"expected a number from 0 to 1, got {kind(value)}{_unquoted(value)}", key)
    return float(value)


def positive(raw: Map, key: str, cursor: FieldCursor) -> float | None:
    """A number above 0; None when the field is not there."""
    value = _scalar(raw, key)
    if value is None:
        return None
    if not is_number(value) or value <= 0:
        raise cursor.error(f"expected a number above 0, got {kind(value)}{_unquoted(value)}", key)
    return float(value)


def count(raw: Map, key: str, cursor: FieldCursor) -> int | None:
    """A whole number of at least 1; None when the field is not there."""
    value = _scalar(raw, key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= sys.maxsize:
        raise cursor.error(f"expected a whole number of at least 1, got {kind(value)}{_unquoted(value)}", key)
    return value


def whole(raw: Map, key: str, cursor: FieldCursor) -> int | None:
    """A whole number of at least 0; None when the field is not there."""
    value = _scalar(raw, key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= sys.maxsize:
        raise cursor.error(f"expected a whole number of at least 0, got {kind(value)}{_unquoted(value)}", key)
    return value


def number(raw: Map, key: str, cursor: FieldCursor) -> float | None:
    """A number; None when the field is not there."""
    value = _scalar(raw, key)
    if value is None:
        return None
    if is_number(value):
        return float(value)
    raise cursor.error(f"expected a number, got {kind(value)}", key)


def integer(raw: Map, key: str, cursor: FieldCursor) -> int | None:
    """A whole number, below 0 too; None when the field is not there."""
    value = _scalar(raw, key)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise cursor.error(f"expected a whole number, got {kind(value)}", key)


def words(raw: Map, key: str, cursor: FieldCursor) -> str | None:
    """A text that is not empty, without space around it; None when the field is not there."""
    value = raw.get(key)
    if value is None:
        return None
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise cursor.error(f"expected a text that is not empty, got {kind(value)}", key)


def weight(raw: Map, key: str, cursor: FieldCursor) -> float:
    """A number of at least 0; 1 when the field is not there."""
    value = _scalar(raw, key)
    if key not in raw:
        return 1.0
    if not is_number(value) or value < 0:
        raise cursor.error(f"expected a number of at least 0, got {kind(value)}{_unquoted(value)}", key)
    return float(value)


def choice(raw: Map, key: str, cursor: FieldCursor, choices: Iterable[str]) -> str | None:
    """One of some words; None when the field is not there."""
    value = raw.get(key)
    if value is None:
        return None
    there_are = list(choices)
    if value not in there_are:
        hint = did_you_mean(value, there_are) if isinstance(value, str) else ""
        raise cursor.error(f"expected one of {', '.join(there_are)}; got {kind(value)}{hint}", key)
    return str(value)


def with_snake_case_keys(raw: Map, known: Iterable[str]) -> Map:
    """Return the mapping with camelCase spellings of `known` keys replaced by those keys."""
    twins = {camel_case(key): key for key in known if "_" in key}
    if twins.keys().isdisjoint(raw):
        return raw
    return {twins.get(key, key): value for key, value in raw.items() if key not in twins or twins[key] not in raw}


def camel_case(key: str) -> str:
    """`max_tokens` as `maxTokens`."""
    first, *others = key.split("_")
    return first + "".join(word.title() for word in others)


def is_number(value: Any) -> bool:
    """Return whether a value is a number that a float can represent (not `true`, infinity or 10^400)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def kind(value: Any) -> str:
    """Return a wrong value for a message: its kind, and the value itself when short."""
    if value is None:
        return "nothing"
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    name = _KINDS.get(type(value), type(value).__name__)
    if isinstance(value, int) and abs(value) > 10**40:
        return name
    shown = repr(value)
    return f"{name} ({shown})" if len(shown) <= 40 else name


_KINDS = {str: "a text", Interpolated: "a text", bool: "a truth value", int: "a number", float: "a number"}


def _unquoted(value: Any) -> str:
    """Return the cure for a number or truth value in quotes, else an empty text."""
    plain = plain_scalar(value.strip()) if isinstance(value, str) else None
    return f"; write {value.strip()} without quotes" if isinstance(plain, (bool, int, float)) else ""


def _scalar(raw: Map, key: str) -> Any:
    """Return a field's value; the text of a replaced placeholder is parsed as a YAML scalar."""
    value = raw.get(key)
    return plain_scalar(str(value)) if type(value) is Interpolated else value
