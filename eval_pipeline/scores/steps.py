"""How a suite names the steps it expects of a session: by name, pattern, type and count."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args

from eval_pipeline.reports.tool_kinds import ToolKind
from eval_pipeline.scores.session_facts import Step

_KINDS = frozenset(get_args(ToolKind)) - {"other"}
STEP_TYPES = tuple(sorted({"message", "reasoning", "tool", *_KINDS}))
"""What a step may be; a tool call is a `tool` and what its tool does (`read`, `edit`, `search`, …)."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """Selects steps by a pattern (`*` and `?`, case-insensitive), by types, or both."""

    pattern: str | None = None
    types: frozenset[str] = frozenset()

    def matches(self, step: Step) -> bool:
        """Return whether the step is selected."""
        if self.types and self.types.isdisjoint(step.types):
            return False
        return self.pattern is None or any(globs(self.pattern, name) for name in step.names)

    @property
    def shown(self) -> str:
        """Description of the steps in messages."""
        return self.pattern if self.pattern is not None else " or ".join(sorted(self.types)) or "any step"


def globs(pattern: str, name: str) -> bool:
    """Return whether a name matches a pattern with `*` and `?`, case-insensitive."""
    return _glob(pattern).fullmatch(name) is not None


@lru_cache(maxsize=1_000)
def _glob(pattern: str) -> re.Pattern[str]:
    special = {"*": ".*", "?": "."}
    return re.compile("".join(special.get(sign, re.escape(sign)) for sign in pattern), re.IGNORECASE | re.DOTALL)


def read_matcher(raw: Any, *, of_type: str | None = None, named: bool = True, more: tuple[str, ...] = ()) -> Matcher:
    """Read a matcher: a text, or a mapping with `name` or `pattern`, and `type`.

    Args:
        raw: The value in the suite.
        of_type: The type of steps where the mapping has none.
        named: Whether a name or pattern is required where the type is no kind of tools.
        more: Other fields that the mapping may have.

    Raises ValueError.
    """
    if isinstance(raw, str) and raw.strip():
        return Matcher(raw.strip(), frozenset({of_type} if of_type else ()))
    if not isinstance(raw, Mapping):
        raise ValueError(f"value: expected a name or a mapping with name or pattern, got {raw!r}")
    unknown = [str(key) for key in raw if key not in ("name", "pattern", "type", *more)]
    if unknown:
        raise ValueError(
            f"value: unknown field '{unknown[0]}'; there are: {', '.join(('name', 'pattern', 'type', *more))}"
        )
    pattern = raw.get("pattern", raw.get("name"))
    required = named and not _is_kind(raw.get("type"))
    if not (isinstance(pattern, str) and pattern.strip()) and (required or pattern is not None):
        raise ValueError("value: needs a name or a pattern (a text that is not empty)")
    return Matcher(pattern.strip() if isinstance(pattern, str) else None, _types(raw.get("type"), of_type))


def _is_kind(type_: Any) -> bool:
    """Whether a type is a kind of tools, which selects tool calls without a name."""
    return isinstance(type_, str) and type_ in _KINDS


def _types(raw: Any, of_type: str | None) -> frozenset[str]:
    if raw is None:
        return frozenset({of_type} if of_type else ())
    given = [raw] if isinstance(raw, str) else raw
    if not isinstance(given, list) or not given or not all(type_ in STEP_TYPES for type_ in given):
        raise ValueError(f"value: type: expected one or several of {', '.join(STEP_TYPES)}, got {raw!r}")
    return frozenset(given)


@dataclass(frozen=True, slots=True)
class Count:
    """Bounds of how often something is expected."""

    least: int = 1
    most: int | None = None

    def holds(self, number: int) -> bool:
        """Return whether a number is within the bounds."""
        return number >= self.least and (self.most is None or number <= self.most)

    @property
    def shown(self) -> str:
        """The bounds in words."""
        if self.most is None:
            return f"at least {self.least}"
        return f"{self.least} to {self.most}" if self.least else f"at most {self.most}"


def read_count(raw: Mapping[str, Any], *, required: bool = False, least: int = 1) -> Count:
    """Read `min` and `max` of a mapping; `least` is the default of `min`. Raises ValueError."""
    for name in ("min", "max"):
        number = raw.get(name)
        if number is not None and (type(number) is not int or number < 0):
            raise ValueError(f"value: {name}: expected a whole number of at least 0, got {number!r}")
    low, high = raw.get("min"), raw.get("max")
    if required and low is None and high is None:
        raise ValueError("value: needs min or max")
    if low is not None and high is not None and high < low:
        raise ValueError(f"value: max {high} is less than min {low}")
    return Count(least if low is None else low, high)
