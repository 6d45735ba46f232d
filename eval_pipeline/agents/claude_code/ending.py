"""The ending of a Claude Code session: an answer, or a failure with its class."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from eval_pipeline.agents.claude_code.records import error_status, is_api_error, message_text, status_in_text
from eval_pipeline.agents.session_events import failure_without_result, without_result
from eval_pipeline.failures import (
    AUTHENTICATION,
    BAD_REQUEST,
    CANCELLED,
    CONNECTION,
    MALFORMED_REPLY,
    MAX_STEPS,
    MODEL_REJECTED,
    RATE_LIMITED,
    SERVER_ERROR,
    TARGET_ERROR,
    TIMEOUT,
    TRUNCATED,
    FailureClass,
    failure_of_status,
)
from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.jsonl_records import JsonMap, Record, listing, shown, text

_ENDINGS: dict[str, FailureClass] = {
    "max_turns": MAX_STEPS,
    "error_max_turns": MAX_STEPS,
    "budget_exhausted": MAX_STEPS,
    "error_max_budget_usd": MAX_STEPS,
    "error_max_structured_output_retries": MALFORMED_REPLY,
    "max_output_tokens": TRUNCATED,
    "prompt_too_long": BAD_REQUEST,
    "aborted_tools": CANCELLED,
    "aborted_streaming": CANCELLED,
}
_API_ERRORS: dict[str, FailureClass] = {
    "authentication_failed": AUTHENTICATION,
    "billing_error": AUTHENTICATION,
    "rate_limit": RATE_LIMITED,
    "overloaded": SERVER_ERROR,
    "server_error": SERVER_ERROR,
    "model_not_found": MODEL_REJECTED,
    "max_output_tokens": TRUNCATED,
}
_ERROR_TEXTS: tuple[tuple[re.Pattern[str], FailureClass], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), failure)
    for pattern, failure in (
        (r"output token maximum", TRUNCATED),
        (r"prompt is too long", BAD_REQUEST),
        (r"issue with the selected model", MODEL_REJECTED),
        (r"invalid api key|not logged in|please run /login|authenticat", AUTHENTICATION),
        (r"usage limit|rate limit", RATE_LIMITED),
        (r"timed out|timeout", TIMEOUT),
        (r"connection|ECONN|ENOTFOUND|fetch failed|socket", CONNECTION),
        (r"API Error", SERVER_ERROR),
    )
)


@dataclass(frozen=True, slots=True)
class Ending:
    """The ending of a session: an answer, or a failure with its text. `result` is empty when none was printed."""

    result: JsonMap
    final_output: str | None = None
    failure: FailureClass | None = None
    error: str | None = None


def last_result(records: Sequence[Record]) -> JsonMap:
    """Return the last `result` record; empty without one."""
    return next((record.value for record in reversed(records) if record.type == "result"), {})


def ending_of(result: JsonMap, records: Sequence[Record], *, printed: bool, stderr: str | None) -> Ending:
    """Return the ending by the `result` record and the records of messages."""
    if not result:
        return Ending(result, failure=failure_without_result(stderr), error=without_result(printed, stderr))
    if result.get("is_error") is not True and not str(result.get("subtype")).startswith("error"):
        return Ending(result, final_output=_answer(result))
    error = _error_text(result, records)
    return Ending(result, failure=_failure(result, records, error), error=error)


def _answer(result: JsonMap) -> str | None:
    structured = result.get("structured_output")
    answer = text(result.get("result")) or (to_json(structured).decode() if structured is not None else None)
    return answer if answer and answer.strip() else None


def _error_text(result: JsonMap, records: Sequence[Record]) -> str:
    errors = "; ".join(shown(error) for error in listing(result.get("errors")))
    synthetic = next((message_text(record) for record in reversed(records) if is_api_error(record)), None)
    return text(result.get("result")) or errors or synthetic or text(result.get("subtype")) or "the session failed"


def _failure(result: JsonMap, records: Sequence[Record], error: str) -> FailureClass:
    """Return the failure class by the most specific fact: reason of the end, kind of API error, status, text."""
    for name in ("api_error", "terminal_reason", "subtype"):
        if (ending := _ENDINGS.get(str(result.get(name)))) is not None:
            return ending
    kinds = [str(record.value.get("error")) for record in records if is_api_error(record)]
    if kinds and kinds[-1] in _API_ERRORS:
        return _API_ERRORS[kinds[-1]]
    status = error_status(result.get("api_error_status")) or status_in_text(error)
    if status is not None:
        return failure_of_status(status)
    return next((failure for pattern, failure in _ERROR_TEXTS if pattern.search(error)), TARGET_ERROR)
