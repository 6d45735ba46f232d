"""How the arguments of a tool call are compared with those that a suite names, by canned answers and evaluators."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_ANY_VALUE = re.compile(r"\s*\{\{\s*[\w.-]+\s*\}\}\s*")
_OF_NO_OBJECT = ("values", "keys")
"""The comparisons in which arguments that are no object are none; in the others nothing is like them."""


def same_value(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal: 1 is 1.0, true is not 1, the order of keys does not matter."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same_value(value, right[key]) for key, value in left.items())
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same_value, left, right))
    return bool(left == right)


def have_arguments(arguments: Any, expected: Mapping[str, Any] | None, how: str | Sequence[str]) -> bool:
    """Return whether a call has the expected arguments (None: any). This is the comparison of canned answers, of
    `expected-calls` and of `tool-trajectory`.

    `values`: each expected argument, with any others beside them; texts that are arguments themselves are compared
    without surrounding blanks and without case, and one that is a placeholder (`{{ name }}`) is any value. `keys`: the
    names of them. `superset`: each of them as it is, with any others. `subset`: no others, `exact`: they and no others.
    `ignore`: any. A list of dotted paths: the values at these, where they are expected. All other values are equal as
    in `same_value`.
    """
    if expected is None or how == "ignore":
        return True
    if not isinstance(arguments, Mapping):
        return how in _OF_NO_OBJECT and not expected
    if isinstance(how, str):
        return _COMPARISONS[how](expected, arguments)
    values = ((path, _at(expected, path)) for path in how)
    return all(same_value(value, _at(arguments, path)) for path, value in values if value)


def _within(few: Mapping[str, Any], many: Mapping[str, Any], same: Callable[[Any, Any], bool] = same_value) -> bool:
    return all(key in many and same(value, many[key]) for key, value in few.items())


def _alike(expected: Any, given: Any) -> bool:
    if not isinstance(expected, str):
        return same_value(expected, given)
    if _ANY_VALUE.fullmatch(expected):
        return True
    return isinstance(given, str) and expected.strip().casefold() == given.strip().casefold()


def _at(value: Any, path: str) -> list[Any]:
    """Return the value at a dotted path, as a list of one value; empty when there is none."""
    for step in path.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return []
        value = value[step]
    return [value]


_COMPARISONS: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], bool]] = {
    "values": lambda expected, given: _within(expected, given, _alike),
    "keys": lambda expected, given: expected.keys() <= given.keys(),
    "superset": _within,
    "subset": lambda expected, given: _within(given, expected),
    "exact": same_value,
}
