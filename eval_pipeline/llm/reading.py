"""Reading JSON that others wrote, and building JSON for them: the same few moves for every wire."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import orjson


def count(value: Any) -> int | None:
    """A count: an int of at least 0 that fits 64 bits, else None (unknown)."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def amount(value: Any) -> float | None:
    """A sum of money: a finite number of at least 0, else None (unknown)."""
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf
    return float(value) if usable else None


def total(first: int | None, *more: int | None) -> int | None:
    """The sum of counts; None when the first is not known, the others count as far as they are known."""
    return None if first is None else first + sum(number or 0 for number in more)


def mapping(value: Any) -> Mapping[str, Any]:
    """A mapping; empty for anything else."""
    return value if isinstance(value, (dict, Mapping)) else {}  # a dict is known at once, a mapping by its relatives


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """The mappings in a list; none for anything else."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """A text, or None."""
    return value if isinstance(value, str) else None


def joined(values: Iterable[Any], between: str = "") -> str:
    """The texts among these, put together."""
    return between.join(value for value in values if isinstance(value, str))


def json_or_text(value: Any) -> Any:
    """What a JSON text says, or the value itself when it is none."""
    try:
        return orjson.loads(value)
    except (orjson.JSONDecodeError, TypeError):
        return value


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Both mappings, the second before the first; mappings below a key are merged in the same way."""
    whole = dict(first)
    for key, value in second.items():
        mine = whole.get(key)
        if isinstance(value, Mapping):
            value = merged(mine if isinstance(mine, Mapping) else {}, value)
        whole[key] = value
    return whole
