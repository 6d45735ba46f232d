"""Events of a session, one class per kind. Values only.

Facts that a source does not give are None, never 0 or empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from eval_pipeline.reports.tool_kinds import ToolKind, usual_kind

JsonMap = Mapping[str, Any]
Strength = Literal["explicit", "strong", "medium", "weak"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEvent:
    """A message of a role. `phase` distinguishes an assistant's thinking, commentary and final message; `injected`
    marks text that the agent's own harness put into the user's role.

    `files` are those that it consists of beside its text: `path`, `media_type`, and `folder`, where a relative path
    begins, unless that is the workspace.
    """

    kind: Literal["message"] = "message"
    role: str
    text: str
    phase: Literal["thinking", "commentary", "final"] | None = None
    injected: bool = False
    files: tuple[JsonMap, ...] = ()
    at: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEvent:
    """A call of a tool by the model. `arguments` is any JSON value.

    `tool_kind` is the kind of the tool if the agent CLI is known; None means the usual kind of its name.
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
    """The result of a tool call. `is_error` is None when the source does not report it. `unmatched` is whether the case
    has no canned answer of this call; `state` is the state of the case after it, None where it is unchanged. `value` is
    an output that is no text, as the source has it; `output` is then its JSON."""

    kind: Literal["tool_result"] = "tool_result"
    tool: str | None = None
    call_id: str | None = None
    output: str = ""
    value: Any = None
    is_error: bool | None = None
    unmatched: bool | None = None
    state: JsonMap | None = None
    duration_ms: float | None = None
    at: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEvent:
    """A shell command. `exit_code` and `output` are None when it did not finish or the source does not report them."""

    kind: Literal["command"] = "command"
    command: str
    exit_code: int | None = None
    output: str | None = None
    call_id: str | None = None
    at: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReadEvent:
    """A request to read a file (absolute path); `ok` is None when its success is unknown."""

    kind: Literal["file_read"] = "file_read"
    path: str
    ok: bool | None = None
    call_id: str | None = None
    at: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWriteEvent:
    """A request to create, edit or delete a file (absolute path); `ok` is None when its success is unknown."""

    kind: Literal["file_write"] = "file_write"
    path: str
    how: Literal["create", "edit", "delete"] = "edit"
    ok: bool | None = None
    call_id: str | None = None
    at: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillEvent:
    """An attempt to load a skill: `explicit` by a skill tool, `strong` by reading its SKILL.md."""

    kind: Literal["skill"] = "skill"
    skill: str
    strength: Strength = "explicit"
    ok: bool | None = None
    call_id: str | None = None
    at: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryEvent:
    """A retry of a model call by the agent itself."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedScoreEvent:
    """A score that another system gave the session: `value` is its number, `raw` what it wrote where that is none."""

    kind: Literal["recorded_score"] = "recorded_score"
    name: str
    value: float | None = None
    raw: Any = None
    message: str | None = None
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
    | RecordedScoreEvent
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
    "recorded_score": RecordedScoreEvent,
}


def is_spoken(event: Event, *roles: str) -> TypeGuard[MessageEvent]:
    """Return whether an event is a message, neither thinking nor injected, of one of these roles (default: any)."""
    if not isinstance(event, MessageEvent) or event.injected or event.phase == "thinking":
        return False
    return not roles or event.role in roles


def event_from_json(value: JsonMap) -> Event:
    """Return an event from its JSON form (`kind` is its class). Raises KeyError or TypeError for anything else."""
    if value.get("files") is not None:
        value = {**value, "files": tuple(value["files"])}
    return EVENT_KINDS[value["kind"]](**value)
