"""`qwen`: what Qwen Code prints with `-o stream-json`.

The records look like Claude Code's, and mean something else: input tokens include the cache, a model error is a
successful result whose text begins with `[API Error`, and a command that fails is no error and has no exit code. Usage
is that of the `result` record, which counts helper calls that no record shows; a session without one has the sum over
its messages. Sources: recordings of 0.15.10.
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
from eval_pipeline.reports.jsonl_records import JsonMap, Record, amount, listing, mapping, shown, text
from eval_pipeline.reports.model import ErrorEvent, MessageEvent, SessionReport, Usage
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
    """One run of Qwen Code by its standard output."""

    version = "2"

    def normalize(self, material: RawSession) -> SessionReport:
        stdout, unknown = material.records("stdout"), Counter[str]()
        rows = stdout.rows
        result = next((row.value for row in reversed(rows) if row.type == "result"), {})
        begin = next((row.value for row in rows if row.type == "system" and row.value.get("subtype") == "init"), {})
        ending = _ending(rows, result, material.ends("stderr"))
        session = ReadSession(
            entries=tuple(entry for row in rows for entry in _entries(row, unknown, ending)),
            ending=ending,
            usage=_usage(rows, result),
            session_id=next((id_ for row in rows if (id_ := text(row.value.get("session_id")))), None),
            model=text(begin.get("model")),
            agent_version=text(begin.get("qwen_code_version")),
            folder=text(begin.get("cwd")),
            duration_ms=amount(result.get("duration_ms")),
            model_calls=len([usage for usage in _message_usages(rows) if any(usage.values())]),
            unknown=unknown,
            unparsed_lines=stdout.unparsed_lines,
        )
        return session_report(material, session, READERS)


def _entries(row: Record, unknown: Counter[str], ending: Ending) -> Iterator[Entry]:
    if row.type not in ("assistant", "user"):
        unknown.update([row.type or "no type"] if row.type not in _QUIET else [])
        return
    content = mapping(row.value.get("message")).get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else listing(content)
    for block in map(mapping, blocks):
        kind = text(block.get("type")) or "no type"
        if kind == "text":
            yield from _text(row, text(block.get("text")), ending)
        elif kind == "thinking":
            yield from thinking(text(block.get("thinking")), at=None, line=row.line)
        elif kind == "tool_use":
            name, arguments = text(block.get("name")) or "", block.get("input")
            yield ToolCall(id=text(block.get("id")), tool=name, raw_arguments=arguments, line=row.line)
        elif kind == "tool_result":
            id_, is_error = text(block.get("tool_use_id")), block.get("is_error") is True
            yield ToolOutcome(id=id_, output=shown(block.get("content")), is_error=is_error, line=row.line)
        else:
            unknown[f"{row.type}/{kind}"] += 1


def _text(row: Record, content: str | None, ending: Ending) -> Iterator[Entry]:
    if row.type == "user":
        injected = row.value.get("parent_tool_use_id") is not None
        yield from ([MessageEvent(role="user", text=content, injected=injected, line=row.line)] if content else ())
        return
    match = _API_ERROR.search(content or "")
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


def _usage(rows: Sequence[Record], result: JsonMap) -> Usage:
    """Usage as it is reported. All zeros mean that nothing was."""
    parts = [mapping(result.get("usage"))] if result else _message_usages(rows)
    inputs, outputs = summed(parts, "input_tokens"), summed(parts, "output_tokens")
    if not inputs and not outputs:
        return Usage()
    return Usage(
        input_tokens=inputs, cached_input_tokens=summed(parts, "cache_read_input_tokens"), output_tokens=outputs
    )
