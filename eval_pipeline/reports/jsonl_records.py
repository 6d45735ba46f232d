"""JSONL that a program printed → records with their line numbers; and values out of records of which nobody promised
the shape.

What is no JSON object is counted, never an error. What a value turns out not to be is None or empty, never a guess.
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

_LARGEST = 2**53  # beyond it a JSON number is no exact whole number any more
_MANY_BRACKETS = 200
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_MEDIA = frozenset({"image", "document", "audio", "file", "input_image", "input_file", "input_audio"})


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON object and the 1-based line it stood in."""

    line: int
    value: JsonMap

    @property
    def type(self) -> str:
        """What the record says it is; empty when it does not."""
        return text(self.value.get("type")) or ""


@dataclass(frozen=True, slots=True)
class Records:
    """The objects of a text in order, and how many of its lines could not be read."""

    rows: tuple[Record, ...] = ()
    unparsed_lines: int = 0


def read_records(source: str | None) -> Records:
    """The records of a JSONL text; a line that holds a list holds one record for each object in it."""
    rows: list[Record] = []
    unparsed = 0
    for number, line in enumerate((source or "").split("\n"), start=1):
        line = line.strip("\ufeff \t\r")
        if not line:
            continue
        found = list(_objects(line))
        unparsed += not found
        rows.extend(Record(number, value) for value in found)
    return Records(tuple(rows), unparsed)


def _objects(line: str) -> Iterator[JsonMap]:
    try:
        value = parse_json(line)
    except (ValueError, RecursionError):
        return
    yield from (item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict))


def parse_json(line: str) -> Any:
    """One JSON value that can be stored again. Raises ValueError or RecursionError.

    Half a surrogate pair, which JavaScript prints when it cuts a text, becomes U+FFFD; deep nesting is refused.
    """
    if _SURROGATE.search(line):
        value = orjson.loads(to_json(json.loads(line, parse_constant=_refuse)))
    else:
        value = orjson.loads(line)
    if line.count("[") + line.count("{") > _MANY_BRACKETS:
        orjson.dumps(value)
    return value


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def mapping(value: Any) -> JsonMap:
    """The object, or an empty one."""
    return value if isinstance(value, Mapping) else {}


def listing(value: Any) -> Sequence[Any]:
    """The list, or an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """The text, or None when it is none or empty."""
    return value if isinstance(value, str) and value else None


def count(value: Any) -> int | None:
    """A whole number of at least 0, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST else None


def amount(value: Any) -> float | None:
    """A finite number of at least 0, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LARGEST:
        return None
    return float(value) if math.isfinite(value) else None


def moment(value: Any) -> str | None:
    """The text of an ISO 8601 time, else None."""
    if not isinstance(value, str):
        return None
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return None
    return value


def shown(value: Any) -> str:
    """A content as text: texts as they are, the parts of a list joined by newlines, media named, the rest as JSON."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "\n".join(_part(part) for part in value)
    return value if isinstance(value, str) else to_json(value).decode()


def _part(part: Any) -> str:
    said = mapping(part).get("text")
    if isinstance(said, str):
        return said
    kind = mapping(part).get("type")
    return f"[{kind}]" if isinstance(kind, str) and kind in _MEDIA else shown(part)


def first(record: JsonMap, *names: str) -> Any:
    """The value of the first of `names` that the record has and that is not null."""
    return next((record[name] for name in names if record.get(name) is not None), None)
