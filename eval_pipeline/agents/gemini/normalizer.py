"""`gemini`: what Gemini CLI prints with `-o stream-json`.

An assistant's message comes in pieces, which are joined up to the next other record. Reasoning, retries, and exit codes
of commands are not printed: a command that fails is a success, so its exit code stays unknown. Output tokens without
reasoning are printed; with it they are the total less the input. Sources: recordings of 0.61.0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, takewhile

from eval_pipeline.agents.session_endings import (
    Ending,
    ReadSession,
    cut_short,
    error_status,
    failed,
    session_report,
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
)
from eval_pipeline.failures import MAX_STEPS, FailureClass
from eval_pipeline.reports.jsonl_records import (
    JsonMap,
    Record,
    amount,
    count,
    mapping,
    moment,
    shown,
    text,
)
from eval_pipeline.reports.model import ErrorEvent, MessageEvent, SessionReport, Usage
from eval_pipeline.reports.moments import span_of
from eval_pipeline.reports.normalize import RawSession

READERS: Mapping[str, CallReader] = {
    "activate_skill": skill_call,
    "read_file": file_read,
    "replace": file_edited,
    "run_shell_command": command_call,
    "write_file": file_created,
}
_ERROR_TYPES: Mapping[str, FailureClass] = {"FatalTurnLimitedError": MAX_STEPS}


class GeminiNormalizer:
    """One run of Gemini CLI by its standard output."""

    version = "2"

    def normalize(self, material: RawSession) -> SessionReport:
        stdout, unknown = material.records("stdout"), Counter[str]()
        rows, begin = stdout.rows, next((row.value for row in stdout.rows if row.type == "init"), {})
        result = next((row.value for row in reversed(rows) if row.type == "result"), {})
        ending = _ending(rows, result, material.ends("stderr"))
        started_at, ended_at = span_of(rows)
        session = ReadSession(
            entries=tuple(_entries(rows, unknown)),
            ending=ending,
            usage=_usage(mapping(result.get("stats"))),
            session_id=text(begin.get("session_id")),
            model=text(begin.get("model")),
            started_at=started_at,
            ended_at=ended_at,
            duration_ms=amount(mapping(result.get("stats")).get("duration_ms")),
            unknown=unknown,
            unparsed_lines=stdout.unparsed_lines,
        )
        return session_report(material, session, READERS)


def _entries(rows: Sequence[Record], unknown: Counter[str]) -> Iterator[Entry]:
    for index, row in enumerate(rows):
        at = moment(row.value.get("timestamp"))
        if row.type == "message":
            yield from _message(rows, index, at)
        elif row.type == "tool_use":
            yield ToolCall(
                id=text(row.value.get("tool_id")),
                tool=text(row.value.get("tool_name")) or "",
                raw_arguments=row.value.get("parameters"),
                at=at,
                line=row.line,
            )
        elif row.type == "tool_result":
            yield _outcome(row, at)
        elif row.type == "error":
            message = text(row.value.get("message")) or "error"
            yield ErrorEvent(message=message, at=at, line=row.line)
        elif row.type not in ("init", "result"):
            unknown[row.type or "no type"] += 1


def _message(rows: Sequence[Record], index: int, at: str | None) -> Iterator[Entry]:
    """A whole message at its first piece; nothing at the others."""
    row = rows[index]
    if row.value.get("role") != "assistant":
        if content := text(row.value.get("content")):
            yield MessageEvent(role="user", text=content, at=at, line=row.line)
    elif index == 0 or not _is_piece(rows[index - 1]):
        yield from spoken(_joined(rows, index), at=at, line=row.line)


def _is_piece(row: Record) -> bool:
    return row.type == "message" and row.value.get("role") == "assistant"


def _joined(rows: Sequence[Record], begin: int) -> str:
    """The text of the pieces from a record on."""
    pieces = takewhile(_is_piece, islice(rows, begin, None))
    return "".join(text(row.value.get("content")) or "" for row in pieces)


def _outcome(row: Record, at: str | None) -> ToolOutcome:
    error = mapping(row.value.get("error"))
    return ToolOutcome(
        id=text(row.value.get("tool_id")),
        output=shown(row.value.get("output") or error.get("message")),
        is_error=None if row.value.get("status") is None else row.value["status"] != "success",
        at=at,
        line=row.line,
    )


def _ending(rows: Sequence[Record], result: JsonMap, stderr: str | None) -> Ending:
    if not result:
        return cut_short(printed=bool(rows), stderr=stderr)
    if result.get("status") != "success":
        error = mapping(result.get("error"))
        message = text(error.get("message")) or text(error.get("type")) or "the session failed"
        return failed(message, status=error_status(error.get("code")), failure=_ERROR_TYPES.get(str(error.get("type"))))
    talk = [index for index, row in enumerate(rows) if row.type in ("message", "tool_use", "tool_result")]
    begun = talk[-1] if talk else 0
    while begun > 0 and _is_piece(rows[begun]) and _is_piece(rows[begun - 1]):
        begun -= 1
    return with_answer(_joined(rows, begun))


def _usage(stats: JsonMap) -> Usage:
    """Usage of this run. All zeros mean that nothing was reported."""
    inputs, outputs, total = (count(stats.get(name)) for name in ("input_tokens", "output_tokens", "total_tokens"))
    if not any((inputs, outputs, total)):
        return Usage()
    thought = total - inputs - outputs if None not in (inputs, outputs, total) else None  # type: ignore[operator]
    known = thought is not None and thought >= 0
    return Usage(
        input_tokens=inputs,
        cached_input_tokens=count(stats.get("cached")),
        output_tokens=outputs + (thought or 0) if outputs is not None and known else outputs,
        reasoning_tokens=thought if known else None,
    )
