"""A thread of Codex → events of a report, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from eval_pipeline.agents.codex.ending import Ending
from eval_pipeline.agents.codex.steps import status_in
from eval_pipeline.agents.codex.thread import Answer, Call, Thread
from eval_pipeline.agents.session_events import read_events, resolved
from eval_pipeline.agents.shell_reads import shell_reads
from eval_pipeline.reports.model import (
    CommandEvent,
    ErrorEvent,
    Event,
    FileWriteEvent,
    ToolCallEvent,
    ToolResultEvent,
)


def events_of(thread: Thread, end: Ending) -> Iterator[Event]:
    """Yield the events of a thread with this ending; a terminal error comes last."""
    final = thread.final_message if end.final_output is not None else None
    for entry in thread.entries:
        if isinstance(entry, Call):
            yield from _call_events(entry)
        elif isinstance(entry, Answer):
            yield _result(entry)
        elif final is not None and entry is final:
            yield replace(final, phase="final")
        elif not (isinstance(entry, ErrorEvent) and entry.message == end.error):
            yield entry
    if end.error is not None and (thread.ending is not None or thread.error is not None):
        yield ErrorEvent(message=end.error, status=status_in(end.error), terminal=True)


def _call_events(call: Call) -> Iterator[Event]:
    if call.tool is not None:
        yield ToolCallEvent(tool=call.tool, call_id=call.id, arguments=call.arguments, at=call.at, line=call.line)
    if call.command is not None:
        yield from _command_events(call, call.command)
    ok = None if call.is_error is None else not call.is_error
    for path, how in call.writes.items():
        yield FileWriteEvent(path=path, how=how, ok=ok, call_id=call.id, at=call.at, line=call.line)


def _command_events(call: Call, command: str) -> Iterator[Event]:
    yield CommandEvent(
        command=command, exit_code=call.exit_code, output=call.output, call_id=call.id, at=call.at, line=call.line
    )
    reads = shell_reads(command)
    ok = reads.ok(call.exit_code)
    for path in reads.paths:
        whole = resolved(path, call.folder)
        yield from read_events(whole, folder=call.folder, ok=ok, call_id=call.id, at=call.at, line=call.line)


def _result(answer: Answer) -> ToolResultEvent:
    call = answer.call
    return ToolResultEvent(
        tool=call.tool,
        call_id=call.id,
        output=answer.output,
        is_error=call.is_error,
        duration_ms=call.duration_ms,
        at=answer.at,
        line=answer.line,
    )
