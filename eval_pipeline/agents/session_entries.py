"""Entries of a recorded session → events of a report: tool calls are joined with their results by call id.

A CLI's folder turns its records into entries (events, tool calls, tool results); what a tool call does to commands and
files is said here once, by the readers of a table of the CLI's tool names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from eval_pipeline.agents.session_events import file_read_by, file_written_by, read_events, resolved, skill_loaded
from eval_pipeline.agents.shell_reads import shell_reads
from eval_pipeline.reports.jsonl_records import JsonMap, amount, first, mapping, text
from eval_pipeline.reports.model import (
    CommandEvent,
    Event,
    MessageEvent,
    ToolCallEvent,
    ToolResultEvent,
)
from eval_pipeline.reports.moments import iso

PATH_KEYS = ("file_path", "filePath", "path", "absolute_path", "notebook_path")
FOLDER_KEYS = ("workdir", "workingDirectory", "working_directory", "cwd")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """The result of one tool call. `exit_code` is None where the CLI does not report one."""

    id: str | None = None
    output: str = ""
    is_error: bool | None = None
    exit_code: int | None = None
    tool: str | None = None
    duration_ms: float | None = None
    at: str | None = None
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One tool call; `outcome` is its result, once they are joined. `folder` is where it was carried out."""

    id: str | None = None
    tool: str
    raw_arguments: Any = None
    folder: str | None = None
    outcome: ToolOutcome | None = None
    at: str | None = None
    line: int = 0

    @property
    def arguments(self) -> JsonMap:
        return mapping(self.raw_arguments)

    @property
    def ok(self) -> bool | None:
        """Whether the call worked; None without a result."""
        return None if self.outcome is None or self.outcome.is_error is None else not self.outcome.is_error

    @property
    def place(self) -> str | None:
        """The folder of the call: the one that its arguments name, else the session's."""
        named = text(first(self.arguments, *FOLDER_KEYS))
        return resolved(named, self.folder) if named is not None else self.folder


Entry = Event | ToolCall | ToolOutcome
CallReader = Callable[[ToolCall], Iterator[Event]]


@dataclass(frozen=True, slots=True)
class EntryReader:
    """Joins entries and converts them. `readers` are the meanings of tools, by name; `folder` is the session's."""

    readers: Mapping[str, CallReader]
    folder: str | None = None
    names: dict[str, str] = field(default_factory=dict)

    def events(self, entries: Iterable[Entry]) -> Iterator[Event]:
        """Yield the events of the entries in order; of a repeated call or result the first counts."""
        rows = list(entries)
        outcomes: dict[str, ToolOutcome] = {}
        for row in rows:
            if isinstance(row, ToolOutcome) and row.id is not None:
                outcomes.setdefault(row.id, row)
        for row in rows:
            if isinstance(row, ToolCall):
                yield from self._call(row, outcomes)
            elif isinstance(row, ToolOutcome):
                yield self._result(row)
            else:
                yield row

    def _call(self, call: ToolCall, outcomes: Mapping[str, ToolOutcome]) -> Iterator[Event]:
        if call.id is not None:
            self.names.setdefault(call.id, call.tool)
        yield ToolCallEvent(tool=call.tool, call_id=call.id, arguments=call.raw_arguments, at=call.at, line=call.line)
        outcome = call.outcome or (outcomes.get(call.id) if call.id is not None else None)
        read = self.readers.get(call.tool)
        if read is not None:
            yield from read(replace(call, folder=call.folder or self.folder, outcome=outcome))

    def _result(self, outcome: ToolOutcome) -> ToolResultEvent:
        known = self.names.get(outcome.id) if outcome.id is not None else None
        return ToolResultEvent(
            tool=outcome.tool or known,
            call_id=outcome.id,
            output=outcome.output,
            is_error=outcome.is_error,
            duration_ms=outcome.duration_ms,
            at=outcome.at,
            line=outcome.line,
        )


# The meanings of tools


def command_call(call: ToolCall) -> Iterator[Event]:
    """The command of a shell tool, and the files that it reads."""
    command = text(first(call.arguments, "command", "cmd"))
    if command is None:
        return
    outcome = call.outcome
    exit_code = outcome.exit_code if outcome is not None else None
    yield CommandEvent(
        command=command,
        exit_code=exit_code,
        output=outcome.output if outcome is not None else None,
        call_id=call.id,
        at=call.at,
        line=call.line,
    )
    reads = shell_reads(command)
    for path in reads.paths:
        whole = resolved(path, call.place)
        ok = reads.ok(exit_code)
        yield from read_events(whole, folder=call.folder, ok=ok, call_id=call.id, at=call.at, line=call.line)


def file_read(call: ToolCall) -> Iterator[Event]:
    """The file that a tool reads."""
    yield from file_read_by(call, text(first(call.arguments, *PATH_KEYS)), below=call.place)


def file_created(call: ToolCall) -> Iterator[Event]:
    """The file that a tool writes as a whole."""
    yield from file_written_by(call, text(first(call.arguments, *PATH_KEYS)), "create", below=call.place)


def file_edited(call: ToolCall) -> Iterator[Event]:
    """The file that a tool changes."""
    yield from file_written_by(call, text(first(call.arguments, *PATH_KEYS)), "edit", below=call.place)


skill_call: CallReader = skill_loaded


# Messages


def thinking(content: str | None, *, at: str | None, line: int) -> Iterator[MessageEvent]:
    """The event of an assistant's thinking; none without text."""
    if content:
        yield MessageEvent(role="assistant", text=content, phase="thinking", at=at, line=line)


def spoken(content: str | None, *, at: str | None, line: int) -> Iterator[MessageEvent]:
    """The event of an assistant's message, a comment until it turns out to be the answer; none without text."""
    if content:
        yield MessageEvent(role="assistant", text=content, phase="commentary", at=at, line=line)


def with_final_message(events: Iterable[Event], has_answer: bool) -> tuple[Event, ...]:
    """The events; where the session has an answer, the assistant's last message is it."""
    rows = list(events)
    for index in range(len(rows) - 1, -1, -1) if has_answer else ():
        row = rows[index]
        if isinstance(row, MessageEvent) and row.phase == "commentary":
            rows[index] = replace(row, phase="final")
            break
    return tuple(rows)


def moment_of_ms(value: Any) -> str | None:
    """The ISO 8601 time of milliseconds since 1970; None for anything else."""
    milliseconds = amount(value)
    try:
        return iso(datetime.fromtimestamp(milliseconds / 1000, UTC)) if milliseconds is not None else None
    except (ValueError, OverflowError, OSError):
        return None
