"""The ending of a session, and its report: an answer, or a failure with its class by status or text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_pipeline.agents.session_entries import CallReader, Entry, EntryReader, with_final_message
from eval_pipeline.agents.session_events import detected_skills, failure_without_result, within, without_result
from eval_pipeline.failures import (
    AUTHENTICATION,
    BAD_REQUEST,
    CONNECTION,
    MALFORMED_REPLY,
    MAX_STEPS,
    MODEL_REJECTED,
    RATE_LIMITED,
    SERVER_ERROR,
    TARGET_ERROR,
    TIMEOUT,
    FailureClass,
    failure_of_status,
)
from eval_pipeline.reports.jsonl_records import JsonMap, count, parse_json
from eval_pipeline.reports.model import ErrorEvent, Event, SessionReport, Usage
from eval_pipeline.reports.moments import milliseconds_between
from eval_pipeline.reports.normalize import RawSession

_STATUS = re.compile(
    r"""(?:\A|\bHTTP |\bstatus(?: code)?:? |\bError(?: code)?: |"code"\s?:\s?|API Error: )([45]\d\d)\b""", re.IGNORECASE
)
_TEXTS: tuple[tuple[re.Pattern[str], FailureClass], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), failure)
    for pattern, failure in (
        (r"context[ _](window|length)|too long|BadRequest", BAD_REQUEST),
        (r"model .*not (found|available|supported)|models?/\S+ is not found|NotFoundError|does not exist or you do not"
         r"|ModelNotFound", MODEL_REJECTED),
        (r"authenticat|log ?in|api key|unauthorized", AUTHENTICATION),
        (r"rate.?limit|quota", RATE_LIMITED),
        (r"(turn|step|iteration)s? .*(limit|exceed)|LimitsExceeded|TurnLimited|max(imum)? (session )?turns", MAX_STEPS),
        (r"timed out|timeout", TIMEOUT),
        (r"connect|ECONN|ENOTFOUND|fetch failed|socket|terminated|other side closed|premature close|EOF", CONNECTION),
        (r"JSON|parse|malformed|empty response|without (any )?response|finish.?reason", MALFORMED_REPLY),
        (r"server had an error|server error|overloaded|InternalServer|unavailable", SERVER_ERROR),
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The ending of a session: an answer, or a failure with its text and, where it is known, its HTTP status."""

    final_output: str | None = None
    failure: FailureClass | None = None
    error: str | None = None
    status: int | None = None


def with_answer(content: str | None) -> Ending:
    """The ending with an answer; an empty one is no answer, and no failure."""
    return Ending(final_output=content if content and content.strip() else None)


def failed(error: str, *, status: int | None = None, failure: FailureClass | None = None) -> Ending:
    """The ending with an error: its class by `failure`, else its HTTP status, else its text."""
    status = status if status is not None else status_in_text(error)
    by_status = failure_of_status(status) if status is not None else None
    by_text = next((failure for pattern, failure in _TEXTS if pattern.search(error)), TARGET_ERROR)
    return Ending(failure=failure or by_status or by_text, error=error, status=status)


def cut_short(*, printed: bool, stderr: str | None) -> Ending:
    """The ending of a session that stops in the middle of its work."""
    return Ending(failure=failure_without_result(stderr), error=without_result(printed, stderr))


def status_in_text(error: str) -> int | None:
    """The HTTP status that the text of an error names."""
    match = _STATUS.search(error)
    return int(match[1]) if match is not None else None


def error_status(value: object) -> int | None:
    """The value as an HTTP status of an error; None when it is none."""
    status = count(value)
    return status if status is not None and 400 <= status <= 599 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSession:
    """What the records of one session hold: entries in order, ending, usage and facts."""

    entries: Sequence[Entry]
    ending: Ending
    usage: Usage = field(default_factory=Usage)
    session_id: str | None = None
    model: str | None = None
    agent_version: str | None = None
    folder: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    duration_ms: float | None = None
    model_calls: int | None = None
    unknown: Mapping[str, int] = field(default_factory=Counter)
    unparsed_lines: int = 0


def session_report(material: RawSession, session: ReadSession, readers: Mapping[str, CallReader]) -> SessionReport:
    """The report of a session; a failure that no record is the event of becomes the last event."""
    ending = session.ending
    folder = session.folder or material.folder
    events = with_final_message(EntryReader(readers, folder).events(session.entries), ending.final_output is not None)
    events = within((*events, *_missing_error(events, ending)), session.folder, material.folder)
    return SessionReport(
        execution_id=material.execution_id,
        final_output=ending.final_output,
        session_id=session.session_id,
        model=session.model,
        agent_version=session.agent_version,
        usage=session.usage,
        events=events,
        skills=detected_skills(events),
        failure_class=ending.failure.id if ending.failure is not None else None,
        error=ending.error,
        started_at=session.started_at,
        ended_at=session.ended_at,
        duration_ms=session.duration_ms or milliseconds_between(session.started_at, session.ended_at),
        model_calls=session.model_calls or None,
        unknown_events=dict(session.unknown),
        unparsed_lines=session.unparsed_lines,
    )


def _missing_error(events: Iterable[Event], ending: Ending) -> list[Event]:
    if ending.error is None or any(isinstance(event, ErrorEvent) and event.terminal for event in events):
        return []
    return [ErrorEvent(message=ending.error, status=ending.status, terminal=True)]


def json_or_none(source: str | None) -> Any:
    """The value of a JSON text; None for no text and for a text that is no JSON."""
    try:
        return parse_json(source or "null")
    except (ValueError, RecursionError):
        return None


def summed(parts: Sequence[JsonMap], *names: str) -> int | None:
    """The sum of counts over the parts that report them; None when none does."""
    values = [value for part in parts for name in names if (value := count(part.get(name))) is not None]
    return sum(values) if values else None
