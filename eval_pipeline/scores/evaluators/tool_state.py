"""`tool-state`: whether the tools of a case left its state as it should be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Strict

from eval_pipeline.executions.canned_answers import CannedAnswers
from eval_pipeline.executions.tool_sets import ToolSet, declared_tools
from eval_pipeline.executions.tools import ToolPlace, ToolRequest
from eval_pipeline.llm.reading import mapping
from eval_pipeline.reports.model import SessionReport, ToolResultEvent
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Text
from eval_pipeline.scores.evaluators.expected_calls import CallExpectation
from eval_pipeline.scores.model import Finding, Outcome, Subject
from eval_pipeline.suites.arguments import same_value

_SHOWN = 200
_MISSING = object()
State = Mapping[str, Any]


@EVALUATORS.register("tool-state")
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolState:
    """The share of expectations about the state of the case, as its tools left it, that hold.

    `expected` is the document that is compared. With `match: part` its entries have to be there, and others may be;
    with `match: whole` the state is that document and nothing else. In place of `expected`, `calls` are the reference
    calls: the mocks of the case, and the functions under `tools` (`module:function` by name of the tool), carry them
    out on the initial state, and what they leave behind is expected.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "2"
    reads: ClassVar[tuple[str, ...]] = ("state", "mocks")
    expected: dict[str, Any] | None = None
    match: Literal["part", "whole"] = "part"
    calls: Annotated[tuple[CallExpectation, ...], Strict(False)] | None = None
    tools: dict[str, Text] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.expected is None) == (self.calls is None):
            raise ValueError("expected: needs the expected state, or reference calls under calls, and not both")
        if self.tools and self.calls is None:
            raise ValueError("tools: are those of reference calls; list these under calls")

    def evaluate(self, subject: Subject) -> Outcome:
        if self.calls is None:
            return self._outcome(subject, self.expected or {})
        with ThreadPoolExecutor(1) as thread:  # there may be an event loop in this one
            return thread.submit(asyncio.run, self.evaluate_apart(subject)).result()

    async def evaluate_apart(self, subject: Subject) -> Outcome:
        """Return what `evaluate` returns; meanwhile other executions go on."""
        if self.calls is None:
            return self._outcome(subject, self.expected or {})
        reference, problem = await self._reference(subject)
        return Outcome(None, problem) if problem is not None else self._outcome(subject, reference)

    async def _reference(self, subject: Subject) -> tuple[State, str | None]:
        """Return the state that the reference calls leave behind, or why one of them failed."""
        place = ToolPlace(folder=subject.folder, isolation=subject.isolation)
        entries = [
            {"name": name, "implementation": {"type": "python", "function": function}}
            for name, function in self.tools.items()
        ]
        tools, canned = ToolSet(declared_tools(entries), place), CannedAnswers(subject.case.mocks)
        state: State = subject.case.state or {}
        context = subject.case.user.context if subject.case.user is not None else None
        for call in self.calls or ():
            request = ToolRequest(
                tool=call.tool, arguments=call.arguments or {}, context=context, state=state, canned=canned
            )
            answer = await tools.answer(request)
            if answer.is_error:
                cure = "" if call.tool in self.tools else "; name its function under 'tools' of tool-state"
                return state, f"the reference call of {call.tool} failed: {mapping(answer.output).get('error')}{cure}"
            state = answer.state if answer.state is not None else state
        return state, None

    def _outcome(self, subject: Subject, expected: State) -> Outcome:
        state = state_left(subject.report, subject.case.state)
        if state is None:
            return Outcome(None, "the case has no state, and no tool made one")
        findings = tuple(_compared(expected, state, "", whole=self.match == "whole"))
        failed = [finding.text for finding in findings if not finding.passed]
        value = 1.0 - len(failed) / len(findings) if findings else 1.0
        return Outcome(value, "; ".join(failed) or "the state is as expected", findings)


def state_left(report: SessionReport, initial: State | None) -> State | None:
    """Return the state after the session: that of its last change, by either side; else the initial one."""
    changes: list[tuple[int, int, State]] = [
        (position, 1, event.state)
        for position, event in enumerate(report.events)
        if isinstance(event, ToolResultEvent) and event.state is not None
    ]
    for start in report.turn_starts:
        left = mapping(start.speech).get("state")
        if isinstance(left, Mapping):
            changes.append((start.position, 0, left))
    return max(changes, key=lambda change: change[:2])[2] if changes else initial


def _compared(expected: State, state: State, path: str, *, whole: bool) -> Iterator[Finding]:
    for name, value in expected.items():
        place, found = f"{path}{name}", state.get(name, _MISSING)
        if isinstance(value, Mapping) and isinstance(found, Mapping):
            yield from _compared(value, found, f"{place}.", whole=whole)
        elif found is _MISSING:
            yield Finding(f"{place} is missing; expected {_shown(value)}", False)
        elif same_value(value, found):
            yield Finding(f"{place} is {_shown(value)}", True)
        else:
            yield Finding(f"{place} is {_shown(found)}; expected {_shown(value)}", False)
    for name in state if whole else ():
        if name not in expected:
            yield Finding(f"{path}{name} is {_shown(state[name])}; it is not expected", False)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
