"""The tools of a model within one turn: it calls, canned answers are its results, and it goes on until it speaks.

Canned answers (`mocks` of a case) are given in order, each once in a conversation. A call that none of them answers has
an error as its result, which the model sees.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.executions.model import RawExecution, TargetFailure
from eval_pipeline.failures import MAX_STEPS
from eval_pipeline.fingerprints import to_json
from eval_pipeline.llm.model import Reply, ToolCall
from eval_pipeline.llm.reading import mapping, mappings
from eval_pipeline.suites.arguments import answers_to
from eval_pipeline.suites.simulation import ToolMock

MOST_ROUNDS = 16
MOCKS_USED = "mocks_used"
"""The entry of a payload with the places of the canned answers that a turn used up."""
TERMINATING = "terminating"
_PLACEHOLDER = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")


@dataclass(frozen=True, slots=True)
class DeclaredTools:
    """The tools that a model may call: their names, and those whose call ends the conversation."""

    names: frozenset[str] = frozenset()
    terminating: frozenset[str] = frozenset()


def declared_tools(tools: Any) -> DeclaredTools:
    """Return the tools of a setting. Raises InputError for a `terminating` that is not true or false."""
    marks = {}
    for number, tool in enumerate(mappings(tools)):
        mark = tool.get(TERMINATING, False)
        if not isinstance(mark, bool):
            place = SourceLocation(field=f"tools[{number}].{TERMINATING}")
            raise InputError(f"expected true or false, got {mark!r}", place)
        marks[str(mapping(tool.get("function")).get("name") or tool.get("name"))] = mark
    return DeclaredTools(frozenset(marks), frozenset(name for name, mark in marks.items() if mark))


def as_sent(tools: Any) -> Any:
    """Return the tools of a setting as a provider knows them."""
    if not isinstance(tools, list) or not any(TERMINATING in tool for tool in mappings(tools)):
        return tools
    return [{key: value for key, value in tool.items() if key != TERMINATING} for tool in tools]


@dataclass(slots=True)
class ToolRounds:
    """The rounds of one turn. `messages` are those to send after the messages of the turn."""

    tools: DeclaredTools
    mocks: Sequence[ToolMock]
    messages: list[dict[str, Any]] = field(default_factory=list)
    _rounds: list[dict[str, Any]] = field(default_factory=list)
    _used: list[int] = field(default_factory=list)
    _ends: bool = False

    def add(self, response: Mapping[str, Any], reply: Reply) -> bool:
        """Take a response in. Returns whether the turn is over: the model called no tool, or a terminating one.

        Raises TargetFailure when the model still calls tools after `MOST_ROUNDS`.
        """
        numbered = enumerate(reply.tool_calls, start=len(self.messages) + 1)
        calls = [call if call.id else call._replace(id=f"call_{number}") for number, call in numbered]
        self._ends = any(call.name in self.tools.terminating for call in calls)
        if not calls or self._ends:
            self._rounds.append({**response})
            return True
        results = [self._result(call) for call in calls]
        self._rounds.append({**response, "results": results})
        if len(self._rounds) >= MOST_ROUNDS:
            problem = f"the model still calls tools after {MOST_ROUNDS} rounds"
            raise TargetFailure(MAX_STEPS, problem, raw=self.raw())
        self.messages += [_spoken(reply.text, calls), *map(_answered, results)]
        return False

    def raw(self, error: str | None = None) -> RawExecution:
        """Return the turn as a raw execution; `error` is why it did not get further."""
        payload: dict[str, Any] = {"rounds": self._rounds}
        if self._used:
            payload[MOCKS_USED] = self._used
        if self._ends:
            payload["metadata"] = {"end": True}
        if error is not None:
            payload["error"] = error
        return RawExecution(format="chat", payload=payload)

    def _result(self, call: ToolCall) -> dict[str, Any]:
        shown = {"id": call.id, "tool": call.name}
        for place, mock in enumerate(self.mocks):
            if (
                mock.tool == call.name
                and place not in self._used
                and answers_to(mock.params, call.arguments, mock.match)
            ):
                self._used.append(place)
                return {**shown, "output": to_json(_filled(mock.response, mapping(call.arguments))).decode()}
        return {
            **shown,
            "output": to_json({"error": self._why_none(call.name)}).decode(),
            "is_error": True,
            "unmatched": True,
        }

    def _why_none(self, tool: str) -> str:
        of_tool = [place for place, mock in enumerate(self.mocks) if mock.tool == tool]
        if not of_tool:
            return f"there is no canned answer of '{tool}'"
        if all(place in self._used for place in of_tool):
            return f"every canned answer of '{tool}' was given"
        return f"no canned answer of '{tool}' has these arguments"


def remaining(mocks: Sequence[ToolMock], raw: RawExecution) -> tuple[ToolMock, ...]:
    """Return the canned answers that a turn left for the next."""
    used = raw.payload.get(MOCKS_USED) or ()
    return tuple(mock for place, mock in enumerate(mocks) if place not in used)


def unknown_mocks(mocks: Sequence[ToolMock], tools: DeclaredTools) -> Iterator[tuple[int, ToolMock]]:
    """Yield the canned answers of tools that are not declared, with their places."""
    yield from ((place, mock) for place, mock in enumerate(mocks) if mock.tool not in tools.names)


def _spoken(text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    wire = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _json_text(call.arguments)}}
        for call in calls
    ]
    return {"role": "assistant", "content": text or None, "tool_calls": wire}


def _answered(result: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": result["id"], "content": result["output"]}


def _json_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else to_json({} if arguments is None else arguments).decode()


def _filled(value: Any, arguments: Mapping[str, Any]) -> Any:
    """Return a canned answer with `{{ name }}` replaced by that argument of the call; an unknown name stays."""
    if isinstance(value, Mapping):
        return {key: _filled(item, arguments) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(item, arguments) for item in value]
    if not isinstance(value, str):
        return value
    whole = _PLACEHOLDER.fullmatch(value)
    if whole is not None:
        return arguments.get(whole[1], value)
    return _PLACEHOLDER.sub(lambda found: _text(arguments.get(found[1], found[0])), value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value).decode()
