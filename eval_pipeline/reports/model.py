"""The session report: the normalized record of one execution, whatever kind of runner it came from.

Facts that a source does not give are None, never 0 or empty. Events keep the order in which they were first seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from eval_pipeline.reports.moments import later, milliseconds_between, parse_time
from eval_pipeline.reports.tool_kinds import ToolKind, usual_kind

JsonMap = Mapping[str, Any]
Strength = Literal["explicit", "strong", "medium"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEvent:
    """Text that a role said. `phase` tells an assistant's thinking and commentary from its final words; `injected`
    marks text that the agent's own harness put into the user's role."""

    kind: Literal["message"] = "message"
    role: str
    text: str
    phase: Literal["thinking", "commentary", "final"] | None = None
    injected: bool = False
    at: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEvent:
    """A call of a tool by the model. `arguments` is any JSON value.

    `tool_kind` is what the tool does, where the source of its name is known; None leaves it to the name's usual
    meaning.
    """

    kind: Literal["tool_call"] = "tool_call"
    tool: str
    call_id: str | None = None
    arguments: Any = None
    at: str | None = None
    line: int | None = None
    tool_kind: ToolKind | None = None

    @property
    def does(self) -> ToolKind:
        """What the tool does."""
        return self.tool_kind or usual_kind(self.tool)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultEvent:
    """What a tool answered. `is_error` is None when the source does not say."""

    kind: Literal["tool_result"] = "tool_result"
    tool: str | None = None
    call_id: str | None = None
    output: str = ""
    is_error: bool | None = None
    duration_ms: float | None = None
    at: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEvent:
    """A shell command. `exit_code` and `output` are None when it never finished or the source does not say."""

    kind: Literal["command"] = "command"
    command: str
    exit_code: int | None = None
    output: str | None = None
    call_id: str | None = None
    at: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReadEvent:
    """A file that was asked to be read (absolute path); `ok` is None when it is not known whether that worked."""

    kind: Literal["file_read"] = "file_read"
    path: str
    ok: bool | None = None
    call_id: str | None = None
    at: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWriteEvent:
    """A file that was asked to be created, changed or deleted (absolute path)."""

    kind: Literal["file_write"] = "file_write"
    path: str
    how: Literal["create", "edit", "delete"] = "edit"
    ok: bool | None = None
    call_id: str | None = None
    at: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillEvent:
    """A skill was loaded, or tried: `explicit` by a skill tool, `strong` by reading its SKILL.md."""

    kind: Literal["skill"] = "skill"
    skill: str
    strength: Strength = "explicit"
    ok: bool | None = None
    call_id: str | None = None
    at: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryEvent:
    """The agent's own retry of a model call."""

    kind: Literal["retry"] = "retry"
    attempt: int | None = None
    limit: int | None = None
    delay_ms: float | None = None
    status: int | None = None
    message: str | None = None
    at: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorEvent:
    """An error that the source reports; a terminal one ended the session."""

    kind: Literal["error"] = "error"
    message: str
    status: int | None = None
    terminal: bool = False
    at: str | None = None
    line: int | None = None


Event = (
    MessageEvent
    | ToolCallEvent
    | ToolResultEvent
    | CommandEvent
    | FileReadEvent
    | FileWriteEvent
    | SkillEvent
    | RetryEvent
    | ErrorEvent
)
EVENT_KINDS: dict[str, type[Event]] = {
    "message": MessageEvent,
    "tool_call": ToolCallEvent,
    "tool_result": ToolResultEvent,
    "command": CommandEvent,
    "file_read": FileReadEvent,
    "file_write": FileWriteEvent,
    "skill": SkillEvent,
    "retry": RetryEvent,
    "error": ErrorEvent,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one session, as the provider counted them; None where it did not.

    `input_tokens` is gross: cache reads and cache writes are part of it. `output_tokens` includes reasoning. The
    parts (`cached_input_tokens`, `cache_write_tokens`, `reasoning_tokens`) are never added on top. `cost_source` says
    whether money was `reported` by the target or `computed` from the runner's prices.
    """

    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    cost_source: Literal["reported", "computed"] | None = None

    @property
    def total_tokens(self) -> int | None:
        """Gross input plus output; None unless both are known."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """A tool call with the result that belongs to it; `result` is None when the session shows none."""

    call: ToolCallEvent
    result: ToolResultEvent | None = None

    @property
    def tool(self) -> str:
        """Name of the tool, as the target calls it."""
        return self.call.tool

    @property
    def kind(self) -> ToolKind:
        """What the tool does, whatever it is called."""
        return self.call.does

    @property
    def duration_ms(self) -> float | None:
        """Duration that the result reports, else the time from call to result; None when neither is known."""
        if self.result is None:
            return None
        if self.result.duration_ms is not None:
            return self.result.duration_ms
        return milliseconds_between(self.call.at, self.result.at)

    @property
    def is_error(self) -> bool | None:
        """Whether the tool failed; None when the session does not report it."""
        return self.result.is_error if self.result is not None else None

    @property
    def started_at(self) -> datetime | None:
        """Time of the call (UTC)."""
        return parse_time(self.call.at)

    @property
    def ended_at(self) -> datetime | None:
        """Time of the call plus the duration (UTC), else the time of the result."""
        if self.started_at is not None and self.duration_ms is not None:
            return later(self.started_at, self.duration_ms)
        return parse_time(self.result.at) if self.result is not None else None


def pair_tool_uses(events: Sequence[Event]) -> tuple[ToolUse, ...]:
    """Tool calls in order, each with its result.

    A result belongs to the latest open call of its call id. A result without an id belongs to the latest open call of
    its tool, a result without tool and id to the latest open call. Other results are left out.
    """
    calls: list[ToolCallEvent] = []
    results: dict[int, ToolResultEvent] = {}
    open_: list[int] = []
    for event in events:
        if isinstance(event, ToolCallEvent):
            open_.append(len(calls))
            calls.append(event)
        elif isinstance(event, ToolResultEvent):
            index = next((index for index in reversed(open_) if _belongs_to(event, calls[index])), None)
            if index is not None:
                results[index] = event
                open_.remove(index)
    return tuple(ToolUse(call=call, result=results.get(index)) for index, call in enumerate(calls))


def _belongs_to(result: ToolResultEvent, call: ToolCallEvent) -> bool:
    if result.call_id is not None:
        return result.call_id == call.call_id
    return result.tool is None or result.tool == call.tool


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedSkill:
    """A skill that the session used, with the strongest sign of it and the evidence in words."""

    skill: str
    confidence: Strength
    evidence: tuple[str, ...]


class _Derived:
    """Values that a report computes once, when they are first read. They are no fields: not compared, not stored."""

    __slots__ = ("_tool_uses",)
    _tool_uses: tuple[ToolUse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReport(_Derived):
    """One execution, normalized.

    `final_output` is the target's last words to the user, None when it never got there. `failure_class` and `error`
    tell why a session that ran did not complete (an agent that ended on an API error), None when it did.
    `file_changes` is the unified diff of what the session changed in its workspace, None where it had none.
    `unknown_events` counts record types that the normalizer does not know; `unparsed_lines` those it could not read.
    """

    execution_id: str
    final_output: str | None = None
    prompt: str | None = None
    session_id: str | None = None
    model: str | None = None
    agent_version: str | None = None
    exit_code: int | None = None
    usage: Usage = field(default_factory=Usage)
    events: tuple[Event, ...] = ()
    skills: tuple[DetectedSkill, ...] = ()
    failure_class: str | None = None
    error: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    duration_ms: float | None = None
    ttft_ms: float | None = None
    model_calls: int | None = None
    unknown_events: JsonMap = field(default_factory=dict)
    unparsed_lines: int = 0
    file_changes: str | None = None

    @property
    def tool_uses(self) -> tuple[ToolUse, ...]:
        """Tool calls in order, each paired with its result."""
        try:
            return self._tool_uses
        except AttributeError:
            object.__setattr__(self, "_tool_uses", pair_tool_uses(self.events))
            return self._tool_uses

    @property
    def file_reads(self) -> tuple[str, ...]:
        """Paths asked to be read, in order, each once."""
        return tuple(dict.fromkeys(event.path for event in self.events if isinstance(event, FileReadEvent)))

    @property
    def commands(self) -> tuple[str, ...]:
        """Shell commands, in order."""
        return tuple(event.command for event in self.events if isinstance(event, CommandEvent))

    @property
    def tool_calls(self) -> tuple[ToolCallEvent, ...]:
        """Tool calls, in order."""
        return tuple(event for event in self.events if isinstance(event, ToolCallEvent))

    @property
    def thinking_chars(self) -> int:
        """Characters of thinking that the session shows."""
        return sum(
            len(event.text) for event in self.events if isinstance(event, MessageEvent) and event.phase == "thinking"
        )


def event_from_json(value: JsonMap) -> Event:
    """An event from its JSON form (the `kind` tells which). Raises KeyError or TypeError for what is none."""
    return EVENT_KINDS[value["kind"]](**value)
