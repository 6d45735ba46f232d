"""Streams of events, with the pieces of one text joined: only the whole shows a path or a secret."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_MERGED = frozenset({"arguments", "partial_json", "delta", "text", "content", "thinking", "reasoning_content", "input"})
_NUMBERS = frozenset({"sequence_number"})
_Path = tuple[str | int, ...]


def joined(stream: str) -> str:
    """Return a stream of events with neighbours joined that are pieces of one text."""
    events: list[str | tuple[str, Any]] = []
    for block in stream.replace("\r\n", "\n").split("\n\n"):
        head, data = _event(block)
        if data is not None and events and isinstance(events[-1], tuple):
            before, value = events[-1]
            merged = _merged(value, data) if before == head else None
            if merged is not None:
                events[-1] = head, merged
                continue
        events.append(block if data is None else (head, data))
    return "\n\n".join(each if isinstance(each, str) else f"{each[0]}data: {json.dumps(each[1])}" for each in events)


def _event(block: str) -> tuple[str, Any]:
    """Return the lines of an event before its data, and its data; None where that is no JSON object."""
    head, found, data = block.rpartition("data:")
    try:
        value = json.loads(data) if found else None
    except (ValueError, RecursionError):
        value = None
    return head, value if isinstance(value, dict) else None


def _merged(left: Any, right: Any) -> Any | None:
    """Return two events as one where they differ in nothing but one text; None otherwise."""
    differences = list(_differences(left, right, ()))
    texts = [path for path in differences if path[-1:] and path[-1] not in _NUMBERS]
    if len(texts) != 1 or texts[0][-1] not in _MERGED:
        return None
    first, second = (_at(value, texts[0]) for value in (left, right))
    if not isinstance(first, str) or not isinstance(second, str):
        return None
    merged = json.loads(json.dumps(right))
    _at(merged, texts[0][:-1])[texts[0][-1]] = first + second
    return merged


def _differences(left: Any, right: Any, path: _Path) -> Iterator[_Path]:
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        for name in left:
            yield from _differences(left[name], right[name], (*path, name))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from _differences(one, other, (*path, index))
    elif left != right or (path[-1:] and path[-1] in _MERGED and isinstance(left, str)):
        yield path


def _at(value: Any, path: _Path) -> Any:
    for step in path:
        value = value[step]
    return value
