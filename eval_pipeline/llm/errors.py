"""Errors that a provider reports → ModelError.

Each provider has its own shape and its own codes for the same few errors, and gateways forward the codes of others, so
one table of codes serves all. Errors arrive with an HTTP status, inside a reply of status 200 or in a stream.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from eval_pipeline.failures import (
    AUTHENTICATION,
    MALFORMED_REPLY,
    TARGET_ERROR,
    FailureClass,
    failure_of_status,
)
from eval_pipeline.llm.reading import mapping, mappings, text

RETRYABLE_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
_ERROR_TEXT = 2_000
_DURATION = re.compile(r"(\d{1,9}(?:\.\d+)?)s\Z")

_STATUS_OF_WORD = {
    "invalid_request_error": 400, "INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400,
    "authentication_error": 401, "UNAUTHENTICATED": 401, "invalid_api_key": 401, "billing_error": 402,
    "permission_error": 403, "PERMISSION_DENIED": 403, "not_found_error": 404, "NOT_FOUND": 404,
    "model_not_found": 404, "request_too_large": 413, "rate_limit_error": 429, "rate_limit_exceeded": 429,
    "insufficient_quota": 429, "RESOURCE_EXHAUSTED": 429, "UNAVAILABLE": 503, "timeout_error": 504,
    "DEADLINE_EXCEEDED": 504, "overloaded_error": 529,
}  # fmt: skip
_BLOCKED = frozenset({"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation", "invalid_prompt"})
_NO_KEY = frozenset({"API_KEY_INVALID", "invalid_api_key"})
_FOR_GOOD = frozenset({"insufficient_quota", "enforced_spend_limit_reached"})


class ModelError(Exception):
    """A model call that returned no reply, with the cause as far as it is known.

    `retryable` is whether another attempt may succeed, `retry_after_s` the delay in seconds that the provider requests,
    `body` the beginning of its response. `partial` is what was read of a response that is too large.
    """

    def __init__(
        self,
        failure: FailureClass,
        message: str,
        *,
        retryable: bool = False,
        status: int | None = None,
        retry_after_s: float | None = None,
        body: str | None = None,
        partial: bytes | None = None,
    ) -> None:
        super().__init__(message)
        self.failure = failure
        self.retryable = retryable
        self.status = status
        self.retry_after_s = retry_after_s
        self.body = body
        self.partial = partial


def malformed(message: str) -> ModelError:
    """Return the error for a reply that does not follow the wire format. It is retryable."""
    return ModelError(MALFORMED_REPLY, message, retryable=True)


def status_error(status: int, reason: str, headers: Mapping[str, str], content: bytes) -> ModelError:
    """Return the error for a response with another status than 200."""
    body = content[:_ERROR_TEXT].decode(errors="replace")
    error = _error_in(_json(content), whole=True) or {}
    words = set(_words(error))
    failure, retryable = _classified(status, words)
    waits = [retry_after_s(headers, lambda: datetime.now(UTC)), _retry_delay_s(error)]
    return ModelError(
        failure,
        f"HTTP {status}: {_message(error)[:_ERROR_TEXT] or _redirection(headers) or body or reason}",
        retryable=_retry_header(headers, retryable),
        status=status,
        retry_after_s=next((wait for wait in waits if wait is not None), None),
        body=body,
    )


def _redirection(headers: Mapping[str, str]) -> str | None:
    place = headers.get("location")
    return f"it redirects to {place[:200]}; redirects are not followed" if place else None


def raise_reported(reply: Any) -> None:
    """Raise the error that a reply of status 200 or an event of a stream holds, if any."""
    if isinstance(reply, dict) and reply.get("error") is None and reply.get("type") != "error":
        return  # the common case, kept cheap
    error = _error_in(reply)
    if error is None:
        return
    words = set(_words(error))
    status = _status_in(error, words)
    failure, retryable = _classified(status, words)
    message = _message(error) or "the model reported an error"
    raise ModelError(failure, message, retryable=retryable, status=status, retry_after_s=_retry_delay_s(error))


def _classified(status: int, words: set[str]) -> tuple[FailureClass, bool]:
    """Return the failure class and whether a retry may help. A blocked prompt counts as the target's error."""
    if words & _BLOCKED:
        return TARGET_ERROR, False
    if words & _NO_KEY:
        return AUTHENTICATION, False
    if status < 400:
        return MALFORMED_REPLY, False
    return failure_of_status(status), status in RETRYABLE_STATUSES and not words & _FOR_GOOD


def _retry_header(headers: Mapping[str, str], retryable: bool) -> bool:
    """Return the provider's explicit retry hint (`x-should-retry`), else `retryable`."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", ""), retryable)


def _json(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return None


def _error_in(value: Any, *, whole: bool = False) -> Mapping[str, Any] | None:
    """Return the error object of a body: the value of `error` (an object or a text), or the body itself if `whole`."""
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, Mapping):
        return None
    error = value.get("error")
    if isinstance(error, str) and error:
        return {"message": error}
    if isinstance(error, Mapping):
        return error
    return value if whole or value.get("type") == "error" else None


def _message(error: Mapping[str, Any]) -> str:
    for key in ("message", "detail"):
        message = error.get(key)
        if isinstance(message, str) and message:
            return message
    return ""


def _words(error: Mapping[str, Any]) -> Iterator[str]:
    """Yield every code in an error that names its kind: types, codes and reasons, nested ones included."""
    inner = [mapping(error.get("innererror")), mapping(error.get("details")), *mappings(error.get("details"))]
    for part in (error, *inner):
        yield from (word for key in ("type", "code", "status", "reason", "error_code") if (word := text(part.get(key))))
    if "flagged_input" in mapping(error.get("metadata")):
        yield "content_filter"


def _status_in(error: Mapping[str, Any], words: set[str]) -> int:
    code = error.get("code")
    if isinstance(code, str) and code.isascii() and code.isdigit():
        code = int(code[:9])
    if isinstance(code, int) and 400 <= code < 600:
        return code
    return max((_STATUS_OF_WORD[word] for word in words if word in _STATUS_OF_WORD), default=500)


def _retry_delay_s(error: Mapping[str, Any]) -> float | None:
    """Return the delay in seconds of a `google.rpc.RetryInfo` (`"retryDelay": "34.5s"`), or None."""
    for detail in mappings(error.get("details")):
        match = _DURATION.match(text(detail.get("retryDelay")) or "")
        if match:
            return float(match[1])
    return None


def retry_after_s(headers: Mapping[str, str], now: Callable[[], datetime]) -> float | None:
    """Return the delay in seconds of `retry-after-ms` or `Retry-After` (seconds or an HTTP date, RFC 9110 §10.2.3), or
    None."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - now()).total_seconds())


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value is not None else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < 1e9 else None
