"""`tool-trajectory`: which tools were called, in which order, with which arguments, and how long each took.

Calls are unknown for a report that shows no session, only an answer; a session without calls made none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, Strict

from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.model import ToolUse
from eval_pipeline.reports.tool_kinds import ToolKind
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import SNAKE_OR_CAMEL, Limit, Text
from eval_pipeline.scores.evaluators.budgets import OnMissing, milliseconds, missing
from eval_pipeline.scores.model import Finding, Outcome, Subject
from eval_pipeline.scores.session_facts import shows_session
from eval_pipeline.suites.arguments import have_arguments

ArgsMatch = Any  # one of ARGS_MATCHES or a list of dotted paths, checked by hand: a union's errors name no field
ARGS_MATCHES = ("exact", "superset", "subset", "ignore")
Mode = Literal["any_order", "in_order", "exact", "superset", "subset"]
_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCall:
    """A call to look for: of a `tool`, or of any tool of a `kind` (`read`, `edit`, `command`, …).

    `args` is a mapping, or `any`; `args_match` overrides the evaluator's.
    """

    __pydantic_config__: ClassVar[ConfigDict] = SNAKE_OR_CAMEL
    tool: Text | None = None
    kind: ToolKind | None = None
    args: Any = None
    args_match: ArgsMatch = None
    max_duration_ms: Limit | None = None

    def __post_init__(self) -> None:
        if (self.tool is None) == (self.kind is None):
            raise ValueError("tool: expected the name of a tool, or kind in its place")
        if self.args is not None and self.args != "any" and not isinstance(self.args, Mapping):
            raise ValueError(f"args: expected a mapping or 'any', got {self.args!r}")
        _check_args_match(self.args_match)

    @property
    def name(self) -> str:
        """The name of the tool in messages."""
        return self.tool or f"any {self.kind} tool"

    def is_of(self, use: ToolUse) -> bool:
        """Return whether a call is of the tool or of the kind."""
        return use.tool == self.tool if self.tool is not None else use.kind == self.kind


@EVALUATORS.register("tool-trajectory")
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTrajectory:
    """The share of expectations about the tool calls that hold.

    `any_order`: each tool of `minimums` is called that often. `in_order`: the `expected` calls come one after another,
    with any others between. `exact`: they and no others. `superset`: each is among the calls, which may be more.
    `subset`: each call is among them. `args_match` is how arguments are compared (`exact`, `superset`, `subset`,
    `ignore`, or a list of dotted paths). A `max_duration_ms` (`in_order`, `exact`) is one more expectation, left out
    when the duration is unknown.
    """

    __pydantic_config__: ClassVar[ConfigDict] = SNAKE_OR_CAMEL
    version: ClassVar[str] = "2"
    reads: ClassVar[tuple[str, ...]] = ()
    mode: Mode
    minimums: dict[str, Annotated[int, Field(strict=True, ge=0)]] | None = None
    expected: Annotated[tuple[ExpectedCall, ...], Strict(False)] | None = None
    args_match: ArgsMatch = None
    on_missing: OnMissing = "unscored"

    def __post_init__(self) -> None:
        _check_args_match(self.args_match)
        required, unused = ("minimums", "expected") if self.mode == "any_order" else ("expected", "minimums")
        if getattr(self, required) is None:
            raise ValueError(f"mode {self.mode} needs {required}")
        if getattr(self, unused) is not None:
            raise ValueError(f"mode {self.mode} takes {required}, not {unused}")
        if self.mode not in _TIMED and any(item.max_duration_ms is not None for item in self.expected or ()):
            raise ValueError(f"mode {self.mode} checks no max_duration_ms; {' and '.join(_TIMED)} do")

    def evaluate(self, subject: Subject) -> Outcome:
        if not shows_session(subject.report):
            return missing(self.on_missing, "the report shows no session: calls are unknown")
        findings = tuple(_FINDINGS[self.mode](self, subject.report.tool_uses))
        failed = [finding.text for finding in findings if not finding.passed]
        value = 1.0 - len(failed) / len(findings) if findings else 1.0
        return Outcome(value, "; ".join(failed) or f"the calls are as expected ({self.mode})", findings)

    def matches(self, use: ToolUse, item: ExpectedCall) -> bool:
        """Return whether a call is of the item's tool and has its arguments."""
        how = next((given for given in (item.args_match, self.args_match) if given is not None), "exact")
        expected = None if item.args == "any" else item.args
        return item.is_of(use) and have_arguments(use.call.arguments, expected, how)


def _check_args_match(given: ArgsMatch) -> None:
    if given is None or given in ARGS_MATCHES:
        return
    if not isinstance(given, list) or not all(isinstance(path, str) and path for path in given):
        raise ValueError(f"args_match: expected one of {', '.join(ARGS_MATCHES)}, or a list of paths, got {given!r}")


def _any_order(evaluator: ToolTrajectory, uses: Sequence[ToolUse]) -> Iterator[Finding]:
    for tool, least in (evaluator.minimums or {}).items():
        count = sum(use.tool == tool for use in uses)
        yield Finding(f"{tool} was called {count} times, at least {least} expected", count >= least)


def _in_order(evaluator: ToolTrajectory, uses: Sequence[ToolUse]) -> Iterator[Finding]:
    """An item consumes the next call that matches, else the next call of its tool; without one, all calls."""
    begin = 0
    for number, item in enumerate(evaluator.expected or (), start=1):
        of_tool = [index for index in range(begin, len(uses)) if item.is_of(uses[index])]
        hit = next((index for index in of_tool if evaluator.matches(uses[index], item)), None)
        taken = hit if hit is not None else next(iter(of_tool), len(uses))
        yield from _expected_call(number, item, uses[taken : taken + 1], made=hit is not None)
        begin = taken + 1


def _exact(evaluator: ToolTrajectory, uses: Sequence[ToolUse]) -> Iterator[Finding]:
    for number, (item, use) in enumerate(zip_longest(evaluator.expected or (), uses), start=1):
        if item is None:
            yield Finding(f"call {number} ({use.tool}) was not expected", False, _shown(use))
        else:
            made = use is not None and evaluator.matches(use, item)
            yield from _expected_call(number, item, uses[number - 1 : number], made=made)


def _superset(evaluator: ToolTrajectory, uses: Sequence[ToolUse]) -> Iterator[Finding]:
    left = list(uses)
    for number, item in enumerate(evaluator.expected or (), start=1):
        hit = next((use for use in left if evaluator.matches(use, item)), None)
        yield from _expected_call(number, item, [hit] if hit is not None else [], made=hit is not None)
        if hit is not None:
            left.remove(hit)


def _subset(evaluator: ToolTrajectory, uses: Sequence[ToolUse]) -> Iterator[Finding]:
    for number, use in enumerate(uses, start=1):
        allowed = any(evaluator.matches(use, item) for item in evaluator.expected or ())
        relation = "is among" if allowed else "is not among"
        yield Finding(f"call {number} ({use.tool}) {relation} the expected ones", allowed, _shown(use))


def _expected_call(number: int, item: ExpectedCall, uses: Sequence[ToolUse], *, made: bool) -> Iterator[Finding]:
    """The findings about one item: its call, and its duration. `uses` is the call in its place, if any."""
    name, limit = f"expected call {number} ({item.name})", item.max_duration_ms
    yield Finding(f"{name} {'was' if made else 'was not'} made", made, *map(_shown, uses))
    if limit is None:
        return
    if not made:
        yield Finding(f"{name} has no duration", False)
    elif uses[0].duration_ms is not None:
        kept = uses[0].duration_ms <= limit
        compared = "is within" if kept else "exceeds"
        yield Finding(f"{name}: duration {milliseconds(uses[0].duration_ms, limit)} {compared} {limit:.12g} ms", kept)


def _shown(use: ToolUse) -> str:
    arguments = "" if use.call.arguments is None else to_json(use.call.arguments).decode()
    return f"{use.tool}({arguments[:_SHOWN]})"


_TIMED = ("in_order", "exact")
_FINDINGS: Mapping[str, Callable[[ToolTrajectory, Sequence[ToolUse]], Iterator[Finding]]] = {
    "any_order": _any_order,
    "in_order": _in_order,
    "exact": _exact,
    "superset": _superset,
    "subset": _subset,
}
