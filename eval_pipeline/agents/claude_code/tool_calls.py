"""A tool call of Claude Code with its result → commands, reads, writes and skills."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from eval_pipeline.agents.claude_code.records import message_blocks
from eval_pipeline.agents.session_events import file_read_by, file_written_by, skill_loaded
from eval_pipeline.reports.jsonl_records import JsonMap, Record, first, listing, mapping, shown, text
from eval_pipeline.reports.model import CommandEvent, Event

_EXIT_CODE = re.compile(r"Exit code (\d{1,5})(?:\n|\Z)")
_NOT_RUN = "<tool_use_error>"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of one tool call."""

    output: str
    is_error: bool
    detail: JsonMap
    ran: bool


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call, its result if any, and its position."""

    id: str | None
    arguments: JsonMap
    result: ToolResult | None
    folder: str | None
    at: str | None
    line: int

    @property
    def ok(self) -> bool | None:
        return None if self.result is None else not self.result.is_error


def tool_results(records: Iterable[Record]) -> dict[str, ToolResult]:
    """The results of tool calls by call id; of a repeated one the first."""
    results: dict[str, ToolResult] = {}
    for record, block in message_blocks(records):
        call_id = text(block.get("tool_use_id"))
        if call_id is not None:
            results.setdefault(call_id, _tool_result_of(record, block))
    return results


def _tool_result_of(record: Record, block: JsonMap) -> ToolResult:
    output = shown(block.get("content"))
    about = [mapping(entry) for entry in listing(record.value.get("tool_result_meta"))]
    refused = record.value.get("toolDenialKind") or any(
        entry.get("non_execution_kind") for entry in about if entry.get("id") == block.get("tool_use_id")
    )
    return ToolResult(
        output=output,
        is_error=block.get("is_error") is True,
        detail=mapping(first(record.value, "tool_use_result", "toolUseResult")),
        ran=not refused and not output.startswith(_NOT_RUN),
    )


def _command(call: ToolCall) -> Iterator[Event]:
    command = text(call.arguments.get("command"))
    if command is not None:
        exit_code, output = _finished(call)
        yield CommandEvent(
            command=command, exit_code=exit_code, output=output, call_id=call.id, at=call.at, line=call.line
        )


def _finished(call: ToolCall) -> tuple[int | None, str | None]:
    """Exit code and output of a command; the CLI only names an exit code in the text of an error."""
    result = call.result
    if result is None or not result.ran:
        return None, None
    if call.arguments.get("run_in_background") is True or result.detail.get("backgroundTaskId"):
        return None, None
    match = _EXIT_CODE.match(result.output) if result.is_error else None
    if match is not None:
        return int(match[1]), result.output[match.end() :]
    unknown = result.is_error or result.detail.get("interrupted") is True
    return None if unknown else 0, result.output


def _file_read(call: ToolCall) -> Iterator[Event]:
    yield from file_read_by(call, _path(call), below=call.folder)


def _file_write(call: ToolCall) -> Iterator[Event]:
    is_new = call.result is None or call.result.detail.get("type") != "update"
    yield from file_written_by(call, _path(call), "create" if is_new else "edit", below=call.folder)


def _file_edit(call: ToolCall) -> Iterator[Event]:
    yield from file_written_by(call, _path(call), "edit", below=call.folder)


def _path(call: ToolCall) -> str | None:
    return text(first(call.arguments, "file_path", "notebook_path", "path"))


CALL_EVENTS: dict[str, Callable[[ToolCall], Iterator[Event]]] = {
    "bash": _command,
    "powershell": _command,
    "read": _file_read,
    "notebookread": _file_read,
    "write": _file_write,
    "edit": _file_edit,
    "multiedit": _file_edit,
    "notebookedit": _file_edit,
    "skill": skill_loaded,
}
