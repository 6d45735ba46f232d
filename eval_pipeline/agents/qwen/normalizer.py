"""`qwen`: what Qwen Code prints with `-o stream-json`, and its chat log (`session`).

The records look like Claude Code's, and mean something else: input tokens include the cache, a model error is a
successful result whose text begins with `[API Error`, and a command that fails is no error and has no exit code. Usage
is that of the `result` record, which counts helper calls that no record shows; a session without one has the sum over
the calls in its log, else over its messages. Exit codes, times, refused calls and reasoning tokens are in the log
alone: without it they stay unknown. Sources: recordings of 0.15.10.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from eval_pipeline.agents.logged_answers import LogCursor
from eval_pipeline.agents.qwen.chat_log import logged_answers, logged_usage
from eval_pipeline.agents.session_endings import (
    Ending,
    ReadSession,
    cut_short,
    failed,
    session_report,
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
    skill_call,
    spoken,
    thinking,
)
from eval_pipeline.failures import MAX_STEPS
from eval_pipeline.reports.jsonl_records import JsonMap, Record, Records, amount, listing, mapping, shown, text
from eval_pipeline.reports.model import ErrorEvent, MessageEvent, SessionReport, Usage
from eval_pipeline.reports.moments import span_of
from eval_pipeline.reports.normalize import RawSession

READERS: Mapping[str, CallReader] = {
    "edit": file_edited,
    "read_file": file_read,
    "run_shell_command": command_call,
    "skill": skill_call,
    "write_file": file_created,
}
_API_ERROR = re.compile(r"\[API Error: (?P<error>.*)\]\s*\Z", re.DOTALL)
_TURN_LIMIT = re.compile(r"[^\n]*max(?:imum)? session turns[^\n]*", re.IGNORECASE)
_QUIET = frozenset({"system", "result", "stream_event"})


class QwenNormalizer:
    """One run of Qwen Code by its standard output, completed by its chat log where that was kept."""

    version = "3"

    def normalize(self, material: RawSession) -> SessionReport:
        return report_of(material, material.records("stdout"), material.records("session").rows)


def report_of(material: RawSession, stdout: Records, log: Sequence[Record]) -> SessionReport:
    """Return the report of what was printed, with what else the chat log of the same run has."""
    rows, unknown = stdout.rows, Counter[str]()
    result = next((row.value for row in reversed(rows) if row.type == "result"), {})
    begin = next((row.value for row in rows if row.type == "system" and row.value.get("subtype") == "init"), {})
    ending = _ending(rows, result, material.ends("stderr"))
    started_at, ended_at = span_of(log)
    session = ReadSession(
        entries=tuple(_entries(rows, LogCursor(logged_answers(log, ending.error)), unknown, ending)),
        ending=ending,
        usage=_usage(rows, result, logged_usage(log)),
        session_id=next((id_ for row in rows if (id_ := text(row.value.get("session_id")))), None),
        model=text(begin.get("model")),
        agent_version=text(begin.get("qwen_code_version")),
        folder=text(begin.get("cwd")),
        started_at=started_at,
        ended_at=ended_at,
        duration_ms=amount(result.get("duration_ms")),
        model_calls=len([usage for usage in _message_usages(rows) if any(usage.values())]),
        unknown=unknown,
        unparsed_lines=stdout.unparsed_lines,
    )
    return session_report(material, session, READERS)


def _entries(rows: Sequence[Record], log: LogCursor, unknown: Counter[str], ending: Ending) -> Iterator[Entry]:
    for row in rows:
        if row.type in ("assistant", "user"):
            yield from _message(row, log, unknown, ending)
        else:
            unknown.update([row.type or "no type"] if row.type not in _QUIET else [])
    yield from log.rest(rows[-1].line if rows else 0)


def _message(row: Record, log: LogCursor, unknown: Counter[str], ending: Ending) -> Iterator[Entry]:
    content = mapping(row.value.get("message")).get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else listing(content)
    for block in map(mapping, blocks):
        kind = text(block.get("type")) or "no type"
        if kind == "text":
            yield from _text(row, log, text(block.get("text")), ending)
        elif kind == "thinking":
            yield from log.before_words(text(block.get("thinking")), row.line)
            yield from thinking(text(block.get("thinking")), at=None, line=row.line)
        elif kind == "tool_use":
            yield from _call(row, log, block)
        elif kind == "tool_result":
            yield _outcome(row, log, block)
        else:
            unknown[f"{row.type}/{kind}"] += 1


def _call(row: Record, log: LogCursor, block: JsonMap) -> Iterator[Entry]:
    id_, name, arguments = text(block.get("id")), text(block.get("name")) or "", block.get("input")
    yield from log.before_call(id_, row.line)
    yield ToolCall(id=id_, tool=name, raw_arguments=arguments, at=log.call(id_).called_at, line=row.line)


def _outcome(row: Record, log: LogCursor, block: JsonMap) -> ToolOutcome:
    id_ = text(block.get("tool_use_id"))
    logged = log.call(id_)
    return ToolOutcome(
        id=id_,
        output=shown(block.get("content")) or logged.output,
        is_error=block.get("is_error") is True or bool(logged.exit_code),
        exit_code=logged.exit_code,
        at=logged.ended_at,
        line=row.line,
    )


def _text(row: Record, log: LogCursor, content: str | None, ending: Ending) -> Iterator[Entry]:
    if row.type == "user":
        injected = row.value.get("parent_tool_use_id") is not None
        yield from ([MessageEvent(role="user", text=content, injected=injected, line=row.line)] if content else ())
        return
    match = _API_ERROR.search(content or "")
    yield from log.before_words(content, row.line) if match is None else log.rest(row.line)
    yield from spoken((content or "")[: match.start()].strip() if match else content, at=None, line=row.line)
    if match is not None:
        error = failed(match["error"])
        terminal = match["error"] == ending.error
        yield ErrorEvent(message=match["error"], status=error.status, terminal=terminal, line=row.line)


def _ending(rows: Sequence[Record], result: JsonMap, stderr: str | None) -> Ending:
    if not result:
        limit = _TURN_LIMIT.search(stderr or "")
        if limit is not None:
            return failed(limit[0].strip(), failure=MAX_STEPS)
        return cut_short(printed=bool(rows), stderr=stderr)
    answer = text(result.get("result"))
    match = _API_ERROR.search(answer or "")
    if match is not None:
        return failed(match["error"])
    if result.get("is_error") is True or str(result.get("subtype")).startswith("error"):
        message = text(mapping(result.get("error")).get("message"))
        return failed(message or answer or text(result.get("subtype")) or "the session failed")
    return with_answer(answer)


def _message_usages(rows: Sequence[Record]) -> list[JsonMap]:
    return [mapping(mapping(row.value.get("message")).get("usage")) for row in rows if row.type == "assistant"]


def _usage(rows: Sequence[Record], result: JsonMap, logged: Usage) -> Usage:
    """Usage as it is reported. All zeros mean that nothing was."""
    parts = [mapping(result.get("usage"))] if result else _message_usages(rows)
    inputs, outputs = summed(parts, "input_tokens"), summed(parts, "output_tokens")
    if not result and logged.input_tokens is not None:
        return logged
    if not inputs and not outputs:
        return Usage()
    return Usage(
        input_tokens=inputs,
        cached_input_tokens=summed(parts, "cache_read_input_tokens"),
        output_tokens=outputs,
        reasoning_tokens=logged.reasoning_tokens,
    )
