"""`expected-calls`: whether the tool calls that a conversation was to have were made, and forbidden ones were not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Strict

from eval_pipeline.reports.model import ToolUse
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Text
from eval_pipeline.scores.model import Finding, Outcome, Subject
from eval_pipeline.scores.session_facts import shows_session
from eval_pipeline.suites.arguments import have_arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class CallExpectation:
    """A call of a `tool` whose arguments include `arguments` (none: any), compared as those of mocks are."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    tool: Text
    arguments: dict[str, Any] | None = None


@EVALUATORS.register("expected-calls")
@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCalls:
    """The share of expectations about tool calls that hold.

    `calls` are the calls to find, each matched by a call of its own (`[]`: no tool is to be called at all); `in_order`
    finds them one after another. `forbidden` are tools that must not be called. Arguments are compared as those of
    mocks: others may be beside them, texts are alike without blanks around them and without case, and a text that is a
    placeholder (`{{ name }}`) is any value.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "2"
    reads: ClassVar[tuple[str, ...]] = ()
    calls: Annotated[tuple[CallExpectation, ...], Strict(False)] | None = None
    forbidden: Annotated[tuple[Text, ...], Strict(False)] = ()
    in_order: bool = False

    def __post_init__(self) -> None:
        if self.calls is None and not self.forbidden:
            raise ValueError("calls: expected a list of calls, or tools under forbidden")

    def evaluate(self, subject: Subject) -> Outcome:
        if not shows_session(subject.report):
            return Outcome(None, "the report shows no session: calls are unknown")
        findings = tuple(self._findings(subject.report.tool_uses))
        failed = [finding.text for finding in findings if not finding.passed]
        value = 1.0 - len(failed) / len(findings) if findings else 1.0
        return Outcome(value, "; ".join(failed) or "the tool calls are as expected", findings)

    def _findings(self, uses: Sequence[ToolUse]) -> Iterator[Finding]:
        if self.calls is not None and not self.calls:
            made = ", ".join(dict.fromkeys(use.tool for use in uses))
            yield Finding(f"no tool is to be called, but these were: {made}" if uses else "no tool is called", not uses)
        yield from self._in_order(list(uses)) if self.in_order else self._in_any_order(uses)
        for tool in self.forbidden:
            times = sum(use.tool == tool for use in uses)
            yield Finding(f"{tool} is forbidden" + (f" and was called {times}×" if times else ""), not times)

    def _in_order(self, rest: list[ToolUse]) -> Iterator[Finding]:
        for call in self.calls or ():
            place = next((index for index, use in enumerate(rest) if _is(use, call)), None)
            yield Finding(_text(call, rest, place is not None), place is not None)
            if place is not None:
                rest = rest[place + 1 :]

    def _in_any_order(self, uses: Sequence[ToolUse]) -> Iterator[Finding]:
        matched = _matched(self.calls or (), uses)
        rest = [use for place, use in enumerate(uses) if place not in matched]
        for number, call in enumerate(self.calls or ()):
            found = number in matched.values()
            yield Finding(_text(call, rest, found), found)


def _matched(calls: Sequence[CallExpectation], uses: Sequence[ToolUse]) -> dict[int, int]:
    """Return the number of the expectation that each matched use, by its place, is for: as many as possible are matched
    (augmenting paths; Kuhn 1955, Naval Research Logistics Quarterly 2)."""
    taken: dict[int, int] = {}

    def match(number: int, tried: set[int]) -> bool:
        for place, use in enumerate(uses):
            if place in tried or not _is(use, calls[number]):
                continue
            tried.add(place)
            if place not in taken or match(taken[place], tried):
                taken[place] = number
                return True
        return False

    for number in range(len(calls)):
        match(number, set())
    return taken


def _is(use: ToolUse, call: CallExpectation) -> bool:
    return use.tool == call.tool and have_arguments(use.call.arguments, call.arguments, "values")


def _text(call: CallExpectation, rest: Sequence[ToolUse], found: bool) -> str:
    arguments = f" with {call.arguments}" if call.arguments else ""
    if found:
        return f"{call.tool}{arguments} is called"
    other = any(use.tool == call.tool for use in rest)
    return f"{call.tool}{arguments} is not called" + (" (it is, with other arguments)" if other and arguments else "")
