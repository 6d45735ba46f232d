"""JSONL printed by a program → records with line numbers, and typed reads of values whose shape is not guaranteed.

A line without a JSON object is counted, never an error. A value of another type is None or empty, never a guess.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from eval_pipeline.fingerprints import to_json

JsonMap = Mapping[str, Any]

_LARGEST = 2**53  # the largest range in which a JSON number is an exact integer
_MANY_BRACKETS = 200
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_MEDIA = frozenset({"image", "document", "audio", "file", "input_image", "input_file", "input_audio"})


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON object and its 1-based line."""

    line: int
    value: JsonMap

    @property
    def type(self) -> str:
        """Value of `type`; empty without one."""
        return text(self.value.get("type")) or ""


@dataclass(frozen=True, slots=True)
class Records:
    """The objects of a text in order, and the number of lines that could not be parsed.

    Of a large file (`record_files.py`) also how many lines are left out, and the first of them.
    """

    rows: tuple[Record, ...] = ()
    unparsed_lines: int = 0
    left_out: int = 0
    gap: int | None = None


def read_records(source: str | None) -> Records:
    """Return the records of a JSONL text; a line with a list gives one record for each object in it."""
    rows: list[Record] = []
    unparsed = 0
    for number, line in enumerate((source or "").split("\n"), start=1):
        line = line.strip("\ufeff \t\r")
        if not line:
            continue
        objects = list(objects_of(line))
        unparsed += not objects
        rows.extend(Record(number, value) for value in objects)
    return Records(tuple(rows), unparsed)


def objects_of(line: str | bytes) -> Iterator[JsonMap]:
    """Yield the JSON objects of a line: one, or those in a list; none where it cannot be parsed."""
    try:
        value = parse_json(line)
    except (ValueError, RecursionError):
        return
    yield from (item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict))


def parse_json(line: str | bytes) -> Any:
    """Return one JSON value that can be serialized again; bytes that are no UTF-8 become U+FFFD. Raises ValueError or
    RecursionError.

    Half a surrogate pair, which JavaScript prints when it cuts a text, becomes U+FFFD; deep nesting is refused.
    """
    content = line.encode("utf-8", "surrogatepass") if isinstance(line, str) else line
    if b"\\u" in content and _SURROGATE.search(content):
        value = orjson.loads(to_json(json.loads(_decoded(content), parse_constant=_refuse)))
    else:
        value = _loaded(content)
    if content.count(b"[") + content.count(b"{") > _MANY_BRACKETS:
        orjson.dumps(value)
    return value


def _loaded(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        if content.isascii():
            raise
        return orjson.loads(_decoded(content))


def _decoded(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def mapping(value: Any) -> JsonMap:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def listing(value: Any) -> Sequence[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """Return the value if it is a text that is not empty, else None."""
    return value if isinstance(value, str) and value else None


def count(value: Any) -> int | None:
    """Return the value if it is a whole number of at least 0, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST else None


def amount(value: Any) -> float | None:
    """Return the value if it is a finite number of at least 0, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LARGEST:
        return None
    return float(value) if math.isfinite(value) else None


def moment(value: Any) -> str | None:
    """Return the value if it is an ISO 8601 time, else None."""
    if not isinstance(value, str):
        return None
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return None
    return value


def shown(value: Any) -> str:
    """Return a content as text: texts as they are, parts of a list joined by newlines, media by name, else JSON."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "\n".join(_part(part) for part in value)
    return value if isinstance(value, str) else to_json(value).decode()


def _part(part: Any) -> str:
    words = mapping(part).get("text")
    if isinstance(words, str):
        return words
    kind = mapping(part).get("type")
    return f"[{kind}]" if isinstance(kind, str) and kind in _MEDIA else shown(part)


def first(record: JsonMap, *names: str) -> Any:
    """Return the first value among `names` of the record that is not null; None without."""
    return next((record[name] for name in names if record.get(name) is not None), None)
