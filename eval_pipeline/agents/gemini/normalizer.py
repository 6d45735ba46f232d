"""`gemini`: what Gemini CLI prints with `-o stream-json`, and its chat log (`session`).

An assistant's message comes in pieces, which are joined up to the next other record. Reasoning, results of tools that
read and write files, exit codes of commands and calls of the model are in the log alone: without it they stay unknown.
Retries are in neither. Output tokens without reasoning are printed; with it they are the total less the input. A
session that was ended has no `result`: its usage is that of the log. Sources: recordings of 0.61.0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, takewhile

from eval_pipeline.agents.gemini.chat_log import answers_of_run, logged_answers, stats_of
from eval_pipeline.agents.logged_answers import LogCursor
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
    Records,
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
    """One run of Gemini CLI by its standard output, completed by its chat log where that was kept."""

    version = "3"

    def normalize(self, material: RawSession) -> SessionReport:
        answers = answers_of_run([row.value for row in material.records("session").rows])
        return report_of(material, material.records("stdout"), answers)


def report_of(material: RawSession, stdout: Records, answers: Sequence[JsonMap]) -> SessionReport:
    """Return the report of what was printed; `answers` are the model's messages in the chat log."""
    rows, unknown = stdout.rows, Counter[str]()
    begin = next((row.value for row in rows if row.type == "init"), {})
    result = next((row.value for row in reversed(rows) if row.type == "result"), {})
    stats = mapping(result.get("stats"))
    started_at, ended_at = span_of(rows)
    session = ReadSession(
        entries=tuple(_entries(rows, LogCursor(logged_answers(answers)), unknown)),
        ending=_ending(rows, result, material.ends("stderr")),
        usage=_usage(stats if result else stats_of(answers)),
        session_id=text(begin.get("session_id")),
        model=text(begin.get("model")),
        started_at=started_at,
        ended_at=ended_at,
        duration_ms=amount(stats.get("duration_ms")),
        model_calls=sum(bool(answer.get("tokens")) for answer in answers),
        unknown=unknown,
        unparsed_lines=stdout.unparsed_lines,
    )
    return session_report(material, session, READERS)


def _entries(rows: Sequence[Record], log: LogCursor, unknown: Counter[str]) -> Iterator[Entry]:
    for index, row in enumerate(rows):
        at = moment(row.value.get("timestamp"))
        if row.type == "message":
            yield from _message(rows, index, log, at)
        elif row.type == "tool_use":
            call_id = text(row.value.get("tool_id"))
            yield from log.before_call(call_id, row.line)
            yield ToolCall(
                id=call_id,
                tool=text(row.value.get("tool_name")) or "",
                raw_arguments=row.value.get("parameters"),
                at=at,
                line=row.line,
            )
        elif row.type == "tool_result":
            yield _outcome(row, log, at)
        elif row.type == "error":
            message = text(row.value.get("message")) or "error"
            yield ErrorEvent(message=message, at=at, line=row.line)
        elif row.type not in ("init", "result"):
            unknown[row.type or "no type"] += 1
    yield from log.rest(rows[-1].line if rows else 0)


def _message(rows: Sequence[Record], index: int, log: LogCursor, at: str | None) -> Iterator[Entry]:
    """A whole message at its first piece; nothing at the others."""
    row = rows[index]
    if row.value.get("role") != "assistant":
        if content := text(row.value.get("content")):
            yield MessageEvent(role="user", text=content, at=at, line=row.line)
    elif index == 0 or not _is_piece(rows[index - 1]):
        words = _joined(rows, index)
        yield from log.before_words(words, row.line)
        yield from spoken(words, at=at, line=row.line)


def _is_piece(row: Record) -> bool:
    return row.type == "message" and row.value.get("role") == "assistant"


def _joined(rows: Sequence[Record], begin: int) -> str:
    """The text of the pieces from a record on."""
    pieces = takewhile(_is_piece, islice(rows, begin, None))
    return "".join(text(row.value.get("content")) or "" for row in pieces)


def _outcome(row: Record, log: LogCursor, at: str | None) -> ToolOutcome:
    call_id, error, status = text(row.value.get("tool_id")), mapping(row.value.get("error")), row.value.get("status")
    logged = log.call(call_id)
    return ToolOutcome(
        id=call_id,
        output=shown(row.value.get("output") or error.get("message")) or logged.output,
        is_error=None if status is None else status != "success" or bool(logged.exit_code),
        exit_code=logged.exit_code,
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
