"""`tool-trajectory`: which tools were called, in which order, with which arguments, and how long each took.

A report that shows no session, only an answer, says nothing about calls; a session without calls has made none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, Strict

from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.model import ToolUse
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import SNAKE_OR_CAMEL, Limit, Text
from eval_pipeline.scores.evaluators.budgets import OnMissing
from eval_pipeline.scores.model import Finding, Outcome, Subject
from eval_pipeline.scores.session_facts import shows_session

ArgsMatch = Any  # one of ARGS_MATCHES or a list of dotted paths, checked by hand: a union's errors name no field
ARGS_MATCHES = ("exact", "superset", "subset", "ignore")
Mode = Literal["any_order", "in_order", "exact", "superset", "subset"]
_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCall:
    """A call to look for. `args` is a mapping, or `any`; `args_match` overrides the evaluator's."""

    __pydantic_config__: ClassVar[ConfigDict] = SNAKE_OR_CAMEL
    tool: Text
    args: Any = None
    args_match: ArgsMatch = None
    max_duration_ms: Limit | None = None

    def __post_init__(self) -> None:
        if self.args is not None and self.args != "any" and not isinstance(self.args, Mapping):
            raise ValueError(f"args: expected a mapping or 'any', got {self.args!r}")
        _check_args_match(self.args_match)


@EVALUATORS.register("tool-trajectory")
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTrajectory:
    """The share of what was expected of the tool calls that came true.

    `any_order`: each tool of `minimums` is called that often. `in_order`: the `expected` calls come one after another,
    others may stand between. `exact`: they and no others. `superset`: each is among the calls, which may be more.
    `subset`: each call is among them. Arguments are compared as `args_match` says (`exact`, `superset`, `subset`,
    `ignore`, or a list of dotted paths). A `max_duration_ms` (`in_order`, `exact`) is one more thing expected, left
    out when the duration was not measured.
    """

    __pydantic_config__: ClassVar[ConfigDict] = SNAKE_OR_CAMEL
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    mode: Mode
    minimums: dict[str, Annotated[int, Field(strict=True, ge=0)]] | None = None
    expected: Annotated[tuple[ExpectedCall, ...], Strict(False)] | None = None
    args_match: ArgsMatch = None
    on_missing: OnMissing = "unscored"

    def __post_init__(self) -> None:
        _check_args_match(self.args_match)
        needed, useless = ("minimums", "expected") if self.mode == "any_order" else ("expected", "minimums")
        if getattr(self, needed) is None:
            raise ValueError(f"mode {self.mode} needs {needed}")
        if getattr(self, useless) is not None:
            raise ValueError(f"mode {self.mode} takes {needed}, not {useless}")
        if self.mode not in _TIMED and any(item.max_duration_ms is not None for item in self.expected or ()):
            raise ValueError(f"mode {self.mode} checks no max_duration_ms; {' and '.join(_TIMED)} do")

    def evaluate(self, subject: Subject) -> Outcome:
        if not shows_session(subject.report):
            return Outcome(0.0 if self.on_missing == "fail" else None, "the report shows no session: calls are unknown")
        findings = tuple(_LOOK[self.mode](self, subject.report.tool_uses))
        failed = [finding.text for finding in findings if not finding.passed]
        value = 1.0 - len(failed) / len(findings) if findings else 1.0
        return Outcome(value, "; ".join(failed) or f"the calls are as expected ({self.mode})", findings)

    def matches(self, call: ToolUse, item: ExpectedCall) -> bool:
        """Whether a call is of the item's tool and has its arguments."""
        how = next((given for given in (item.args_match, self.args_match) if given is not None), "exact")
        return call.tool == item.tool and _same_arguments(call.call.arguments, item.args, how)


def same_value(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same: 1 is 1.0, true is not 1, the order of keys does not matter."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_value(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same_value, one, other))
    return bool(one == other)


def _same_arguments(actual: Any, expected: Any, how: ArgsMatch) -> bool:
    if expected is None or expected == "any" or how == "ignore":
        return True
    if not isinstance(actual, Mapping):
        return False
    if how == "superset":
        return _within(expected, actual)
    if how == "subset":
        return _within(actual, expected)
    if how == "exact":
        return same_value(actual, expected)
    wanted = ((path, _at(expected, path)) for path in how)
    return all(same_value(value, _at(actual, path)) for path, value in wanted if value)


def _within(few: Mapping[str, Any], many: Mapping[str, Any]) -> bool:
    return all(key in many and same_value(value, many[key]) for key, value in few.items())


def _at(value: Any, path: str) -> list[Any]:
    """The value at a dotted path, as a list of one; empty when there is none."""
    for step in path.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return []
        value = value[step]
    return [value]


def _check_args_match(given: ArgsMatch) -> None:
    if given is None or given in ARGS_MATCHES:
        return
    if not isinstance(given, list) or not all(isinstance(path, str) and path for path in given):
        raise ValueError(f"args_match: expected one of {', '.join(ARGS_MATCHES)}, or a list of paths, got {given!r}")


def _any_order(asked: ToolTrajectory, calls: Sequence[ToolUse]) -> Iterator[Finding]:
    for tool, least in (asked.minimums or {}).items():
        count = sum(call.tool == tool for call in calls)
        yield Finding(f"{tool} was called {count} times, at least {least} expected", count >= least)


def _in_order(asked: ToolTrajectory, calls: Sequence[ToolUse]) -> Iterator[Finding]:
    """An item takes the next call that matches. Else it uses up the next call of its tool; without one, all calls."""
    begin = 0
    for number, item in enumerate(asked.expected or (), start=1):
        of_tool = [index for index in range(begin, len(calls)) if calls[index].tool == item.tool]
        hit = next((index for index in of_tool if asked.matches(calls[index], item)), None)
        taken = hit if hit is not None else next(iter(of_tool), len(calls))
        yield from _expected_call(number, item, calls[taken : taken + 1], made=hit is not None)
        begin = taken + 1


def _exact(asked: ToolTrajectory, calls: Sequence[ToolUse]) -> Iterator[Finding]:
    for number, (item, call) in enumerate(zip_longest(asked.expected or (), calls), start=1):
        if item is None:
            yield Finding(f"call {number} ({call.tool}) was not expected", False, _shown(call))
        else:
            made = call is not None and asked.matches(call, item)
            yield from _expected_call(number, item, calls[number - 1 : number], made=made)


def _superset(asked: ToolTrajectory, calls: Sequence[ToolUse]) -> Iterator[Finding]:
    left = list(calls)
    for number, item in enumerate(asked.expected or (), start=1):
        hit = next((call for call in left if asked.matches(call, item)), None)
        yield from _expected_call(number, item, [hit] if hit is not None else [], made=hit is not None)
        if hit is not None:
            left.remove(hit)


def _subset(asked: ToolTrajectory, calls: Sequence[ToolUse]) -> Iterator[Finding]:
    for number, call in enumerate(calls, start=1):
        allowed = any(asked.matches(call, item) for item in asked.expected or ())
        said = "is among" if allowed else "is not among"
        yield Finding(f"call {number} ({call.tool}) {said} the expected ones", allowed, _shown(call))


def _expected_call(number: int, item: ExpectedCall, found: Sequence[ToolUse], *, made: bool) -> Iterator[Finding]:
    """What was expected of one item: the call, and how long it may take. `found` is the call in its place, if any."""
    name, limit = f"expected call {number} ({item.tool})", item.max_duration_ms
    yield Finding(f"{name} {'was' if made else 'was not'} made", made, *map(_shown, found))
    if limit is None:
        return
    if not made:
        yield Finding(f"{name} has no duration", False)
    elif found[0].duration_ms is not None:
        kept = found[0].duration_ms <= limit
        compared = "is within" if kept else "exceeds"
        yield Finding(f"{name}: duration {found[0].duration_ms:.12g} ms {compared} {limit:.12g} ms", kept)


def _shown(call: ToolUse) -> str:
    arguments = "" if call.call.arguments is None else to_json(call.call.arguments).decode()
    return f"{call.tool}({arguments[:_SHOWN]})"


_TIMED = ("in_order", "exact")
_LOOK: Mapping[str, Callable[[ToolTrajectory, Sequence[ToolUse]], Iterator[Finding]]] = {
    "any_order": _any_order,
    "in_order": _in_order,
    "exact": _exact,
    "superset": _superset,
    "subset": _subset,
}
