"""`cursor-agent`: what Cursor's agent prints with `--output-format stream-json`.

A tool call has a record for its start and one for its end; the arguments of both together are those of the call. Its
name is the key of the call without `ToolCall`. Input tokens do not include the cache. Unverified: written from sources
and tests of public adapters, not from recordings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

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
    moment_of_ms,
    spoken,
    thinking,
)
from eval_pipeline.reports.jsonl_records import JsonMap, Record, amount, count, mapping, shown, text
from eval_pipeline.reports.model import MessageEvent, SessionReport, Usage
from eval_pipeline.reports.normalize import RawSession

READERS: Mapping[str, CallReader] = {
    "edit": file_edited,
    "read": file_read,
    "shell": command_call,
    "write": file_created,
}
_SUFFIX = "ToolCall"
_QUIET = frozenset({"system", "result", "interaction_query"})


class CursorAgentNormalizer:
    """One run of Cursor's agent: its standard output, or the same records as the log of its session (`session`)."""

    version = "2"

    def normalize(self, material: RawSession) -> SessionReport:
        records, unknown = material.records("stdout"), Counter[str]()
        records = records if records.rows or records.unparsed_lines else material.records("session")
        rows = records.rows
        begin = next((row.value for row in rows if row.type == "system" and row.value.get("subtype") == "init"), {})
        result = next((row.value for row in reversed(rows) if row.type == "result"), {})
        session = ReadSession(
            entries=tuple(_entries(rows, unknown)),
            ending=_ending(rows, result, material.ends("stderr")),
            usage=_usage(mapping(result.get("usage"))),
            session_id=next((id_ for row in rows if (id_ := text(row.value.get("session_id")))), None),
            model=text(begin.get("model")),
            folder=text(begin.get("cwd")),
            duration_ms=amount(result.get("duration_ms")),
            unknown=unknown,
            unparsed_lines=records.unparsed_lines,
        )
        return session_report(material, session, READERS)


def _entries(rows: Sequence[Record], unknown: Counter[str]) -> Iterator[Entry]:
    ends = {id_: row for row in rows if row.value.get("subtype") == "completed" and (id_ := _call_id(row))}
    pieces: list[str] = []
    for row in rows:
        at = moment_of_ms(row.value.get("timestamp_ms"))
        if row.type in ("user", "assistant"):
            yield from _message(row, at)
        elif row.type == "thinking":
            pieces.append(text(row.value.get("text")) or "")
            if row.value.get("subtype") == "completed":
                yield from thinking("".join(pieces), at=at, line=row.line)
                pieces.clear()
        elif row.type == "tool_call":
            yield from _tool_call(row, ends, at)
        elif row.type not in _QUIET:
            unknown[row.type or "no type"] += 1


def _message(row: Record, at: str | None) -> Iterator[Entry]:
    content = shown(mapping(row.value.get("message")).get("content"))
    if row.type == "assistant":
        yield from spoken(content, at=at, line=row.line)
    elif content:
        yield MessageEvent(role="user", text=content, at=at, line=row.line)


def _call_id(row: Record) -> str | None:
    return text(row.value.get("call_id")) if row.type == "tool_call" else None


def _tool_call(row: Record, ends: Mapping[str, Record], at: str | None) -> Iterator[Entry]:
    """The call at its start, with the arguments of its end as well; the result at its end."""
    tool, body = _tool_of(row)
    outcome = _outcome(body.get("result"))
    outcome = replace(outcome, id=_call_id(row), tool=tool, at=at, line=row.line)
    if row.value.get("subtype") == "completed":
        yield outcome
        return
    end = ends.get(_call_id(row) or "")
    later = mapping(_tool_of(end)[1].get("args")) if end is not None else {}
    arguments = {**mapping(body.get("args")), **later}
    yield ToolCall(id=_call_id(row), tool=tool, raw_arguments=arguments, at=at, line=row.line)


def _tool_of(row: Record) -> tuple[str, JsonMap]:
    calls = mapping(row.value.get("tool_call"))
    name = next((key for key in calls if key.endswith(_SUFFIX)), next(iter(calls), ""))
    return str(name).removesuffix(_SUFFIX), mapping(calls.get(name))


def _outcome(result: Any) -> ToolOutcome:
    """The result of a call: a text, or an object with one key, `success` or how it failed."""
    kind, detail = next(iter(mapping(result).items()), ("success", result))
    facts = mapping(detail)
    exit_code = count(facts.get("exitCode"))
    streams = "".join(text(facts.get(name)) or "" for name in ("stdout", "stderr"))
    content = streams if "stdout" in facts else facts.get("content", detail)
    return ToolOutcome(output=shown(content), is_error=kind != "success" or bool(exit_code), exit_code=exit_code)


def _ending(rows: Sequence[Record], result: JsonMap, stderr: str | None) -> Ending:
    if not result:
        return cut_short(printed=bool(rows), stderr=stderr)
    answer = text(result.get("result"))
    if result.get("is_error") is True or result.get("subtype") not in (None, "success"):
        return failed(answer or text(result.get("subtype")) or "the session failed")
    return with_answer(answer)


def _usage(usage: JsonMap) -> Usage:
    cost = amount(usage.get("totalCost"))
    return Usage(
        input_tokens=summed([usage], "inputTokens", "cacheReadTokens", "cacheWriteTokens"),
        cached_input_tokens=count(usage.get("cacheReadTokens")),
        cache_write_tokens=count(usage.get("cacheWriteTokens")),
        output_tokens=count(usage.get("outputTokens")),
        cost_usd=cost,
        cost_source="reported" if cost is not None else None,
    )
