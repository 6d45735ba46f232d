"""Records of Claude Code → events of a report, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from eval_pipeline.agents.claude_code.ending import Ending
from eval_pipeline.agents.claude_code.records import (
    SYNTHETIC,
    THINKING,
    content_blocks,
    error_status,
    first_text,
    is_api_error,
    is_by_main_model,
    message_blocks,
    message_text,
    status_in_text,
    time_of,
)
from eval_pipeline.agents.claude_code.tool_calls import CALL_EVENTS, ToolCall, ToolResult, tool_results
from eval_pipeline.reports.jsonl_records import JsonMap, Record, amount, count, first, mapping, shown, text
from eval_pipeline.reports.model import ErrorEvent, Event, MessageEvent, RetryEvent, ToolCallEvent, ToolResultEvent
from eval_pipeline.reports.normalize import RawSession

_INJECTED = ("[Request interrupted", "<system-reminder>", "<command-", "<local-command-", "Caveat: ")
_QUIET_RECORDS = frozenset({
    "stream_event", "rate_limit_event", "tool_progress", "attachment", "api-request", "api-request-blob",
    "api-request-shape", "tools-used", "cost-state", "queue-operation", "last-prompt", "atis-latch", "summary",
    "file-history-snapshot",
})  # fmt: skip
_QUIET_SUBTYPES = frozenset({
    None, "init", "thinking_tokens", "status", "ui_invalidate", "permission_denied", "task_started", "task_progress",
    "task_notification", "compact_boundary", "hook_started", "hook_progress", "hook_response", "turn_duration",
    "local_command", "informational",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class SessionContext:
    """Facts of other records for the conversion of one record: results and tool names by call id, folder, ending."""

    folder: str | None
    end: Ending
    results: Mapping[str, ToolResult]
    tools: Mapping[str, str]
    final_line: int | None
    error_is_shown: bool
    unknown: Counter[str] = field(default_factory=Counter)


def session_context(
    records: Sequence[Record], everything: Sequence[Record], end: Ending, material: RawSession
) -> SessionContext:
    """The context of `records`, which are converted; `everything` are all records that were printed or kept."""
    return SessionContext(
        folder=first_text(everything, "cwd") or material.folder,
        end=end,
        results=tool_results(records),
        tools={str(block["id"]): str(block.get("name")) for _, block in message_blocks(records) if "id" in block},
        final_line=_final_line(records) if end.final_output is not None else None,
        error_is_shown=any(is_api_error(record) and message_text(record) == end.error for record in records),
    )


def _final_line(rows: Iterable[Record]) -> int | None:
    """The line of the main model's last text."""
    lines = [record.line for record in rows if message_text(record) and is_by_main_model(record)]
    return lines[-1] if lines else None


def events_of(records: Iterable[Record], session: SessionContext) -> Iterator[Event]:
    """The events of the records; unknown record types are counted in `session.unknown`."""
    for record in records:
        convert = _RECORDS.get(record.type)
        if convert is not None:
            yield from convert(record, session)
        elif record.type not in _QUIET_RECORDS:
            session.unknown[record.type or "no type"] += 1


def _system(record: Record, session: SessionContext) -> Iterator[Event]:
    value, subtype = record.value, record.value.get("subtype")
    if subtype in ("api_retry", "api_error"):
        error = value.get("error")
        yield RetryEvent(
            attempt=count(first(value, "attempt", "retryAttempt")),
            limit=count(first(value, "max_retries", "maxRetries")),
            delay_ms=amount(first(value, "retry_delay_ms", "retryInMs")),
            status=error_status(first(value, "error_status") or mapping(error).get("status")),
            message=text(error) or text(mapping(error).get("formatted")) or text(mapping(error).get("message")),
            at=time_of(record),
            line=record.line,
        )
    elif not isinstance(subtype, str | None) or subtype not in _QUIET_SUBTYPES:
        session.unknown[f"system/{subtype}"] += 1


def _assistant(record: Record, session: SessionContext) -> Iterator[Event]:
    if is_api_error(record):
        content = message_text(record)
        status = error_status(first(record.value, "api_error_status", "apiErrorStatus")) or status_in_text(content)
        yield ErrorEvent(
            message=content, status=status, terminal=content == session.end.error, at=time_of(record), line=record.line
        )
        return
    for block in content_blocks(record):
        kind = text(block.get("type")) or "no type"
        convert = _BLOCKS.get(kind)
        if convert is not None:
            yield from convert(block, record, session)
        elif text(block.get("tool_use_id")) is not None:
            yield from _tool_result(block, record, session)
        elif kind not in THINKING:
            session.unknown[f"assistant/{kind}"] += 1


def _text_block(block: JsonMap, record: Record, session: SessionContext) -> Iterator[Event]:
    content = text(block.get("text"))
    if content is not None:
        yield MessageEvent(
            role="assistant",
            text=content,
            phase="final" if record.line == session.final_line else "commentary",
            injected=mapping(record.value.get("message")).get("model") == SYNTHETIC,
            at=time_of(record),
            line=record.line,
        )


def _thinking_block(block: JsonMap, record: Record, session: SessionContext) -> Iterator[Event]:
    content = text(block.get("thinking"))
    if content is not None:
        yield MessageEvent(role="assistant", text=content, phase="thinking", at=time_of(record), line=record.line)


def _tool_use_block(block: JsonMap, record: Record, session: SessionContext) -> Iterator[Event]:
    call_id, tool, at = text(block.get("id")), text(block.get("name")) or "", time_of(record)
    yield ToolCallEvent(tool=tool, call_id=call_id, arguments=block.get("input"), at=at, line=record.line)
    convert = CALL_EVENTS.get(tool.lower())
    if convert is not None:
        result = session.results.get(call_id) if call_id is not None else None
        yield from convert(ToolCall(call_id, mapping(block.get("input")), result, session.folder, at, record.line))


def _user(record: Record, session: SessionContext) -> Iterator[Event]:
    """Yield tool results and texts in the user's role; texts that the CLI added are marked injected."""
    flags = ("isSynthetic", "isMeta", "isCompactSummary", "parent_tool_use_id", "isSidechain")
    by_cli = any(record.value.get(flag) for flag in flags)
    for block in content_blocks(record):
        content = text(block.get("text"))
        if block.get("type") == "tool_result":
            yield from _tool_result(block, record, session)
        elif content is not None:
            injected = by_cli or content.startswith(_INJECTED)
            yield MessageEvent(role="user", text=content, injected=injected, at=time_of(record), line=record.line)
        elif block.get("type") not in ("text", "image", "document"):
            session.unknown[f"user/{block.get('type')}"] += 1


def _tool_result(block: JsonMap, record: Record, session: SessionContext) -> Iterator[Event]:
    call_id = text(block.get("tool_use_id"))
    yield ToolResultEvent(
        tool=session.tools.get(call_id) if call_id is not None else None,
        call_id=call_id,
        output=shown(block.get("content")),
        is_error=block.get("is_error") is True,
        at=time_of(record),
        line=record.line,
    )


def _result_record(record: Record, session: SessionContext) -> Iterator[Event]:
    end = session.end
    if record.value is end.result and end.error is not None and not session.error_is_shown:
        status = error_status(end.result.get("api_error_status"))
        yield ErrorEvent(message=end.error, status=status, terminal=True, at=time_of(record), line=record.line)


_RECORDS: dict[str, Callable[[Record, SessionContext], Iterator[Event]]] = {
    "system": _system,
    "assistant": _assistant,
    "user": _user,
    "result": _result_record,
}
_BLOCKS: dict[str, Callable[[JsonMap, Record, SessionContext], Iterator[Event]]] = {
    "text": _text_block,
    "thinking": _thinking_block,
    "tool_use": _tool_use_block,
    "server_tool_use": _tool_use_block,
    "mcp_tool_use": _tool_use_block,
}
