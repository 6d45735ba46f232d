"""`opencode`: what OpenCode prints with `run --format json`, and what `opencode export` prints (`session`).

Standard output has one record for each finished part of a message. An export has messages with the same parts and is
read when standard output has none; text around its JSON is left out. A tool call is printed once, when it is finished:
a session that is stopped in a tool shows nothing of it. Retries are silent. Success is a last step that ended with
`stop` and no error after it, whatever the exit code. Sources: recordings of 1.18.33, public exports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from eval_pipeline.agents.opencode.exports import records_of_export
from eval_pipeline.agents.session_endings import (
    Ending,
    ReadSession,
    cut_short,
    error_status,
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
    skill_call,
    spoken,
    thinking,
)
from eval_pipeline.failures import BAD_REQUEST, CANCELLED, TRUNCATED, FailureClass
from eval_pipeline.reports.jsonl_records import JsonMap, Record, amount, count, mapping, shown, text
from eval_pipeline.reports.model import ErrorEvent, MessageEvent, SessionReport, Usage
from eval_pipeline.reports.normalize import RawSession

READERS: Mapping[str, CallReader] = {
    "bash": command_call,
    "edit": file_edited,
    "multiedit": file_edited,
    "read": file_read,
    "skill": skill_call,
    "write": file_created,
}
_QUIET = frozenset(
    {"step_start", "step_finish", "snapshot", "patch", "file", "agent", "compaction", "subtask", "retry"}
)
_NAMED: Mapping[str, FailureClass] = {"ContextOverflowError": BAD_REQUEST, "MessageAbortedError": CANCELLED}
_INVALID = "invalid"

ESSENTIAL = ("step_finish",)
"""Records that are read even from the middle of a large output: sums and the ending need them."""


class OpenCodeNormalizer:
    """One run of OpenCode: its standard output, else the export of its session (`session`)."""

    version = "2"

    def normalize(self, material: RawSession) -> SessionReport:
        stdout, unknown = material.records("stdout", ESSENTIAL), Counter[str]()
        rows: Sequence[Record] = stdout.rows
        if not any(row.type in ("text", "tool_use", "step_finish", "error") for row in rows):
            rows = records_of_export(material.document("session")) or rows
        steps = [mapping(row.value.get("part")) for row in rows if row.type == "step_finish"]
        times = [at for row in rows if (at := moment_of_ms(row.value.get("timestamp")))]
        session = ReadSession(
            entries=tuple(entry for row in rows for entry in _entries(row, rows, unknown)),
            ending=_ending(rows, material.ends("stderr")),
            usage=_usage(steps),
            session_id=next((id_ for row in rows if (id_ := text(row.value.get("sessionID")))), None),
            model=next((model for row in rows if (model := text(row.value.get("model")))), None),
            agent_version=next((version for row in rows if (version := text(row.value.get("version")))), None),
            started_at=times[0] if times else None,
            ended_at=times[-1] if times else None,
            model_calls=len(steps),
            unknown=unknown,
            unparsed_lines=stdout.unparsed_lines,
        )
        return session_report(material, session, READERS)


def _entries(row: Record, rows: Sequence[Record], unknown: Counter[str]) -> Iterator[Entry]:
    part, at = mapping(row.value.get("part")), moment_of_ms(row.value.get("timestamp"))
    if row.type == "text":
        yield from spoken(text(part.get("text")), at=at, line=row.line)
    elif row.type == "reasoning":
        yield from thinking(text(part.get("text")), at=at, line=row.line)
    elif row.type == "tool_use":
        yield from _tool_use(row, part)
    elif row.type == "error":
        error = mapping(row.value.get("error"))
        message, status = _message(error), _status(error)
        yield ErrorEvent(message=message, status=status, terminal=_is_last(row, rows), at=at, line=row.line)
    elif row.type == "user":
        if content := text(part.get("text")):
            injected = part.get("synthetic") is True
            yield MessageEvent(role="user", text=content, injected=injected, at=at, line=row.line)
    elif row.type not in _QUIET:
        unknown[row.type or "no type"] += 1


def _tool_use(row: Record, part: JsonMap) -> Iterator[Entry]:
    """The call and, once it is finished, its result: both are one record."""
    state, metadata = mapping(part.get("state")), mapping(mapping(part.get("state")).get("metadata"))
    times = mapping(state.get("time"))
    call_id, tool, arguments = text(part.get("callID")), text(part.get("tool")) or "", state.get("input")
    named = text(mapping(arguments).get("tool"))
    exit_code = count(metadata.get("exit"))
    outcome = ToolOutcome(
        id=call_id,
        tool=named if tool == _INVALID and named else tool,
        output=shown(state.get("error") if state.get("status") == "error" else state.get("output")),
        is_error=state.get("status") == "error" or bool(exit_code) or tool == _INVALID,
        exit_code=exit_code,
        at=moment_of_ms(times.get("end")),
        line=row.line,
    )
    finished = state.get("status") in ("completed", "error")
    yield ToolCall(
        id=call_id,
        tool=outcome.tool or "",
        raw_arguments=arguments,
        folder=text(row.value.get("cwd")),
        outcome=outcome if finished else None,
        at=moment_of_ms(times.get("start")),
        line=row.line,
    )
    if finished:
        yield outcome


# The ending


def _ending(rows: Sequence[Record], stderr: str | None) -> Ending:
    points = [row for row in rows if row.type in ("step_start", "text", "tool_use", "step_finish", "error")]
    last = points[-1] if points else None
    if last is not None and last.type == "error":
        error = mapping(last.value.get("error"))
        return failed(_message(error), status=_status(error), failure=_NAMED.get(str(error.get("name"))))
    step = mapping(last.value.get("part")) if last is not None and last.type == "step_finish" else {}
    reason = text(step.get("reason"))
    if reason == "length":
        return Ending(failure=TRUNCATED, error="the answer was cut by the token limit")
    if last is None or reason in (None, "tool-calls"):
        return cut_short(printed=bool(points), stderr=stderr)
    begun = max((index for index, row in enumerate(points) if row.type == "step_start"), default=0)
    texts = [text(mapping(row.value.get("part")).get("text")) for row in points[begun:] if row.type == "text"]
    return with_answer("\n".join(content for content in texts if content))


def _is_last(row: Record, rows: Sequence[Record]) -> bool:
    return not any(other.line > row.line and other.type in ("text", "step_finish", "error") for other in rows)


def _message(error: JsonMap) -> str:
    data = mapping(error.get("data"))
    return text(data.get("message")) or text(error.get("message")) or text(error.get("name")) or "the session failed"


def _status(error: JsonMap) -> int | None:
    return error_status(mapping(error.get("data")).get("statusCode")) or status_in_text(_message(error))


# Usage


def _usage(steps: Sequence[JsonMap]) -> Usage:
    """The sum over the steps: OpenCode reports input without the cache, and output without reasoning."""
    tokens = [mapping(step.get("tokens")) for step in steps]
    caches = [mapping(part.get("cache")) for part in tokens]
    fresh, output = summed(tokens, "input"), summed(tokens, "output")
    cached, written, reasoning = summed(caches, "read"), summed(caches, "write"), summed(tokens, "reasoning")
    costs = [cost for step in steps if (cost := amount(step.get("cost")))]
    return Usage(
        input_tokens=None if fresh is None else fresh + (cached or 0) + (written or 0),
        cached_input_tokens=cached,
        cache_write_tokens=written,
        output_tokens=None if output is None else output + (reasoning or 0),
        reasoning_tokens=reasoning,
        cost_usd=sum(costs) if costs else None,
        cost_source="reported" if costs else None,
    )
