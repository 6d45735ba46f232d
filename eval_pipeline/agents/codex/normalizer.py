"""`codex`: what `codex exec --json` prints, and the rollout file of its thread.

The rollout tells more (which tools the model called, folders, times, usage of one turn, statuses of errors) and is read
first when it is there; standard output then adds what the rollout leaves out: retries, and how the run ended. Sources:
recordings of 0.169, and for older shapes (`msg`, `item_type`, rollouts without turns) issues of the CLI.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eval_pipeline.agents.codex.thread import Answer, Call, Step, Thread, own_turns, read_thread, status_in, step_of
from eval_pipeline.agents.session_events import detected_skills, read_events, resolved, without_result
from eval_pipeline.agents.shell_reads import shell_reads
from eval_pipeline.failures import (
    AUTHENTICATION,
    BAD_REQUEST,
    CANCELLED,
    CONNECTION,
    MODEL_REJECTED,
    RATE_LIMITED,
    SERVER_ERROR,
    TARGET_CRASH,
    TIMEOUT,
    TRUNCATED,
    FailureClass,
    failure_of_status,
)
from eval_pipeline.reports.jsonl_records import JsonMap, count, mapping, read_records, text
from eval_pipeline.reports.model import (
    CommandEvent,
    ErrorEvent,
    Event,
    FileWriteEvent,
    MessageEvent,
    SessionReport,
    ToolCallEvent,
    ToolResultEvent,
    Usage,
)
from eval_pipeline.reports.normalize import RawSession

_ERROR_KINDS: dict[str, FailureClass] = {
    "model_not_found": MODEL_REJECTED,
    "context_window_exceeded": BAD_REQUEST,
    "bad_request": BAD_REQUEST,
    "unauthorized": AUTHENTICATION,
    "usage_limit_exceeded": RATE_LIMITED,
    "server_overloaded": SERVER_ERROR,
    "internal_server_error": SERVER_ERROR,
}
_ERROR_TEXTS: tuple[tuple[re.Pattern[str], FailureClass], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), failure)
    for pattern, failure in (
        (r"context window|context_length|maximum context", BAD_REQUEST),
        (r"max_output_tokens|incomplete response", TRUNCATED),
        (r"model .*(does not exist|is not supported|not found)|model_not_found", MODEL_REJECTED),
        (r"usage limit|rate limit|quota", RATE_LIMITED),
        (r"invalid_request_error", BAD_REQUEST),
        (r"api key|unauthorized|not logged in|sign in", AUTHENTICATION),
        (r"interrupted|aborted", CANCELLED),
        (r"timed out|timeout", TIMEOUT),
        (r"transport error|network error|connection|error sending request", CONNECTION),
        (r"high demand|server|stream disconnected|overloaded", SERVER_ERROR),
    )
)


class CodexNormalizer:
    """One run of Codex: its standard output and, when it was kept, its rollout (`session`)."""

    version = "2"

    def normalize(self, material: RawSession) -> SessionReport:
        stdout, rollout = read_records(material.text("stdout")), read_records(material.text("session"))
        printed, kept = [step_of(row) for row in stdout.rows], [step_of(row) for row in rollout.rows]
        own, steps = own_turns(kept, printed), [*printed, *kept]
        thread = read_thread(own, printed, folder=_folder(steps, material))
        end = _end(thread, _usage(kept, own, printed), printed=bool(steps), stderr=material.text("stderr"))
        events = tuple(_events(thread, end))
        return SessionReport(
            execution_id=material.execution_id,
            final_output=end.final_output,
            session_id=_session_id(steps),
            model=_fact(steps, "turn_context", "model") or _fact(steps, "event/session_configured", "model"),
            agent_version=_fact(steps, "session_meta", "cli_version"),
            usage=end.usage,
            events=events,
            skills=detected_skills(events),
            failure_class=end.failure.id if end.failure is not None else None,
            error=end.error,
            ttft_ms=thread.ttft_ms,
            model_calls=sum(step.kind == "token_usage_record" for step in own) or None,
            unknown_events=dict(thread.unknown),
            unparsed_lines=stdout.unparsed_lines + rollout.unparsed_lines,
        )


def _folder(steps: Sequence[Step], material: RawSession) -> str | None:
    own = str(material.cwd) if material.cwd is not None else None
    return _fact(steps, "turn_context", "cwd") or _fact(steps, "session_meta", "cwd") or own


def _fact(steps: Sequence[Step], kind: str, name: str) -> str | None:
    return next((value for step in steps if step.kind == kind and (value := text(step.body.get(name)))), None)


def _session_id(steps: Sequence[Step]) -> str | None:
    names = (
        ("thread.started", "thread_id"), ("session.created", "session_id"), ("session_meta", "id"),
        ("session_meta", "session_id"), ("event/session_configured", "session_id"),
    )  # fmt: skip
    return next((value for kind, name in names if (value := _fact(steps, kind, name))), None)


# How it ended


@dataclass(frozen=True, slots=True)
class _End:
    """How a run ended: with an answer, or with a failure and its text."""

    usage: Usage
    final_output: str | None = None
    failure: FailureClass | None = None
    error: str | None = None


def _end(thread: Thread, usage: Usage, *, printed: bool, stderr: str | None) -> _End:
    if thread.ending == "completed":
        words = thread.last_words
        return _End(usage, final_output=words if words and words.strip() else None)
    known = usage if usage.input_tokens or usage.output_tokens else Usage()
    if thread.ending is None and thread.error is None:
        return _End(known, failure=TARGET_CRASH, error=without_result(printed, stderr))
    error = thread.error or "the turn failed"
    return _End(known, failure=_failure(error, thread), error=error)


def _failure(error: str, thread: Thread) -> FailureClass:
    """The failure class by the kind of error, its status, its text.

    Codex passes on a provider's own words only when it was refused at once; what it retried was the provider's fault.
    """
    if (kind := _ERROR_KINDS.get(str(thread.error_kind))) is not None:
        return kind
    status = _status_of(thread.error_kind) or status_in(error)
    if status is not None:
        return failure_of_status(status)
    by_text = next((failure for pattern, failure in _ERROR_TEXTS if pattern.search(error)), None)
    return by_text or (SERVER_ERROR if thread.retried else BAD_REQUEST)


def _status_of(kind: Any) -> int | None:
    """The status inside an error's kind: `{"http_connection_failed": {"http_status_code": 503}}`."""
    found = [count(mapping(details).get("http_status_code")) for details in mapping(kind).values()]
    return next((status for status in found if status is not None and 400 <= status <= 599), None)


# What it cost


def _usage(kept: Sequence[Step], own: Sequence[Step], printed: Sequence[Step]) -> Usage:
    """Usage of this run: of its turns in the rollout, else the thread's total less earlier turns, else as printed."""
    turns = {
        str(step.body.get("turn_id")): _tokens(mapping(step.body.get("turn_token_usage")))
        for step in own
        if step.kind == "token_usage_record" and step.body.get("turn_token_usage")
    }
    if turns:
        return _combined(list(turns.values()), sum)
    total, earlier = _counted(own), _counted(kept[: len(kept) - len(own)])
    if total is None:
        return _tokens(_printed_usage(printed))
    return _tokens(total) if earlier is None else _combined([_tokens(total), _tokens(earlier)], _difference)


def _printed_usage(printed: Sequence[Step]) -> JsonMap:
    reported = [mapping(step.body.get("usage")) for step in printed if step.kind == "turn.completed"]
    return reported[-1] if reported else _counted(printed) or {}


def _counted(steps: Sequence[Step]) -> JsonMap | None:
    """The thread's total as it was counted last; the oldest records hold the counts themselves."""
    for step in reversed(steps):
        if step.kind == "event/token_count":
            total = mapping(mapping(step.body.get("info")).get("total_token_usage"))
            total = total or (step.body if "input_tokens" in step.body else {})
            if total:
                return total
    return None


def _tokens(raw: JsonMap) -> Usage:
    """Codex counts as we do: cached input is part of the input, reasoning part of the output."""
    return Usage(
        input_tokens=count(raw.get("input_tokens")),
        cached_input_tokens=count(raw.get("cached_input_tokens")),
        cache_write_tokens=count(raw.get("cache_write_input_tokens")),
        output_tokens=count(raw.get("output_tokens")),
        reasoning_tokens=count(raw.get("reasoning_output_tokens")),
    )


def _combined(parts: Sequence[Usage], combine: Callable[[Sequence[int]], int]) -> Usage:
    """Each field of several usages combined; unknown when it is unknown in one of them."""

    def field(name: str) -> int | None:
        values = [getattr(part, name) for part in parts]
        return None if None in values else combine(values)

    return Usage(
        input_tokens=field("input_tokens"),
        cached_input_tokens=field("cached_input_tokens"),
        cache_write_tokens=field("cache_write_tokens"),
        output_tokens=field("output_tokens"),
        reasoning_tokens=field("reasoning_tokens"),
    )


def _difference(values: Sequence[int]) -> int:
    return max(0, values[0] - values[1])


# Thread → events


def _events(thread: Thread, end: _End) -> Iterator[Event]:
    final = _final_message(thread, end)
    for told in thread.told:
        if isinstance(told, Call):
            yield from _call_events(told)
        elif isinstance(told, Answer):
            yield _result(told)
        elif told is final:
            yield replace(final, phase="final")
        elif not (isinstance(told, ErrorEvent) and told.message == end.error):
            yield told
    if end.error is not None and (thread.ending is not None or thread.error is not None):
        yield ErrorEvent(message=end.error, status=status_in(end.error), terminal=True)


def _final_message(thread: Thread, end: _End) -> MessageEvent | None:
    said = (told for told in reversed(thread.told) if isinstance(told, MessageEvent) and told.phase == "commentary")
    return next((message for message in said if message.text == end.final_output), None)


def _call_events(call: Call) -> Iterator[Event]:
    if call.tool is not None:
        yield ToolCallEvent(tool=call.tool, call_id=call.id, arguments=call.arguments, at=call.at, line=call.line)
    if call.command is not None:
        yield from _command_events(call, call.command)
    ok = None if call.is_error is None else not call.is_error
    for path, how in call.writes.items():
        yield FileWriteEvent(path=path, how=how, ok=ok, call_id=call.id, at=call.at, line=call.line)


def _command_events(call: Call, command: str) -> Iterator[Event]:
    yield CommandEvent(
        command=command, exit_code=call.exit_code, output=call.output, call_id=call.id, at=call.at, line=call.line
    )
    reads = shell_reads(command)
    ok = reads.ok(call.exit_code)
    for path in reads.paths:
        whole = resolved(path, call.folder)
        yield from read_events(whole, folder=call.folder, ok=ok, call_id=call.id, at=call.at, line=call.line)


def _result(answer: Answer) -> ToolResultEvent:
    call = answer.call
    return ToolResultEvent(
        tool=call.tool,
        call_id=call.id,
        output=answer.output,
        is_error=call.is_error,
        duration_ms=call.duration_ms,
        at=answer.at,
        line=answer.line,
    )
