"""`pi`: what pi prints with `--mode json`, and the log of its session (`session`).

Only finished messages are read (`message_end`; `message` in a log): the updates, ends of turns and ends of the agent
repeat them. pi's exit code is 0 whatever happened, and after a retry the agent begins again, so the ending is that of
the last message. Sources: recordings of 0.73.1; the log by its public description.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from eval_pipeline.agents.session_endings import (
    Ending,
    ReadSession,
    cut_short,
    failed,
    session_report,
    status_in_text,
    summed,
    with_answer,
)
from eval_pipeline.agents.session_entries import (
    CallReader,
    Entry,
    ToolCall,
    ToolOutcome,
    command_call,
    file_created,
    file_edited,
    file_read,
    moment_of_ms,
    spoken,
    thinking,
)
from eval_pipeline.failures import CANCELLED, TRUNCATED
from eval_pipeline.reports.jsonl_records import (
    JsonMap,
    Record,
    amount,
    count,
    listing,
    mapping,
    moment,
    shown,
    text,
)
from eval_pipeline.reports.model import ErrorEvent, MessageEvent, RetryEvent, SessionReport, Usage
from eval_pipeline.reports.normalize import RawSession

READERS: Mapping[str, CallReader] = {
    "bash": command_call,
    "edit": file_edited,
    "read": file_read,
    "write": file_created,
}
_EXIT_CODE = re.compile(r"\s*Command exited with code (\d{1,5})\s*\Z")
_MESSAGES = ("message_end", "message")
_QUIET = frozenset({
    "session", "agent_start", "agent_end", "turn_start", "turn_end", "message_start", "message_update",
    "tool_execution_start", "tool_execution_update", "tool_execution_end", "auto_retry_end", "compaction_start",
    "compaction_end", "compaction", "model_change", "thinking_level_change", "session_info", "label", "custom",
    "branch_summary", "queue_update",
})  # fmt: skip

ESSENTIAL = ("message_end",)
"""Records that are read even from the middle of a large output: sums and the ending need them."""


class PiNormalizer:
    """One run of pi: its standard output, else the log of its session (`session`)."""

    version = "2"

    def normalize(self, material: RawSession) -> SessionReport:
        stdout, log = material.records("stdout", ESSENTIAL), material.records("session", ESSENTIAL)
        unknown = Counter[str]()
        rows = stdout.rows if any(row.type in _MESSAGES for row in stdout.rows) else log.rows or stdout.rows
        messages = [(row, mapping(row.value.get("message"))) for row in rows if row.type in _MESSAGES]
        replies = [message for _, message in messages if message.get("role") == "assistant"]
        begin = next((row.value for row in rows if row.type == "session"), {})
        times = [at for row, message in messages if (at := _time(row, message))]
        session = ReadSession(
            entries=tuple(entry for row in rows for entry in _entries(row, unknown, replies)),
            ending=_ending(rows, [message for _, message in messages], material.ends("stderr")),
            usage=_usage(replies),
            session_id=text(begin.get("id")),
            model=next((model for reply in replies if (model := text(reply.get("model")))), None),
            folder=text(begin.get("cwd")),
            started_at=times[0] if times else None,
            ended_at=times[-1] if times else None,
            model_calls=len([reply for reply in replies if any(_tokens(reply))]),
            unknown=unknown,
            unparsed_lines=stdout.unparsed_lines + log.unparsed_lines,
        )
        return session_report(material, session, READERS)


def _time(row: Record, message: JsonMap) -> str | None:
    return moment_of_ms(message.get("timestamp")) or moment(row.value.get("timestamp"))


def _entries(row: Record, unknown: Counter[str], replies: Sequence[JsonMap]) -> Iterator[Entry]:
    if row.type == "auto_retry_start":
        yield _retry(row)
    elif row.type in _MESSAGES:
        message = mapping(row.value.get("message"))
        role, at = text(message.get("role")), _time(row, message)
        if role == "assistant":
            yield from _reply(row, message, at, unknown, is_last=bool(replies) and message is replies[-1])
        elif role == "toolResult":
            yield _outcome(row, message, at)
        elif role == "user":
            content = shown(message.get("content"))
            yield from ([MessageEvent(role="user", text=content, at=at, line=row.line)] if content else ())
        else:
            unknown[f"message/{role}"] += 1
    elif row.type not in _QUIET:
        unknown[row.type or "no type"] += 1


def _reply(row: Record, message: JsonMap, at: str | None, unknown: Counter[str], *, is_last: bool) -> Iterator[Entry]:
    for block in map(mapping, listing(message.get("content"))):
        kind = text(block.get("type")) or "no type"
        if kind == "text":
            yield from spoken(text(block.get("text")), at=at, line=row.line)
        elif kind == "thinking":
            yield from thinking(text(block.get("thinking")), at=at, line=row.line)
        elif kind == "toolCall":
            name, arguments = text(block.get("name")) or "", block.get("arguments")
            yield ToolCall(id=text(block.get("id")), tool=name, raw_arguments=arguments, at=at, line=row.line)
        else:
            unknown[f"assistant/{kind}"] += 1
    if message.get("stopReason") == "error":
        error = _error(message)
        yield ErrorEvent(message=error, status=status_in_text(error), terminal=is_last, at=at, line=row.line)


def _error(message: JsonMap) -> str:
    return text(message.get("errorMessage")) or "the session failed"


def _retry(row: Record) -> RetryEvent:
    error = text(row.value.get("errorMessage"))
    return RetryEvent(
        attempt=count(row.value.get("attempt")),
        limit=count(row.value.get("maxAttempts")),
        delay_ms=amount(row.value.get("delayMs")),
        status=status_in_text(error or ""),
        message=error,
        line=row.line,
    )


def _outcome(row: Record, message: JsonMap, at: str | None) -> ToolOutcome:
    """The result of a tool; the exit code of a command that failed is the last line of its output."""
    output, is_error = shown(message.get("content")), message.get("isError") is True
    match = _EXIT_CODE.search(output) if is_error else None
    is_command = message.get("toolName") == "bash"
    return ToolOutcome(
        id=text(message.get("toolCallId")),
        tool=text(message.get("toolName")),
        output=output[: match.start()] if match is not None else output,
        is_error=is_error,
        exit_code=int(match[1]) if match is not None else 0 if is_command and not is_error else None,
        at=at,
        line=row.line,
    )


def _ending(rows: Sequence[Record], messages: Sequence[JsonMap], stderr: str | None) -> Ending:
    last = messages[-1] if messages else {}
    reason = last.get("stopReason") if last.get("role") == "assistant" else None
    if reason == "error":
        return failed(_error(last))
    if reason == "aborted":
        return failed(text(last.get("errorMessage")) or "the session was aborted", failure=CANCELLED)
    if reason == "length":
        return Ending(failure=TRUNCATED, error="the answer was cut by the token limit")
    if reason != "stop":
        return cut_short(printed=bool(rows), stderr=stderr)
    blocks = [mapping(block) for block in listing(last.get("content"))]
    return with_answer("\n".join(content for block in blocks if (content := text(block.get("text")))))


def _tokens(reply: JsonMap) -> list[int | None]:
    usage = mapping(reply.get("usage"))
    return [count(usage.get(name)) for name in ("input", "cacheRead", "cacheWrite", "output")]


def _usage(replies: Sequence[JsonMap]) -> Usage:
    """The sum over the replies: pi reports input without the cache. All zeros mean that nothing was reported."""
    usages = [mapping(reply.get("usage")) for reply in replies if any(_tokens(reply))]
    costs = [cost for usage in usages if (cost := amount(mapping(usage.get("cost")).get("total")))]
    return Usage(
        input_tokens=summed(usages, "input", "cacheRead", "cacheWrite"),
        cached_input_tokens=summed(usages, "cacheRead"),
        cache_write_tokens=summed(usages, "cacheWrite"),
        output_tokens=summed(usages, "output"),
        cost_usd=sum(costs) if costs else None,
        cost_source="reported" if costs else None,
    )
