"""`requires: {agentv: '>=4.2'}`: whether our version of AgentV's format satisfies a suite."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import zip_longest

COMPATIBLE_WITH = ((4, 9, 1), (4, 42, 4))
_TERM = re.compile(
    r"(\^|~|>=|<=|>|<|=)?\s*v?(\d{1,9}|[xX*])(?:\.(\d{1,9}|[xX*]))?(?:\.(\d{1,9}|[xX*]))?(?:[-+][\w.+-]*)?"
)
_Bounds = tuple[tuple[int, ...], tuple[int, ...]]  # from, to (exclusive)
_NEVER_ENDS = (10**9,)


def is_compatible(required: str) -> bool | None:
    """Return whether one of our versions is in an npm version range; None for an invalid range."""
    alternatives = [_all_of(part) for part in required.split("||")]
    if None in alternatives:
        return None
    return any(alternatives)


def version_problem(required: str) -> str:
    """Return the warning about a version range that does not hold our version, or is none."""
    versions = " and ".join(".".join(map(str, version)) for version in COMPATIBLE_WITH)
    return f"requires AgentV '{required}'; this version reads files as {versions} do"


def is_from(required: str, version: tuple[int, ...]) -> bool:
    """Return whether a range (`4.42.4`, `^4.40.0`, `>=4.36`) begins at this version or later."""
    lowest = [_bounds(term)[0] for term in _TERM.finditer(required)]
    return bool(lowest) and is_compatible(required) is not None and max(lowest) >= version


def _all_of(required: str) -> bool | None:
    terms = list(_TERM.finditer(required))
    if not terms or _TERM.sub("", required).strip(" ,"):
        return None
    bounds = list(map(_bounds, terms))
    return any(all(lower <= version < upper for lower, upper in bounds) for version in COMPATIBLE_WITH)


def _bounds(term: re.Match[str]) -> _Bounds:
    operator = term[1] or "="
    numbers = [int(part) for part in (term[2], term[3], term[4]) if part is not None and part.isdigit()]
    lower = tuple(number for number, _ in zip_longest(numbers, range(3), fillvalue=0))
    if operator == ">=":
        return lower, _NEVER_ENDS
    if operator == "<":
        return (), lower
    if operator == ">":
        return _after(numbers), _NEVER_ENDS
    if operator == "<=":
        return (), _after(numbers)
    return lower, _after(numbers[: _KEPT[operator](numbers)])


def _after(numbers: list[int]) -> tuple[int, ...]:
    """Return the first version after all with this prefix."""
    return (*numbers[:-1], numbers[-1] + 1) if numbers else _NEVER_ENDS


def _caret(numbers: list[int]) -> int:
    """Return the upper bound of `^`: numbers after the first non-zero one may change."""
    return next((index + 1 for index, number in enumerate(numbers) if number), len(numbers))


def _tilde(numbers: list[int]) -> int:
    return min(len(numbers), 2)


_KEPT: Mapping[str, Callable[[list[int]], int]] = {"=": len, "^": _caret, "~": _tilde}
