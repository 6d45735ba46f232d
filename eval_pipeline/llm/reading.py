"""Helpers shared by the wires: reading JSON from providers and building JSON for them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import orjson


def count(value: Any) -> int | None:
    """Return a count: an int of at least 0 that fits 64 bits, else None (unknown)."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def amount(value: Any) -> float | None:
    """Return an amount of money: a finite number of at least 0, else None (unknown)."""
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf
    return float(value) if usable else None


def total(first: int | None, *more: int | None) -> int | None:
    """Return the sum of counts, unknown ones as 0; None if the first is unknown."""
    return None if first is None else first + sum(number or 0 for number in more)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping, or an empty one for anything else."""
    return value if isinstance(value, (dict, Mapping)) else {}  # `dict` first: the check against an ABC is slow


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings in a list; empty for anything else."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """Return a text, or None for anything else."""
    return value if isinstance(value, str) else None


def joined(values: Iterable[Any], between: str = "") -> str:
    """Join the texts among the values; others are skipped."""
    return between.join(value for value in values if isinstance(value, str))


def json_or_text(value: Any) -> Any:
    """Parse a JSON text, or return the value itself if it is not JSON."""
    try:
        return orjson.loads(value)
    except (orjson.JSONDecodeError, TypeError):
        return value


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings recursively; the second takes precedence."""
    result = dict(first)
    for key, value in second.items():
        current = result.get(key)
        if isinstance(value, Mapping):
            value = merged(current if isinstance(current, Mapping) else {}, value)
        result[key] = value
    return result
