"""The ending of a Codex run: an answer, or a failure with its class."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from eval_pipeline.agents.codex.steps import status_in
from eval_pipeline.agents.codex.thread import Thread
from eval_pipeline.agents.session_events import failure_without_result, without_result
from eval_pipeline.failures import (
    AUTHENTICATION,
    BAD_REQUEST,
    CANCELLED,
    CONNECTION,
    MODEL_REJECTED,
    RATE_LIMITED,
    SERVER_ERROR,
    TIMEOUT,
    TRUNCATED,
    FailureClass,
    failure_of_status,
)
from eval_pipeline.reports.jsonl_records import count, mapping
from eval_pipeline.reports.model import Usage

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


@dataclass(frozen=True, slots=True)
class Ending:
    """The ending of a run: an answer, or a failure with its text."""

    usage: Usage
    final_output: str | None = None
    failure: FailureClass | None = None
    error: str | None = None


def ending_of(thread: Thread, usage: Usage, *, printed: bool, stderr: str | None) -> Ending:
    """Return the ending of a run by its thread; usage of all zeros in a failed run is unknown."""
    if thread.ending == "completed":
        content = thread.last_words
        return Ending(usage, final_output=content if content and content.strip() else None)
    known = usage if usage.input_tokens or usage.output_tokens else Usage()
    if thread.ending is None and thread.error is None:
        return Ending(known, failure=failure_without_result(stderr), error=without_result(printed, stderr))
    error = thread.error or "the turn failed"
    return Ending(known, failure=_failure(error, thread), error=error)


def _failure(error: str, thread: Thread) -> FailureClass:
    """The failure class by the kind of error, its status, its text.

    Codex reports a provider's own message only when the first request is refused; errors that it retries are the
    provider's.
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
    statuses = [count(mapping(details).get("http_status_code")) for details in mapping(kind).values()]
    return next((status for status in statuses if status is not None and 400 <= status <= 599), None)
