"""How the arguments of a tool call are compared with those that a suite names, by canned answers and evaluators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal


def same_value(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal: 1 is 1.0, true is not 1, the order of keys does not matter."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same_value(value, right[key]) for key, value in left.items())
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same_value, left, right))
    return bool(left == right)


def within(few: Mapping[str, Any], many: Mapping[str, Any]) -> bool:
    """Return whether every entry of one mapping is in another, with the same value."""
    return all(key in many and same_value(value, many[key]) for key, value in few.items())


def answers_to(params: Mapping[str, Any] | None, arguments: Any, match: Literal["values", "keys"]) -> bool:
    """Return whether a call has the arguments of a canned answer: each of them, with any others beside them.

    Values are equal as in `same_value`; texts that are arguments themselves are compared without surrounding blanks and
    without case. With `keys` only the names are compared. Arguments that are no object are none.
    """
    if not params:
        return True
    given = arguments if isinstance(arguments, Mapping) else {}
    return all(key in given and (match == "keys" or _alike(value, given[key])) for key, value in params.items())


def _alike(left: Any, right: Any) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return left.strip().casefold() == right.strip().casefold()
    return same_value(left, right)
