"""`copilot`: what GitHub Copilot CLI prints with `--output-format json`, and the log of its session (`events.jsonl`).

Both hold the same events. The log has usage, version and folder as well and is read first when it is there; standard
output then adds what is not kept: retries, and the exit code. Copilot counts in premium requests, never in money, so
cost stays unknown. Sources: recordings and logs of 1.0.102; for older logs (exit codes in the text of a result, usage
in `session.shutdown` alone) public parsers of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from eval_pipeline.agents.session_events import detected_skills, read_events, resolved, without_result
from eval_pipeline.failures import (
    AUTHENTICATION,
    BAD_REQUEST,
    CANCELLED,
    CONNECTION,
    MODEL_REJECTED,
    RATE_LIMITED,
    SERVER_ERROR,
    TARGET_CRASH,
    TARGET_ERROR,
    TIMEOUT,
    TRUNCATED,
    FailureClass,
    failure_of_status,
)
from eval_pipeline.reports.jsonl_records import (
    JsonMap,
    Record,
    Records,
    amount,
    count,
    first,
    listing,
    mapping,
    moment,
    read_records,
    shown,
    text,
)
from eval_pipeline.reports.model import (
    CommandEvent,
    ErrorEvent,
    Event,
    FileWriteEvent,
    MessageEvent,
    RetryEvent,
    SessionReport,
    SkillEvent,
    ToolCallEvent,
    ToolResultEvent,
    Usage,
)
from eval_pipeline.reports.moments import milliseconds_between, span_of
from eval_pipeline.reports.normalize import RawSession

How = Literal["create", "edit", "delete"]

_HOW: Mapping[str, How] = {"create": "create", "edit": "edit", "delete": "delete"}
_SHELL_END = re.compile(r"\n?<(?:shellId: \S+ completed|exited) with exit code (\d{1,5})>\s*\Z")
_STATUS_IN_TEXT = re.compile(r"\b(?:HTTP |status:? |Last error: )([45]\d\d)\b")
_ERROR_TYPES: Mapping[str, FailureClass] = {"authentication": AUTHENTICATION, "rate_limit": RATE_LIMITED}
_ERROR_TEXTS: tuple[tuple[re.Pattern[str], FailureClass], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), failure)
    for pattern, failure in (
        (r"context (window|length)|too long", BAD_REQUEST),
        (r"model .*not (found|available|supported)", MODEL_REJECTED),
        (r"authenticat|log ?in|api key", AUTHENTICATION),
        (r"rate limit|quota", RATE_LIMITED),
        (r"timed out|timeout", TIMEOUT),
        (r"response body|connection|ECONN|ENOTFOUND|fetch failed|socket|EOF", CONNECTION),
        (r"failed to get response|server error|overloaded", SERVER_ERROR),
    )
)
_TURNING_POINTS = frozenset({"user.message", "assistant.message", "tool.execution_start", "session.error", "abort"})
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


class CopilotNormalizer:
    """One run of Copilot CLI: its standard output and, when it was kept, the log of its session (`session`)."""

    version = "2"

    def normalize(self, material: RawSession) -> SessionReport:
        stdout, log = read_records(material.text("stdout")), read_records(material.text("session"))
        told = log.rows if _tells_events(log) else stdout.rows
        rows = (*log.rows, *stdout.rows)
        end = _end(told, stdout.rows, material.text("stderr"))
        session = _session(told, rows, end, material)
        events = tuple(_events(told, stdout.rows, session))
        begun, ended = span_of(() if stdout.rows else log.rows)  # the log of a resumed session spans earlier runs, too
        calls = len(_usages(rows)) or sum(row.type == "assistant.message" for row in told)
        return SessionReport(
            execution_id=material.execution_id,
            final_output=end.final_output,
            session_id=_fact(rows, "sessionId"),
            model=_answering_model(told) or _fact(rows, "selectedModel", "newModel", "model"),
            agent_version=_fact(rows, "copilotVersion"),
            usage=_usage(rows),
            events=events,
            skills=detected_skills(events),
            failure_class=end.failure.id if end.failure is not None else None,
            error=end.error,
            started_at=begun,
            ended_at=ended,
            duration_ms=_own_time(stdout.rows) or milliseconds_between(begun, ended),
            ttft_ms=next((amount(usage.get("timeToFirstTokenMs")) for usage in _usages(rows)), None),
            model_calls=calls or None,
            unknown_events=dict(session.unknown),
            unparsed_lines=stdout.unparsed_lines + log.unparsed_lines,
        )


@dataclass(frozen=True, slots=True)
class _End:
    """How a session ended: with an answer, or with a failure, its text and the line that told it."""

    final_output: str | None = None
    answer_line: int | None = None
    failure: FailureClass | None = None
    error: str | None = None
    error_line: int | None = None


@dataclass(frozen=True, slots=True)
class _Session:
    """What telling one event needs to know of the others: results and tool names by call id, the folder, the end."""

    folder: str | None
    end: _End
    results: Mapping[str, JsonMap]
    tools: Mapping[str, str]
    unknown: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Call:
    """One tool call, its result when there is one, and where it stood."""

    id: str | None
    arguments: JsonMap
    result: JsonMap
    folder: str | None
    at: str | None
    line: int

    @property
    def ok(self) -> bool | None:
        return None if not self.result else not _is_error(self.result)


def _data(record: Record) -> JsonMap:
    return mapping(record.value.get("data"))


def _at(record: Record) -> str | None:
    return moment(record.value.get("timestamp"))


def _tells_events(records: Records) -> bool:
    return any(record.type in _TURNING_POINTS for record in records.rows)


def _fact(rows: Iterable[Record], *names: str) -> str | None:
    places = ((_data(row), row.value) for row in rows)
    return next(
        (value for place in places for part in place for name in names if (value := text(part.get(name)))), None
    )


def _answering_model(rows: Iterable[Record]) -> str | None:
    return next(
        (model for row in rows if row.type == "assistant.message" and (model := text(_data(row).get("model")))), None
    )


def _session(told: Sequence[Record], rows: Sequence[Record], end: _End, material: RawSession) -> _Session:
    begins = [row for row in rows if row.type in ("session.start", "session.resume")]
    folder = next((cwd for row in begins if (cwd := text(mapping(_data(row).get("context")).get("cwd")))), None)
    by_id = [(text(_data(row).get("toolCallId")), row) for row in told]
    return _Session(
        folder=folder or (str(material.cwd) if material.cwd is not None else None),
        end=end,
        results={id_: _data(row) for id_, row in by_id if id_ and row.type == "tool.execution_complete"},
        tools={id_: _tool(_data(row)) for id_, row in by_id if id_ and row.type == "tool.execution_start"},
    )


def _tool(data: JsonMap) -> str:
    server, tool = text(data.get("mcpServerName")), text(data.get("mcpToolName"))
    return f"mcp:{server}/{tool}" if server and tool else text(data.get("toolName")) or ""


def _is_error(result: JsonMap) -> bool:
    """A command that fails is told as a success with an exit code."""
    return result.get("success") is False or bool(_exit_code(result))


def _exit_code(result: JsonMap) -> int | None:
    told = count(mapping(result.get("shellExecution")).get("exitCode"))
    match = _SHELL_END.search(_output(result))
    return told if told is not None or match is None else int(match[1])


def _output(result: JsonMap) -> str:
    """The text of a result; of an error its message. `detailedContent` is for people (a made-up diff) and left out."""
    given = result.get("result")
    content = mapping(given).get("content", given if isinstance(given, str) else None)
    return shown(content if content is not None else mapping(result.get("error")).get("message"))


def _own_time(printed: Sequence[Record]) -> float | None:
    """The time that the CLI says this run took."""
    results = (mapping(row.value.get("usage")) for row in reversed(printed) if row.type == "result")
    return amount(next(results, {}).get("sessionDurationMs"))


def _by_main_agent(record: Record) -> bool:
    return not _data(record).get("parentToolCallId") and not record.value.get("agentId")


# How it ended


def _end(told: Sequence[Record], printed: Sequence[Record], stderr: str | None) -> _End:
    """By the last thing that happened; a run whose output was kept has also to have come to its `result`."""
    points = [row for row in told if row.type in _TURNING_POINTS and _by_main_agent(row)]
    last = points[-1] if points else None
    if last is not None and last.type in ("session.error", "abort"):
        return _failed(last)
    result = next((row.value for row in reversed(printed) if row.type == "result"), {})
    if (printed and not result) or last is None:
        return _End(failure=TARGET_CRASH, error=without_result(bool(told), stderr))
    if result.get("exitCode") not in (None, 0):
        return _End(failure=TARGET_ERROR, error=f"the session ended with exit code {result['exitCode']}")
    if last.type != "assistant.message" or (not result and listing(_data(last).get("toolRequests"))):
        return _End(failure=TARGET_CRASH, error=without_result(True, stderr))
    if any(usage.get("finishReason") == "length" for usage in _usages(told)[-1:]):
        return _End(failure=TRUNCATED, error="the answer was cut by the token limit")
    answer = text(_data(last).get("content"))
    return _End(final_output=answer if answer and answer.strip() else None, answer_line=last.line)


def _failed(last: Record) -> _End:
    data = _data(last)
    if last.type == "abort":
        reason = text(data.get("reason"))
        said = "the session was aborted" + (f": {reason}" if reason else "")
        return _End(failure=CANCELLED, error=said, error_line=last.line)
    error = text(data.get("message")) or text(data.get("errorType")) or "the session failed"
    return _End(failure=_failure(data, error), error=error, error_line=last.line)


def _failure(data: JsonMap, error: str) -> FailureClass:
    """The failure class by what says most: the status, the type of the error, its text."""
    status = _status(data, error)
    if status is not None:
        return failure_of_status(status)
    by_type = _ERROR_TYPES.get(str(data.get("errorType")))
    return by_type or next((failure for pattern, failure in _ERROR_TEXTS if pattern.search(error)), TARGET_ERROR)


def _status(data: JsonMap, error: str = "") -> int | None:
    status, match = count(data.get("statusCode")), _STATUS_IN_TEXT.search(error)
    if status is not None and 400 <= status <= 599:
        return status
    return int(match[1]) if match is not None else None


# What it cost


def _usages(rows: Iterable[Record]) -> list[JsonMap]:
    """What the log kept of each model call."""
    return [mapping(_data(row).get("usage")) for row in rows if row.type == "session.usage_record"]


def _usage(rows: Sequence[Record]) -> Usage:
    """Usage of the whole session: the sum over its model calls, else the totals of its last shutdown.

    Copilot counts as we do: what was read from and written to the cache is part of the input, reasoning of the output.
    """
    parts = _usages(rows) or _totals(rows)
    return Usage(
        input_tokens=_sum(parts, "inputTokens"),
        cached_input_tokens=_sum(parts, "cacheReadTokens"),
        cache_write_tokens=_sum(parts, "cacheWriteTokens"),
        output_tokens=_sum(parts, "outputTokens"),
        reasoning_tokens=_sum(parts, "reasoningTokens"),
    )


def _totals(rows: Sequence[Record]) -> list[JsonMap]:
    last = next((_data(row) for row in reversed(rows) if row.type == "session.shutdown"), {})
    return [mapping(mapping(metrics).get("usage")) for metrics in mapping(last.get("modelMetrics")).values()]


def _sum(parts: Sequence[JsonMap], name: str) -> int | None:
    """The sum of a count; unknown when it is unknown in one part, or when there is none."""
    values = [count(part.get(name)) for part in parts]
    return sum(value for value in values if value is not None) if values and None not in values else None


# What happened


def _events(told: Sequence[Record], printed: Sequence[Record], session: _Session) -> Iterator[Event]:
    """The events of what was told; retries, which are only printed, come where they stood or, from the log, first."""
    if told is not printed:
        yield from _retries(printed)
    retries = {retry.line: retry for retry in _retries(told)}
    for record in told:
        tell = _EVENTS.get(record.type)
        if tell is not None:
            yield from tell(record, session)
        elif record.line in retries:
            yield retries[record.line]
        elif record.type not in _QUIET_EVENTS and record.type not in _ONLY_PRINTED:
            session.unknown[record.type or "no type"] += 1
    end = session.end
    if end.error is not None and end.error_line is None:
        yield ErrorEvent(message=end.error, terminal=True)


def _retries(rows: Iterable[Record]) -> Iterator[RetryEvent]:
    """One event for each time a model call was repeated, with the status of the call that failed before it."""
    failed: JsonMap = {}
    for record in rows:
        if record.type == "model.call_failure":
            failed = _data(record)
        elif record.type == "assistant.turn_retry":
            attempt = count(failed.get("retryAttempt"))
            yield RetryEvent(
                attempt=attempt + 1 if attempt is not None else None,
                status=_status(failed),
                message=text(_data(record).get("reason")),
                at=_at(record),
                line=record.line,
            )


def _user(record: Record, session: _Session) -> Iterator[Event]:
    """What the user said. Text that has a source (`skill-…`, `system`) was put there by the CLI."""
    data = _data(record)
    words, source = text(data.get("content")), text(data.get("source"))
    injected = (source is not None and source != "user") or not _by_main_agent(record)
    if words is not None:
        yield MessageEvent(role="user", text=words, injected=injected, at=_at(record), line=record.line)


def _assistant(record: Record, session: _Session) -> Iterator[Event]:
    data, at = _data(record), _at(record)
    thought, words = text(data.get("reasoningText")), text(data.get("content"))
    if thought is not None:
        yield MessageEvent(role="assistant", text=thought, phase="thinking", at=at, line=record.line)
    if words is not None:
        last = record.line == session.end.answer_line
        yield MessageEvent(
            role="assistant", text=words, phase="final" if last else "commentary", at=at, line=record.line
        )


def _error(record: Record, session: _Session) -> Iterator[Event]:
    data = _data(record)
    message = text(data.get("message")) or text(data.get("errorType")) or "error"
    yield ErrorEvent(
        message=message,
        status=_status(data, message),
        terminal=record.line == session.end.error_line,
        at=_at(record),
        line=record.line,
    )


def _tool_start(record: Record, session: _Session) -> Iterator[Event]:
    data, at = _data(record), _at(record)
    call_id, tool = text(data.get("toolCallId")), _tool(data)
    yield ToolCallEvent(tool=tool, call_id=call_id, arguments=data.get("arguments"), at=at, line=record.line)
    result = session.results.get(call_id, {}) if call_id is not None else {}
    call = _Call(call_id, mapping(data.get("arguments")), result, session.folder, at, record.line)
    tell = _TOOLS.get(tool.lower())
    if tell is not None:
        yield from tell(call)
    elif result.get("fileEdits"):
        yield from _changes(call)


def _tool_complete(record: Record, session: _Session) -> Iterator[Event]:
    data = _data(record)
    call_id = text(data.get("toolCallId"))
    yield ToolResultEvent(
        tool=session.tools.get(call_id) if call_id is not None else None,
        call_id=call_id,
        output=_output(data),
        is_error=_is_error(data),
        at=_at(record),
        line=record.line,
    )


def _command(call: _Call) -> Iterator[Event]:
    command = text(call.arguments.get("command"))
    if command is not None:
        exit_code = _exit_code(call.result)
        output = _SHELL_END.sub("", _output(call.result)) if exit_code is not None else None
        yield CommandEvent(
            command=command, exit_code=exit_code, output=output, call_id=call.id, at=call.at, line=call.line
        )


def _file_read(call: _Call) -> Iterator[Event]:
    path = text(call.arguments.get("path"))
    if path is not None:
        whole = resolved(path, call.folder)
        yield from read_events(whole, folder=call.folder, ok=call.ok, call_id=call.id, at=call.at, line=call.line)


def _created(call: _Call) -> Iterator[Event]:
    yield from _changes(call, "create")


def _changes(call: _Call, how: How = "edit") -> Iterator[Event]:
    """The files that a call changed: as its result tells them, else the one it was asked to change."""
    told = [mapping(edit) for edit in listing(call.result.get("fileEdits"))]
    asked = [{"path": call.arguments.get("path"), "kind": how}]
    for edit in told or asked:
        if path := text(edit.get("path")):
            yield FileWriteEvent(
                path=resolved(path, call.folder),
                how=_HOW.get(str(edit.get("kind")), "edit"),
                ok=call.ok,
                call_id=call.id,
                at=call.at,
                line=call.line,
            )


def _skill(call: _Call) -> Iterator[Event]:
    skill = text(first(call.arguments, "skill", "name"))
    if skill is not None:
        yield SkillEvent(skill=skill, strength="explicit", ok=call.ok, call_id=call.id, at=call.at, line=call.line)


_EVENTS: dict[str, Callable[[Record, _Session], Iterator[Event]]] = {
    "user.message": _user,
    "assistant.message": _assistant,
    "tool.execution_start": _tool_start,
    "tool.execution_complete": _tool_complete,
    "session.error": _error,
}
_TOOLS: dict[str, Callable[[_Call], Iterator[Event]]] = {
    "bash": _command,
    "powershell": _command,
    "view": _file_read,
    "create": _created,
    "edit": _changes,
    "skill": _skill,
}
