"""The ending of a Copilot session: an answer, or a failure with its class."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eval_pipeline.agents.copilot.records import TURNING_POINTS, data_of, error_status, is_by_main_agent
from eval_pipeline.agents.copilot.usage import call_usages
from eval_pipeline.agents.session_events import failure_without_result, without_result
from eval_pipeline.failures import (
    AUTHENTICATION,
    BAD_REQUEST,
    CANCELLED,
    CONNECTION,
    MODEL_REJECTED,
    RATE_LIMITED,
    SERVER_ERROR,
    TARGET_ERROR,
    TIMEOUT,
    TRUNCATED,
    FailureClass,
    failure_of_status,
)
from eval_pipeline.reports.jsonl_records import JsonMap, Record, listing, text

_ERROR_TYPES: Mapping[str, FailureClass] = {"authentication": AUTHENTICATION, "rate_limit": RATE_LIMITED}
_ERROR_TEXTS: tuple[tuple[re.Pattern[str], FailureClass], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), failure)
    for pattern, failure in (
        (r"context (window|length)|too long", BAD_REQUEST),
        (r"model .*not (found|available|supported)", MODEL_REJECTED),
        (r"authenticat|log ?in|api key", AUTHENTICATION),
        (r"rate limit|quota", RATE_LIMITED),
        (r"timed out|timeout", TIMEOUT),
        (r"response body|connection|ECONN|ENOTFOUND|fetch failed|socket|EOF", CONNECTION),
        (r"failed to get response|server error|overloaded", SERVER_ERROR),
    )
)


@dataclass(frozen=True, slots=True)
class Ending:
    """The ending of a session: an answer, or a failure with its text and line."""

    final_output: str | None = None
    answer_line: int | None = None
    failure: FailureClass | None = None
    error: str | None = None
    error_line: int | None = None


def ending_of(records: Sequence[Record], printed: Sequence[Record], stderr: str | None) -> Ending:
    """The ending by the last event; a run whose output was kept needs a `result` record, too."""
    points = [row for row in records if row.type in TURNING_POINTS and is_by_main_agent(row)]
    last = points[-1] if points else None
    if last is not None and last.type in ("session.error", "abort"):
        return _failed_ending(last)
    result = next((row.value for row in reversed(printed) if row.type == "result"), {})
    if (printed and not result and not _is_final(last)) or last is None:
        return Ending(failure=failure_without_result(stderr), error=without_result(bool(records), stderr))
    if result.get("exitCode") not in (None, 0):
        return Ending(failure=TARGET_ERROR, error=f"the session ended with exit code {result['exitCode']}")
    if last.type != "assistant.message" or (not result and listing(data_of(last).get("toolRequests"))):
        return Ending(failure=failure_without_result(stderr), error=without_result(True, stderr))
    if any(usage.get("finishReason") == "length" for usage in call_usages(records)[-1:]):
        return Ending(failure=TRUNCATED, error="the answer was cut by the token limit")
    answer = text(data_of(last).get("content"))
    return Ending(final_output=answer if answer and answer.strip() else None, answer_line=last.line)


def _is_final(last: Record | None) -> bool:
    """Return whether a message is marked as the answer, after which older versions print nothing."""
    return last is not None and last.type == "assistant.message" and data_of(last).get("phase") == "final_answer"


def _failed_ending(last: Record) -> Ending:
    data = data_of(last)
    if last.type == "abort":
        reason = text(data.get("reason"))
        error_text = "the session was aborted" + (f": {reason}" if reason else "")
        return Ending(failure=CANCELLED, error=error_text, error_line=last.line)
    error = text(data.get("message")) or text(data.get("errorType")) or "the session failed"
    return Ending(failure=_failure(data, error), error=error, error_line=last.line)


def _failure(data: JsonMap, error: str) -> FailureClass:
    """The failure class by the most specific fact: status, type of the error, text."""
    status = error_status(data, error)
    if status is not None:
        return failure_of_status(status)
    by_type = _ERROR_TYPES.get(str(data.get("errorType")))
    return by_type or next((failure for pattern, failure in _ERROR_TEXTS if pattern.search(error)), TARGET_ERROR)
