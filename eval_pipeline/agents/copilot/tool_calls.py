"""A tool call of Copilot with its result → commands, reads, writes and skills."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from eval_pipeline.agents.session_events import How, file_read_by, file_written_by, skill_loaded
from eval_pipeline.reports.jsonl_records import JsonMap, count, listing, mapping, shown, text
from eval_pipeline.reports.model import CommandEvent, Event

_HOW: Mapping[str, How] = {"create": "create", "edit": "edit", "delete": "delete"}
_SHELL_END = re.compile(r"\n?<(?:shellId: \S+ completed|exited) with exit code (\d{1,5})>\s*\Z")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call, its result if any, and its position."""

    id: str | None
    arguments: JsonMap
    result: JsonMap
    folder: str | None
    at: str | None
    line: int

    @property
    def ok(self) -> bool | None:
        return None if not self.result else not is_error_result(self.result)


def tool_name(data: JsonMap) -> str:
    """The name of the tool that a call names; `mcp:server/tool` for a tool of an MCP server."""
    server, tool = text(data.get("mcpServerName")), text(data.get("mcpToolName"))
    return f"mcp:{server}/{tool}" if server and tool else text(data.get("toolName")) or ""


def is_error_result(result: JsonMap) -> bool:
    """Whether a call failed; a command that fails is reported as a success with an exit code."""
    return result.get("success") is False or bool(_exit_code(result))


def _exit_code(result: JsonMap) -> int | None:
    reported = count(mapping(result.get("shellExecution")).get("exitCode"))
    match = _SHELL_END.search(output_of(result))
    return reported if reported is not None or match is None else int(match[1])


def output_of(result: JsonMap) -> str:
    """The text of a result; of an error its message. `detailedContent` is for people (a made-up diff) and left out."""
    value = result.get("result")
    content = mapping(value).get("content", value if isinstance(value, str) else None)
    return shown(content if content is not None else mapping(result.get("error")).get("message"))


def _command(call: ToolCall) -> Iterator[Event]:
    command = text(call.arguments.get("command"))
    if command is not None:
        exit_code = _exit_code(call.result)
        output = _SHELL_END.sub("", output_of(call.result)) if exit_code is not None else None
        yield CommandEvent(
            command=command, exit_code=exit_code, output=output, call_id=call.id, at=call.at, line=call.line
        )


def _file_read(call: ToolCall) -> Iterator[Event]:
    yield from file_read_by(call, text(call.arguments.get("path")), below=call.folder)


def _created(call: ToolCall) -> Iterator[Event]:
    yield from file_changes(call, "create")


def file_changes(call: ToolCall, how: How = "edit") -> Iterator[Event]:
    """The files that a call changed: as its result lists them, else the one that it names."""
    listed = [mapping(edit) for edit in listing(call.result.get("fileEdits"))]
    for edit in listed or [{"path": call.arguments.get("path"), "kind": how}]:
        kind = _HOW.get(str(edit.get("kind")), "edit")
        yield from file_written_by(call, text(edit.get("path")) or None, kind, below=call.folder)


CALL_EVENTS: dict[str, Callable[[ToolCall], Iterator[Event]]] = {
    "bash": _command,
    "powershell": _command,
    "view": _file_read,
    "create": _created,
    "edit": file_changes,
    "skill": skill_loaded,
}
