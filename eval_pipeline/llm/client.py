"""One async chat client for models: targets, simulators and graders all use it.

It speaks the OpenAI chat-completions wire format, streaming and not. The seam to the network is an
`httpx.AsyncBaseTransport` (by default aiohttp's pool under httpx); a test passes its own. Requests go to the transport
directly: one URL, no cookies, no redirects, so a call costs little more than half the CPU of `AsyncClient.post`
(README, Decisions).
"""

from __future__ import annotations

import io
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import httpx
import orjson
from httpx_aiohttp import AiohttpTransport

from eval_pipeline.errors import InputError, Place
from eval_pipeline.failures import (
    CONNECTION,
    MALFORMED_REPLY,
    TIMEOUT,
    FailureClass,
    failure_of_status,
)
from eval_pipeline.fingerprints import to_json

CONNECT_TIMEOUT_S = 15.0
RETRYABLE_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
_ERROR_TEXT = 2_000
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_NOT_IN_HEADERS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class ModelError(Exception):
    """A call to a model that brought no reply, with what is known of why."""

    def __init__(
        self,
        failure: FailureClass,
        message: str,
        *,
        retryable: bool = False,
        status: int | None = None,
        retry_after_s: float | None = None,
        body: str | None = None,
    ) -> None:
        super().__init__(message)
        self.failure = failure
        self.retryable = retryable
        self.status = status
        self.retry_after_s = retry_after_s
        self.body = body


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """A model's reply: the response object of the wire format (streams are put together), and the time to the first
    token in milliseconds, known for streams only."""

    response: Mapping[str, Any]
    ttft_ms: float | None = None


class ChatClient:
    """Calls one chat-completions endpoint. `base_url` is what comes before `/chat/completions`.

    Raises InputError for an address or a header that no request can be made with.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        max_connections: int = 100,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = _address(base_url)
        self._transport = transport
        self._max_connections = max_connections
        fixed = {
            "host": self._url.netloc.decode(),
            "content-type": "application/json",
            "accept-encoding": "gzip, deflate",
            "user-agent": "eval-pipeline",
        }
        if api_key:
            fixed["authorization"] = f"Bearer {_header_value(api_key, 'api_key')}"
        for name, value in (headers or {}).items():
            fixed[_header_name(name)] = _header_value(value, f"headers.{name}")
        self._headers = [(name.encode(), value.encode()) for name, value in fixed.items()]

    async def complete(self, body: Mapping[str, Any], *, timeout_s: float) -> ChatReply:
        """The reply to one request body. Raises ModelError; `timeout_s` bounds each wait for the network."""
        request = httpx.Request(
            "POST", self._url, headers=self._headers, content=to_json(body), extensions=_timeouts(timeout_s)
        )
        begun = time.perf_counter()
        request.headers.encoding = "utf-8"  # said once, it is not guessed anew for each of them
        try:
            response = await self._open_transport().handle_async_request(request)
            try:
                if response.status_code != 200:
                    raise _status_error(response, await response.aread())
                if body.get("stream") and not _is_plain_json(response):
                    return await _read_stream(response, begun)
                return ChatReply(response=_checked(_parse(await response.aread())))
            finally:
                await response.aclose()
        except (httpx.TransportError, aiohttp.ClientError, OSError) as error:
            failure, what = (
                (TIMEOUT, "the network took too long") if _timed_out(error) else (CONNECTION, self._url.host)
            )
            raise ModelError(failure, f"{what}: {str(error) or type(error).__name__}", retryable=True) from error
        except httpx.DecodingError as error:
            raise ModelError(MALFORMED_REPLY, f"reply cannot be decoded: {error}", retryable=True) from error

    async def close(self) -> None:
        """Closes the connections; the client may be used again after."""
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None

    def _open_transport(self) -> httpx.AsyncBaseTransport:
        if self._transport is None:
            self._transport = pooled_transport(self._url, self._max_connections)
        return self._transport


def pooled_transport(url: httpx.URL, max_connections: int) -> httpx.AsyncBaseTransport:
    """aiohttp's connection pool behind httpx's transport interface, proxies taken from the environment."""
    secure = url.scheme == "https"

    def session() -> aiohttp.ClientSession:
        context = httpx.create_ssl_context() if secure else False
        connector = aiohttp.TCPConnector(limit=max_connections, ssl=context, keepalive_timeout=30)
        return aiohttp.ClientSession(connector=connector, trust_env=_proxied())

    return AiohttpTransport(client=session, verify=False)


def _address(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url.rstrip("/") + "/chat/completions")
    except httpx.InvalidURL as error:
        raise InputError(f"'{base_url}' is not an address: {error}", Place(field="base_url")) from None
    if not url.host:
        raise InputError(f"'{base_url}' names no host", Place(field="base_url"))
    return url


def _header_name(name: str) -> str:
    if not _HEADER_NAME.match(name):
        raise InputError(f"'{name}' cannot be the name of a header", Place(field="headers"))
    return name.lower()


def _header_value(value: str, field: str) -> str:
    """The value, unless it holds what no header may; it is not shown, because it may be a secret."""
    if _NOT_IN_HEADERS.search(value):
        raise InputError("holds a line break or another control character", Place(field=field))
    return value


def _timed_out(error: Exception) -> bool:
    """Whether time ran out: aiohttp's transport calls every broken connection a timeout, its cause knows better."""
    cause = error.__cause__
    if isinstance(cause, aiohttp.ClientError):
        return isinstance(cause, TimeoutError)
    return isinstance(error, (httpx.TimeoutException, TimeoutError))


def _proxied() -> bool:
    return any(
        os.environ.get(name) or os.environ.get(name.upper()) for name in ("http_proxy", "https_proxy", "all_proxy")
    )


def _timeouts(timeout_s: float) -> dict[str, Any]:
    connect = min(CONNECT_TIMEOUT_S, timeout_s)
    return {"timeout": {"connect": connect, "read": timeout_s, "write": timeout_s, "pool": timeout_s}}


def _parse(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        shown = content[:200].decode(errors="replace")
        raise ModelError(MALFORMED_REPLY, f"reply is not JSON ({error}): {shown}", retryable=True) from None


def _checked(response: Any) -> Mapping[str, Any]:
    """The response object if it has a message; a gateway's error inside a 200 is an error."""
    if isinstance(response, Mapping):
        _raise_reported(response)
        choices = response.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) and "message" in choices[0]:
            return response
    raise ModelError(MALFORMED_REPLY, "reply has no choices[0].message", retryable=True)


def _raise_reported(response: Mapping[str, Any]) -> None:
    """Raises the error that a reply of status 200 holds (an object, or just a text), if it holds one."""
    error = response.get("error")
    if isinstance(error, str) and error:
        error = {"message": error}
    if not isinstance(error, Mapping):
        return
    code = error.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    message = str(error.get("message", "the model reported an error"))
    raise ModelError(failure_of_status(status), message, status=status, retryable=status in RETRYABLE_STATUSES)


def _status_error(response: httpx.Response, content: bytes) -> ModelError:
    status = response.status_code
    text = content[:_ERROR_TEXT].decode(errors="replace")
    failure = failure_of_status(status) if status >= 400 else MALFORMED_REPLY
    return ModelError(
        failure,
        f"HTTP {status}: {_error_message(content) or text or response.reason_phrase}",
        retryable=status in RETRYABLE_STATUSES and not _quota_is_gone(content),
        status=status,
        retry_after_s=retry_after_s(response.headers, lambda: datetime.now(UTC)),
        body=text,
    )


def _error_message(content: bytes) -> str | None:
    try:
        error = orjson.loads(content)["error"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    message = error.get("message") if isinstance(error, Mapping) else error
    return message if isinstance(message, str) else None


def _quota_is_gone(content: bytes) -> bool:
    """Whether a 429 says that no money is left, which waiting does not mend."""
    return b'"insufficient_quota"' in content


def retry_after_s(headers: Mapping[str, str], now: Callable[[], datetime]) -> float | None:
    """Seconds to wait by `retry-after-ms` or `Retry-After` (seconds or an HTTP date, RFC 9110 §10.2.3), or None."""
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


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < 1e9 else None


def _is_plain_json(response: httpx.Response) -> bool:
    """Whether an endpoint that was asked to stream answers in one piece (many do, errors above all)."""
    return bool(response.headers.get("content-type", "").startswith("application/json"))


async def _read_stream(response: httpx.Response, begun: float) -> ChatReply:
    """A server-sent-event stream of chunks, put together into the response object it stands for."""
    whole = _Assembled()
    first_ms: float | None = None
    async for data in _event_data(response):
        if data == b"[DONE]":
            whole.done = True
            break
        if whole.add(_parse(data)) and first_ms is None:
            first_ms = (time.perf_counter() - begun) * 1000
    return ChatReply(response=whole.response(), ttft_ms=first_ms)


async def _event_data(response: httpx.Response) -> AsyncIterator[bytes]:
    buffer = b""
    async for chunk in response.aiter_bytes():
        buffer += chunk
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()
    if buffer.startswith(b"data:"):
        yield buffer[5:].strip()


class _Assembled:
    """A streamed completion while its chunks come in."""

    def __init__(self) -> None:
        self.done = False
        self._head: dict[str, Any] = {}
        self._text = io.StringIO()
        self._reasoning = io.StringIO()
        self._calls: dict[int, dict[str, Any]] = {}
        self._finish: str | None = None
        self._usage: Any = None

    def add(self, chunk: Any) -> bool:
        """Takes a chunk in; whether it held some of the answer. Raises ModelError."""
        if not isinstance(chunk, Mapping):
            raise ModelError(MALFORMED_REPLY, "stream chunk is not an object", retryable=True)
        _raise_reported(chunk)
        try:
            return self._add(chunk)
        except (AttributeError, KeyError, TypeError) as error:
            # A chunk is read as the wire format has it; what has another shape anywhere inside fails here.
            shown = to_json(chunk)[:200].decode(errors="replace")
            raise ModelError(MALFORMED_REPLY, f"stream chunk of another shape: {shown}", retryable=True) from error

    def _add(self, chunk: Mapping[str, Any]) -> bool:
        self._head = self._head or {key: chunk.get(key) for key in ("id", "created", "model", "system_fingerprint")}
        self._usage = chunk.get("usage") or self._usage
        choices = chunk.get("choices") or [{}]
        delta = choices[0].get("delta") or {}
        self._finish = choices[0].get("finish_reason") or self._finish
        text, reasoning = delta.get("content") or "", delta.get("reasoning_content") or ""
        self._text.write(text)
        self._reasoning.write(reasoning)
        for call in delta.get("tool_calls") or ():
            self._add_call(call)
        return bool(text or reasoning or delta.get("tool_calls"))

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        empty = {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
        call = self._calls.setdefault(piece.get("index", len(self._calls)), empty)
        function = piece.get("function") or {}
        call["id"] = piece.get("id") or call["id"]
        call["function"]["name"] += function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""

    def response(self) -> Mapping[str, Any]:
        if not self.done and self._finish is None:
            raise ModelError(CONNECTION, "the stream ended before the answer did", retryable=True)
        message: dict[str, Any] = {"role": "assistant", "content": self._text.getvalue()}
        if reasoning := self._reasoning.getvalue():
            message["reasoning_content"] = reasoning
        if self._calls:
            message["tool_calls"] = [call for _, call in sorted(self._calls.items())]
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self._usage}
