"""Records of Copilot → events of a report, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from eval_pipeline.agents.copilot.ending import Ending
from eval_pipeline.agents.copilot.records import data_of, error_status, is_by_main_agent, time_of
from eval_pipeline.agents.copilot.tool_calls import (
    CALL_EVENTS,
    ToolCall,
    file_changes,
    is_error_result,
    output_of,
    tool_name,
)
from eval_pipeline.reports.jsonl_records import JsonMap, Record, count, mapping, text
from eval_pipeline.reports.model import ErrorEvent, Event, MessageEvent, RetryEvent, ToolCallEvent, ToolResultEvent
from eval_pipeline.reports.normalize import RawSession

_ONLY_PRINTED = frozenset({"model.call_failure", "assistant.turn_retry"})
_QUIET_EVENTS = frozenset({
    "assistant.idle", "assistant.intent", "assistant.message_delta", "assistant.message_start", "assistant.reasoning",
    "assistant.reasoning_delta", "assistant.tool_call_delta", "assistant.turn_end", "assistant.turn_start",
    "assistant.usage", "agent.interrupted", "hook.end", "hook.start", "model.call_final_result", "model.call_finished",
    "model.call_start", "permission.completed", "permission.requested", "result", "session.background_tasks_changed",
    "session.compaction_complete", "session.compaction_start", "session.context_changed", "session.idle",
    "session.info", "session.mcp_servers_loaded", "session.mode_changed", "session.model_change",
    "session.plan_changed", "session.resume", "session.shutdown", "session.skills_loaded", "session.start",
    "session.task_complete", "session.title_changed", "session.tools_updated", "session.truncation",
    "session.usage_info", "session.usage_record", "session.warning", "session.workspace_file_changed",
    "skill.context_delivered_ref", "skill.invoked", "subagent.completed", "subagent.failed", "subagent.selected",
    "subagent.started", "system.message", "system.notification", "tool.execution_partial_result",
    "tool.execution_progress", "tool.shell_output", "tool.user_requested", "abort",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class SessionContext:
    """Facts of other records for the conversion of one record: results and tool names by call id, folder, ending."""

    folder: str | None
    end: Ending
    results: Mapping[str, JsonMap]
    tools: Mapping[str, str]
    unknown: Counter[str] = field(default_factory=Counter)


def session_context(
    records: Sequence[Record], everything: Sequence[Record], end: Ending, material: RawSession
) -> SessionContext:
    """The context of `records`, which are converted; `everything` are all records that were printed or kept."""
    begins = [row for row in everything if row.type in ("session.start", "session.resume")]
    folder = next((cwd for row in begins if (cwd := text(mapping(data_of(row).get("context")).get("cwd")))), None)
    by_id = [(text(data_of(row).get("toolCallId")), row) for row in records]
    return SessionContext(
        folder=folder or material.folder,
        end=end,
        results={id_: data_of(row) for id_, row in by_id if id_ and row.type == "tool.execution_complete"},
        tools={id_: tool_name(data_of(row)) for id_, row in by_id if id_ and row.type == "tool.execution_start"},
    )


def events_of(records: Sequence[Record], printed: Sequence[Record], session: SessionContext) -> Iterator[Event]:
    """The events of the records. Retries are only printed: where the log is read, they come first."""
    if records is not printed:
        yield from _retries(printed)
    retries = {retry.line: retry for retry in _retries(records)}
    for record in records:
        convert = _EVENTS.get(record.type)
        if convert is not None:
            yield from convert(record, session)
        elif record.line in retries:
            yield retries[record.line]
        elif record.type not in _QUIET_EVENTS and record.type not in _ONLY_PRINTED:
            session.unknown[record.type or "no type"] += 1
    end = session.end
    if end.error is not None and end.error_line is None:
        yield ErrorEvent(message=end.error, terminal=True)


def _retries(rows: Iterable[Record]) -> Iterator[RetryEvent]:
    """Yield one event per repeated model call, with the status of the failed call before it."""
    failed: JsonMap = {}
    for record in rows:
        if record.type == "model.call_failure":
            failed = data_of(record)
        elif record.type == "assistant.turn_retry":
            attempt = count(failed.get("retryAttempt"))
            yield RetryEvent(
                attempt=attempt + 1 if attempt is not None else None,
                status=error_status(failed),
                message=text(data_of(record).get("reason")),
                at=time_of(record),
                line=record.line,
            )


def _user(record: Record, session: SessionContext) -> Iterator[Event]:
    """A message of the user. The CLI itself adds text with a source (`skill-…`, `system`)."""
    data = data_of(record)
    content, source = text(data.get("content")), text(data.get("source"))
    injected = (source is not None and source != "user") or not is_by_main_agent(record)
    if content is not None:
        yield MessageEvent(role="user", text=content, injected=injected, at=time_of(record), line=record.line)


def _assistant(record: Record, session: SessionContext) -> Iterator[Event]:
    data, at = data_of(record), time_of(record)
    thinking, content = text(data.get("reasoningText")), text(data.get("content"))
    if thinking is not None:
        yield MessageEvent(role="assistant", text=thinking, phase="thinking", at=at, line=record.line)
    if content is not None:
        last = record.line == session.end.answer_line
        yield MessageEvent(
            role="assistant", text=content, phase="final" if last else "commentary", at=at, line=record.line
        )


def _error(record: Record, session: SessionContext) -> Iterator[Event]:
    data = data_of(record)
    message = text(data.get("message")) or text(data.get("errorType")) or "error"
    yield ErrorEvent(
        message=message,
        status=error_status(data, message),
        terminal=record.line == session.end.error_line,
        at=time_of(record),
        line=record.line,
    )


def _tool_start(record: Record, session: SessionContext) -> Iterator[Event]:
    data, at = data_of(record), time_of(record)
    call_id, tool = text(data.get("toolCallId")), tool_name(data)
    yield ToolCallEvent(tool=tool, call_id=call_id, arguments=data.get("arguments"), at=at, line=record.line)
    result = session.results.get(call_id, {}) if call_id is not None else {}
    call = ToolCall(call_id, mapping(data.get("arguments")), result, session.folder, at, record.line)
    convert = CALL_EVENTS.get(tool.lower())
    if convert is not None:
        yield from convert(call)
    elif result.get("fileEdits"):
        yield from file_changes(call)


def _tool_complete(record: Record, session: SessionContext) -> Iterator[Event]:
    data = data_of(record)
    call_id = text(data.get("toolCallId"))
    yield ToolResultEvent(
        tool=session.tools.get(call_id) if call_id is not None else None,
        call_id=call_id,
        output=output_of(data),
        is_error=is_error_result(data),
        at=time_of(record),
        line=record.line,
    )


_EVENTS: dict[str, Callable[[Record, SessionContext], Iterator[Event]]] = {
    "user.message": _user,
    "assistant.message": _assistant,
    "tool.execution_start": _tool_start,
    "tool.execution_complete": _tool_complete,
    "session.error": _error,
}
