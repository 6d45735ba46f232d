"""JSON text → plain values, as strictly as YAML is read here, and the lines of its fields.

Duplicate keys are errors, and so is anything outside of JSON's grammar (`NaN`, lone surrogates).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from json import JSONDecoder
from typing import Any

import orjson

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.parsing.yaml_text import MAX_DEPTH, Lines

_SPACE = re.compile(r"[ \t\n\r]*")
_SURROGATE_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_MAX_DIGITS = 1_000


class RepeatedKey(ValueError):
    """A key that an object has twice."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"key '{key}' appears twice in one object")


def read_json(text: str, file: str | None = None) -> tuple[Any, Lines]:
    """The value of a JSON text, and the lines of its fields. Raises InputError with the line."""
    try:
        plain = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InputError(
            f"not valid JSON: {error.msg} (column {error.colno})", SourceLocation(file, error.lineno)
        ) from None
    if text.count("[") + text.count("{") > MAX_DEPTH and deeper_than(MAX_DEPTH, plain):
        raise InputError(f"nested deeper than {MAX_DEPTH} levels", SourceLocation(file))  # the decoder below recurses
    lines = Lines(_as_yaml(text), dict(_item_lines(text)))
    try:
        value = _UNIQUE.decode(text)
    except RepeatedKey as error:
        raise InputError(str(error), SourceLocation(file, _line_of_second(text, error.key))) from None
    return value, lines


def read_foreign_json(content: str | bytes) -> Any:
    """Return the value of a JSON text of another program; `NaN` and `Infinity`, which Python writes, are None.

    Raises orjson.JSONDecodeError.
    """
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as strict:
        try:
            return json.loads(content, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            raise strict from None


def parse_row(line: str) -> Any:
    """The value of one line of JSON. Raises ValueError with the problem."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error.msg} (column {error.colno})") from None
    if line.count("[") + line.count("{") > MAX_DEPTH and deeper_than(MAX_DEPTH, row):
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    if line.count(":") > _keys(row):  # a key that appears twice leaves a colon over; so does a text with a colon
        _UNIQUE.decode(line)
    return row


def _keys(value: Any) -> int:
    """Return the number of keys in a value, inner mappings included."""
    keys, items = 0, [value]
    for item in items:  # grows while it is read: a recursion takes twice as long
        if isinstance(item, dict):
            keys += len(item)
            items += item.values()
        elif isinstance(item, list):
            items += item
    return keys


def deeper_than(levels: int, value: Any) -> bool:
    """Return whether lists and mappings nest deeper than a number of levels."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels < 0 or any(deeper_than(levels - 1, item) for item in inner)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) < len(pairs):
        ((repeated, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise RepeatedKey(repeated)
    return built


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MAX_DIGITS else float(digits)


_UNIQUE = JSONDecoder(object_pairs_hook=_unique, parse_int=_number)


def _line_of_second(text: str, key: str) -> int | None:
    """The line of a key's second appearance, when it appears only twice in the whole text."""
    places = [match.start() for match in re.finditer(re.escape(json.dumps(key)) + r"\s*:", text)]
    return text.count("\n", 0, places[1]) + 1 if len(places) == 2 else None


def _item_lines(text: str) -> Iterator[tuple[str, list[int]]]:
    """For each list in the root object (and for a root list, as ""): the lines of its items. The text is valid JSON."""
    at = _after_space(text, 0)
    if text[at] == "[":
        yield "", _lines_of_list(text, at)[0]
    if text[at] != "{":
        return
    at = _after_space(text, at + 1)
    while text[at] == '"':
        key, at = _SKIP.raw_decode(text, at)
        at = _after_space(text, _after_space(text, at) + 1)
        if text[at] == "[":
            lines, at = _lines_of_list(text, at)
            yield key, lines
        else:
            _, at = _SKIP.raw_decode(text, at)
        at = _after_space(text, at)
        if text[at] == ",":
            at = _after_space(text, at + 1)


def _lines_of_list(text: str, at: int) -> tuple[list[int], int]:
    lines: list[int] = []
    counted, line = 0, 1
    at = _after_space(text, at + 1)
    while text[at] != "]":
        line += text.count("\n", counted, at)
        counted = at
        lines.append(line)
        _, at = _SKIP.raw_decode(text, at)
        at = _after_space(text, at)
        if text[at] == ",":
            at = _after_space(text, at + 1)
    return lines, at + 1


_SKIP = JSONDecoder(object_pairs_hook=lambda pairs: None, parse_int=len, parse_float=len)


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match is not None else at


def _as_yaml(text: str) -> str:
    """Return the text with each surrogate pair of escapes joined: YAML reads the two halves separately."""
    if "\\u" not in text:
        return text
    return _SURROGATE_PAIR.sub(lambda match: f"{match[1]}\\U{_character(match[2], match[3]):08X}", text)


def _character(high: str, low: str) -> int:
    """The code point of a surrogate pair, each half in hexadecimal."""
    return 0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00
