"""`claude-code`: what Claude Code prints with `--output-format stream-json` or `json`, and its transcript file.

Events are read from standard output; from the transcript only when standard output tells none (`json`, text). Usage,
cost, the final output and how the session ended come from the `result` record alone: an assistant record's usage is a
placeholder, and text of an API error stands where an answer would. Sources: recordings of 2.1.330, issues of the CLI
for older shapes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_pipeline.agents.session_events import detected_skills, read_events, resolved, without_result
from eval_pipeline.failures import (
    AUTHENTICATION,
    BAD_REQUEST,
    CANCELLED,
    CONNECTION,
    MALFORMED_REPLY,
    MAX_STEPS,
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
from eval_pipeline.fingerprints import to_json
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
from eval_pipeline.reports.normalize import RawSession

_SYNTHETIC = "<synthetic>"
_EXIT_CODE = re.compile(r"Exit code (\d{1,5})(?:\n|\Z)")
_NOT_RUN = "<tool_use_error>"
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

_ENDINGS: dict[str, FailureClass] = {
    "max_turns": MAX_STEPS,
    "error_max_turns": MAX_STEPS,
    "budget_exhausted": MAX_STEPS,
    "error_max_budget_usd": MAX_STEPS,
    "error_max_structured_output_retries": MALFORMED_REPLY,
    "max_output_tokens": TRUNCATED,
    "prompt_too_long": BAD_REQUEST,
    "aborted_tools": CANCELLED,
    "aborted_streaming": CANCELLED,
}
_API_ERRORS: dict[str, FailureClass] = {
    "authentication_failed": AUTHENTICATION,
    "billing_error": AUTHENTICATION,
    "rate_limit": RATE_LIMITED,
    "overloaded": SERVER_ERROR,
    "server_error": SERVER_ERROR,
    "model_not_found": MODEL_REJECTED,
    "max_output_tokens": TRUNCATED,
}
_ERROR_TEXTS: tuple[tuple[re.Pattern[str], FailureClass], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), failure)
    for pattern, failure in (
        (r"output token maximum", TRUNCATED),
        (r"prompt is too long", BAD_REQUEST),
        (r"issue with the selected model", MODEL_REJECTED),
        (r"invalid api key|not logged in|please run /login|authenticat", AUTHENTICATION),
        (r"usage limit|rate limit", RATE_LIMITED),
        (r"timed out|timeout", TIMEOUT),
        (r"connection|ECONN|ENOTFOUND|fetch failed|socket", CONNECTION),
        (r"API Error", SERVER_ERROR),
    )
)
_STATUS_IN_TEXT = re.compile(r"API Error: (?:[^\n]{0,40}\()?([45]\d\d)\b")


class ClaudeCodeNormalizer:
    """One run of Claude Code: its standard output and, when it was kept, its transcript (`session`)."""

    version = "2"

    def normalize(self, material: RawSession) -> SessionReport:
        stdout, transcript = read_records(material.text("stdout")), read_records(material.text("session"))
        told = transcript if _tells_events(transcript) and not _tells_events(stdout) else stdout
        rows = (*stdout.rows, *transcript.rows)
        end = _end(_last_result(rows), told.rows, printed=bool(stdout.rows), stderr=material.text("stderr"))
        session = _session(told.rows, rows, end, material)
        events = tuple(_events(_once(told.rows), session))
        return SessionReport(
            execution_id=material.execution_id,
            final_output=end.final_output,
            session_id=_fact(rows, "session_id", "sessionId"),
            model=_fact(rows, "model") or _answering_model(told.rows) or _only_model(end.result),
            agent_version=_fact(rows, "claude_code_version", "version"),
            usage=_usage(end, told.rows),
            events=events,
            skills=detected_skills(events),
            failure_class=end.failure.id if end.failure is not None else None,
            error=end.error,
            ttft_ms=amount(end.result.get("ttft_ms")),
            model_calls=len(_message_ids(told.rows)) or None,
            unknown_events=dict(session.unknown),
            unparsed_lines=stdout.unparsed_lines + transcript.unparsed_lines,
        )


@dataclass(frozen=True, slots=True)
class _End:
    """How a session ended: with an answer, or with a failure and its text. `result` is empty when none was printed."""

    result: JsonMap
    final_output: str | None = None
    failure: FailureClass | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class _Result:
    """What came back of one tool call."""

    output: str
    is_error: bool
    detail: JsonMap
    ran: bool


@dataclass(frozen=True, slots=True)
class _Session:
    """What telling one record needs to know of the others: results and tool names by call id, the folder, the end."""

    folder: str | None
    end: _End
    results: Mapping[str, _Result]
    tools: Mapping[str, str]
    final_line: int | None
    end_was_told: bool
    unknown: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Call:
    """One tool call, its result when there is one, and where it stood."""

    id: str | None
    arguments: JsonMap
    result: _Result | None
    folder: str | None
    at: str | None
    line: int

    @property
    def ok(self) -> bool | None:
        return None if self.result is None else not self.result.is_error


def _session(told: Sequence[Record], rows: Sequence[Record], end: _End, material: RawSession) -> _Session:
    own_folder = str(material.cwd) if material.cwd is not None else None
    return _Session(
        folder=_fact(rows, "cwd") or own_folder,
        end=end,
        results=_results(told),
        tools={str(block["id"]): str(block.get("name")) for _, block in _blocks(told) if "id" in block},
        final_line=_final_line(told) if end.final_output is not None else None,
        end_was_told=any(_is_error(record) and _said(record) == end.error for record in told),
    )


def _tells_events(records: Records) -> bool:
    return any(record.type in ("assistant", "user") for record in records.rows)


def _once(rows: Iterable[Record]) -> Iterator[Record]:
    """Records without those that are printed again under the same `uuid`."""
    seen: set[str] = set()
    for record in rows:
        uuid = text(record.value.get("uuid"))
        if uuid is None or uuid not in seen:
            yield record
        seen.update([uuid] if uuid is not None else [])


def _fact(rows: Iterable[Record], *names: str) -> str | None:
    return next((value for record in rows for name in names if (value := text(record.value.get(name)))), None)


def _answering_model(rows: Iterable[Record]) -> str | None:
    models = (text(mapping(record.value.get("message")).get("model")) for record in rows if record.type == "assistant")
    return next((model for model in models if model is not None and model != _SYNTHETIC), None)


def _only_model(result: JsonMap) -> str | None:
    models = list(mapping(result.get("modelUsage")))
    return models[0] if len(models) == 1 else None


def _message_ids(rows: Iterable[Record]) -> set[str]:
    messages = (mapping(record.value.get("message")) for record in rows if record.type == "assistant")
    return {id_ for message in messages if message.get("model") != _SYNTHETIC and (id_ := text(message.get("id")))}


def _content(record: Record) -> Iterator[JsonMap]:
    """The blocks of a message; a text in their place is one block of text."""
    content = mapping(record.value.get("message")).get("content")
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    yield from (mapping(block) for block in listing(content))


def _blocks(rows: Iterable[Record]) -> Iterator[tuple[Record, JsonMap]]:
    return ((record, block) for record in rows if record.type in ("assistant", "user") for block in _content(record))


def _said(record: Record) -> str:
    return "\n".join(words for block in _content(record) if (words := text(block.get("text"))))


def _by_main_model(record: Record) -> bool:
    """Whether the model itself speaks: not a subagent, not the CLI."""
    if record.type != "assistant" or mapping(record.value.get("message")).get("model") == _SYNTHETIC:
        return False
    return not record.value.get("parent_tool_use_id") and not record.value.get("isSidechain")


def _final_line(rows: Iterable[Record]) -> int | None:
    """The line of the agent's own last words."""
    spoken = [record.line for record in rows if _said(record) and _by_main_model(record)]
    return spoken[-1] if spoken else None


def _results(rows: Iterable[Record]) -> dict[str, _Result]:
    found: dict[str, _Result] = {}
    for record, block in _blocks(rows):
        call_id = text(block.get("tool_use_id"))
        if call_id is not None:
            found.setdefault(call_id, _result(record, block))
    return found


def _result(record: Record, block: JsonMap) -> _Result:
    output = shown(block.get("content"))
    about = [mapping(entry) for entry in listing(record.value.get("tool_result_meta"))]
    refused = record.value.get("toolDenialKind") or any(
        entry.get("non_execution_kind") for entry in about if entry.get("id") == block.get("tool_use_id")
    )
    return _Result(
        output=output,
        is_error=block.get("is_error") is True,
        detail=mapping(first(record.value, "tool_use_result", "toolUseResult")),
        ran=not refused and not output.startswith(_NOT_RUN),
    )


# How it ended


def _last_result(rows: Sequence[Record]) -> JsonMap:
    return next((record.value for record in reversed(rows) if record.type == "result"), {})


def _end(result: JsonMap, told: Sequence[Record], *, printed: bool, stderr: str | None) -> _End:
    if not result:
        return _End(result, failure=TARGET_CRASH, error=without_result(printed, stderr))
    if result.get("is_error") is not True and not str(result.get("subtype")).startswith("error"):
        return _End(result, final_output=_answer(result))
    error = _error_text(result, told)
    return _End(result, failure=_failure(result, told, error), error=error)


def _answer(result: JsonMap) -> str | None:
    structured = result.get("structured_output")
    answer = text(result.get("result")) or (to_json(structured).decode() if structured is not None else None)
    return answer if answer and answer.strip() else None


def _error_text(result: JsonMap, told: Sequence[Record]) -> str:
    errors = "; ".join(shown(error) for error in listing(result.get("errors")))
    synthetic = next((_said(record) for record in reversed(told) if _is_error(record)), None)
    return text(result.get("result")) or errors or synthetic or text(result.get("subtype")) or "the session failed"


def _failure(result: JsonMap, told: Sequence[Record], error: str) -> FailureClass:
    """The failure class by what says most: the reason of the end, the kind of API error, its status, its text."""
    for name in ("api_error", "terminal_reason", "subtype"):
        if (ending := _ENDINGS.get(str(result.get(name)))) is not None:
            return ending
    kinds = [str(record.value.get("error")) for record in told if _is_error(record)]
    if kinds and kinds[-1] in _API_ERRORS:
        return _API_ERRORS[kinds[-1]]
    status = _status(result.get("api_error_status")) or _status_in(error)
    if status is not None:
        return failure_of_status(status)
    return next((failure for pattern, failure in _ERROR_TEXTS if pattern.search(error)), TARGET_ERROR)


def _status(value: Any) -> int | None:
    status = count(value)
    return status if status is not None and 400 <= status <= 599 else None


def _status_in(error: str) -> int | None:
    match = _STATUS_IN_TEXT.search(error)
    return int(match[1]) if match is not None else None


# What it cost


def _usage(end: _End, told: Sequence[Record]) -> Usage:
    """Usage of the `result`: input is the sum of what was sent anew, written to and read from the cache.

    All zeros on a failed session mean that nothing was reported.
    """
    raw = mapping(end.result.get("usage"))
    fresh, written = count(raw.get("input_tokens")), count(raw.get("cache_creation_input_tokens"))
    cached, output = count(raw.get("cache_read_input_tokens")), count(raw.get("output_tokens"))
    if end.failure is not None and not any((fresh, written, cached, output)):
        return Usage()
    cost = _cost(end.result)
    return Usage(
        input_tokens=fresh + (written or 0) + (cached or 0) if fresh is not None else None,
        cached_input_tokens=cached,
        cache_write_tokens=written,
        output_tokens=output,
        reasoning_tokens=_reasoning(raw, told),
        cost_usd=cost,
        cost_source="reported" if cost is not None else None,
    )


def _reasoning(raw: JsonMap, told: Sequence[Record]) -> int | None:
    """Thinking tokens; 0 is what the CLI prints for "not reported", and believed only where no thinking was seen."""
    reasoning = count(mapping(raw.get("output_tokens_details")).get("thinking_tokens"))
    kinds = {text(block.get("type")) for record, block in _blocks(told) if record.type == "assistant"}
    return reasoning if reasoning or (kinds and kinds.isdisjoint(_THINKING)) else None


def _cost(result: JsonMap) -> float | None:
    """The cost of this run in USD: the total of a resumed session also holds what earlier runs cost.

    None when the CLI did not know a model's price: it then makes one up (`costBasis: unknown`).
    """
    models = [mapping(entry) for entry in mapping(result.get("modelUsage")).values()]
    if any(model.get("costBasis") == "unknown" for model in models):
        return None
    since = mapping(result.get("model_usage_since_last_result"))
    own = [amount(mapping(entry).get("costUSD")) for entry in since.values()]
    if own and None not in own:
        return sum(cost for cost in own if cost is not None)
    return amount(first(result, "total_cost_usd", "cost_usd", "total_cost"))


# What happened


def _events(rows: Iterable[Record], session: _Session) -> Iterator[Event]:
    for record in rows:
        tell = _RECORDS.get(record.type)
        if tell is not None:
            yield from tell(record, session)
        elif record.type not in _QUIET_RECORDS:
            session.unknown[record.type or "no type"] += 1


def _at(record: Record) -> str | None:
    return moment(record.value.get("timestamp"))


def _system(record: Record, session: _Session) -> Iterator[Event]:
    value, subtype = record.value, record.value.get("subtype")
    if subtype in ("api_retry", "api_error"):
        error = value.get("error")
        yield RetryEvent(
            attempt=count(first(value, "attempt", "retryAttempt")),
            limit=count(first(value, "max_retries", "maxRetries")),
            delay_ms=amount(first(value, "retry_delay_ms", "retryInMs")),
            status=_status(first(value, "error_status") or mapping(error).get("status")),
            message=text(error) or text(mapping(error).get("formatted")) or text(mapping(error).get("message")),
            at=_at(record),
            line=record.line,
        )
    elif not isinstance(subtype, str | None) or subtype not in _QUIET_SUBTYPES:
        session.unknown[f"system/{subtype}"] += 1


def _is_error(record: Record) -> bool:
    """Whether an assistant record is the CLI's own words on an API error."""
    if record.type != "assistant" or mapping(record.value.get("message")).get("model") != _SYNTHETIC:
        return False
    flagged = first(record.value, "is_api_error_message", "isApiErrorMessage") is True
    return flagged or _said(record).startswith("API Error")


def _assistant(record: Record, session: _Session) -> Iterator[Event]:
    if _is_error(record):
        words = _said(record)
        status = _status(first(record.value, "api_error_status", "apiErrorStatus")) or _status_in(words)
        yield ErrorEvent(
            message=words, status=status, terminal=words == session.end.error, at=_at(record), line=record.line
        )
        return
    for block in _content(record):
        kind = text(block.get("type")) or "no type"
        tell = _BLOCKS.get(kind)
        if tell is not None:
            yield from tell(block, record, session)
        elif text(block.get("tool_use_id")) is not None:
            yield from _tool_result(block, record, session)
        elif kind not in _THINKING:
            session.unknown[f"assistant/{kind}"] += 1


def _words(block: JsonMap, record: Record, session: _Session) -> Iterator[Event]:
    words = text(block.get("text"))
    if words is not None:
        yield MessageEvent(
            role="assistant",
            text=words,
            phase="final" if record.line == session.final_line else "commentary",
            injected=mapping(record.value.get("message")).get("model") == _SYNTHETIC,
            at=_at(record),
            line=record.line,
        )


def _thought(block: JsonMap, record: Record, session: _Session) -> Iterator[Event]:
    words = text(block.get("thinking"))
    if words is not None:
        yield MessageEvent(role="assistant", text=words, phase="thinking", at=_at(record), line=record.line)


def _tool_use(block: JsonMap, record: Record, session: _Session) -> Iterator[Event]:
    call_id, tool, at = text(block.get("id")), text(block.get("name")) or "", _at(record)
    yield ToolCallEvent(tool=tool, call_id=call_id, arguments=block.get("input"), at=at, line=record.line)
    tell = _TOOLS.get(tool.lower())
    if tell is not None:
        result = session.results.get(call_id) if call_id is not None else None
        yield from tell(_Call(call_id, mapping(block.get("input")), result, session.folder, at, record.line))


def _command(call: _Call) -> Iterator[Event]:
    command = text(call.arguments.get("command"))
    if command is not None:
        exit_code, output = _finished(call)
        yield CommandEvent(
            command=command, exit_code=exit_code, output=output, call_id=call.id, at=call.at, line=call.line
        )


def _finished(call: _Call) -> tuple[int | None, str | None]:
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


def _file_read(call: _Call) -> Iterator[Event]:
    path = text(first(call.arguments, "file_path", "notebook_path", "path"))
    if path is not None:
        whole = resolved(path, call.folder)
        yield from read_events(whole, folder=call.folder, ok=call.ok, call_id=call.id, at=call.at, line=call.line)


def _file_write(call: _Call) -> Iterator[Event]:
    yield from _changed(call, created=call.result is None or call.result.detail.get("type") != "update")


def _file_edit(call: _Call) -> Iterator[Event]:
    yield from _changed(call, created=False)


def _changed(call: _Call, *, created: bool) -> Iterator[Event]:
    path = text(first(call.arguments, "file_path", "notebook_path", "path"))
    if path is not None:
        yield FileWriteEvent(
            path=resolved(path, call.folder),
            how="create" if created else "edit",
            ok=call.ok,
            call_id=call.id,
            at=call.at,
            line=call.line,
        )


def _skill(call: _Call) -> Iterator[Event]:
    skill = text(first(call.arguments, "skill", "name"))
    if skill is not None:
        yield SkillEvent(skill=skill, strength="explicit", ok=call.ok, call_id=call.id, at=call.at, line=call.line)


def _user(record: Record, session: _Session) -> Iterator[Event]:
    """Tool results, and text in the user's role: the user's own only when no part of the CLI put it there."""
    flags = ("isSynthetic", "isMeta", "isCompactSummary", "parent_tool_use_id", "isSidechain")
    by_cli = any(record.value.get(flag) for flag in flags)
    for block in _content(record):
        words = text(block.get("text"))
        if block.get("type") == "tool_result":
            yield from _tool_result(block, record, session)
        elif words is not None:
            injected = by_cli or words.startswith(_INJECTED)
            yield MessageEvent(role="user", text=words, injected=injected, at=_at(record), line=record.line)
        elif block.get("type") not in ("text", "image", "document"):
            session.unknown[f"user/{block.get('type')}"] += 1


def _tool_result(block: JsonMap, record: Record, session: _Session) -> Iterator[Event]:
    call_id = text(block.get("tool_use_id"))
    yield ToolResultEvent(
        tool=session.tools.get(call_id) if call_id is not None else None,
        call_id=call_id,
        output=shown(block.get("content")),
        is_error=block.get("is_error") is True,
        at=_at(record),
        line=record.line,
    )


def _result_record(record: Record, session: _Session) -> Iterator[Event]:
    end = session.end
    if record.value is end.result and end.error is not None and not session.end_was_told:
        status = _status(end.result.get("api_error_status"))
        yield ErrorEvent(message=end.error, status=status, terminal=True, at=_at(record), line=record.line)


_THINKING = ("thinking", "redacted_thinking")
_RECORDS: dict[str, Callable[[Record, _Session], Iterator[Event]]] = {
    "system": _system,
    "assistant": _assistant,
    "user": _user,
    "result": _result_record,
}
_BLOCKS: dict[str, Callable[[JsonMap, Record, _Session], Iterator[Event]]] = {
    "text": _words,
    "thinking": _thought,
    "tool_use": _tool_use,
    "server_tool_use": _tool_use,
    "mcp_tool_use": _tool_use,
}
_TOOLS: dict[str, Callable[[_Call], Iterator[Event]]] = {
    "bash": _command,
    "powershell": _command,
    "read": _file_read,
    "notebookread": _file_read,
    "write": _file_write,
    "edit": _file_edit,
    "multiedit": _file_edit,
    "notebookedit": _file_edit,
    "skill": _skill,
}
