"""JSON over HTTP: a request to an address, its response read up to a limit, and every error as a ModelError.

The network seam is an `httpx.AsyncBaseTransport` (by default aiohttp's pool under httpx); a test passes its own.
Requests go to the transport directly: no cookies, no redirects, so a call costs little more than half the CPU of
`AsyncClient.post` (README, Decisions).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx
import orjson

from eval_pipeline.failures import DEFAULT_OUTPUT_MB
from eval_pipeline.fingerprints import to_json
from eval_pipeline.llm.authorization import Authorization
from eval_pipeline.llm.bodies import ACCEPTED, Body
from eval_pipeline.llm.errors import malformed, status_error
from eval_pipeline.llm.model import JsonMap
from eval_pipeline.llm.network import network_error, network_errors, pooled_transport, raised_by_transport, timeouts

_ERROR_BYTES = 1_000_000
_HEADERS = {
    "content-type": "application/json",
    "accept-encoding": ACCEPTED,
    "user-agent": "eval-pipeline",
}
ReadStream = Callable[[Body, float], Awaitable[tuple[Any, float | None]]]
"""Reads a streamed body, given the time at which the request began (`time.perf_counter`): the value that it makes, and
the milliseconds to its first part."""


class JsonClient:
    """Sends JSON and returns JSON. `headers` are sent with every request.

    A response of more than `max_bytes` (decoded) is a ModelError of class `output-limit`, and no more of it is read.
    """

    def __init__(
        self,
        headers: Mapping[str, str],
        *,
        authorization: Authorization | None = None,
        max_connections: int = 100,
        max_bytes: int = int(DEFAULT_OUTPUT_MB * 1_000_000),
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._own_headers = headers
        self._authorization = authorization
        self._transport = transport
        self._max_connections = max_connections
        self._max_bytes = max_bytes
        self._headed: tuple[httpx.URL | None, list[tuple[bytes, bytes]]] = None, []

    async def post(
        self, url: httpx.URL, body: JsonMap, timeout_s: float, read_stream: ReadStream | None = None
    ) -> tuple[Any, float | None]:
        """Return the response's JSON (a stream: what `read_stream` makes of it) and, for a stream, the time to its
        first part in ms. `timeout_s` bounds each network wait. Raises ModelError."""
        if url is not self._headed[0]:
            self._headed = url, self._headers_to(url)
        headers, content = self._headed[1], to_json(body)
        if self._authorization is not None:
            headers = [*headers, *_encoded(await self._authorization.headers(url, content))]
        request = httpx.Request("POST", url, headers=headers, content=content, extensions=timeouts(timeout_s))
        request.headers.encoding = "utf-8"  # set once, or httpx detects it for every request
        started = time.perf_counter()
        try:
            response = await self._answer(request)
            try:
                if response.status_code != 200:
                    content = await Body(response, _ERROR_BYTES).start()
                    raise status_error(response.status_code, response.reason_phrase, response.headers, content)
                reply = Body(response, self._max_bytes)
                if read_stream is not None and not _is_plain_json(response):
                    return await read_stream(reply, started)
                return parsed(await reply.read()), None
            finally:
                await response.aclose()
        except network_errors() as error:
            raise network_error(error, url) from error
        except httpx.DecodingError as error:  # of a transport that decodes
            raise malformed(f"reply cannot be decoded: {error}") from error

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        """Return the response. A connection that breaks while aiohttp reads its head may also raise an error in its
        code, such as an attribute of None: another attempt mends it. Such an error of other code is raised as it is."""
        try:
            return await self._open_transport(request.url).handle_async_request(request)
        except (AttributeError, AssertionError) as error:
            if not raised_by_transport(error):
                raise
            raise network_error(error, request.url) from error

    def _headers_to(self, url: httpx.URL) -> list[tuple[bytes, bytes]]:
        """Return the encoded headers for an address; the caller caches them for the next request."""
        return _encoded({"host": url.netloc.decode(), **_HEADERS, **self._own_headers})

    def _open_transport(self, url: httpx.URL) -> httpx.AsyncBaseTransport:
        if self._transport is None:
            self._transport = pooled_transport(url, self._max_connections)
        return self._transport

    async def close(self) -> None:
        """Close the connections. The client remains usable."""
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None


def parsed(content: bytes) -> Any:
    """Return the value of JSON. Raises ModelError for anything else."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        shown = content[:200].decode(errors="replace")
        raise malformed(f"reply is not JSON ({error}): {shown}") from None


def _is_plain_json(response: httpx.Response) -> bool:
    """Return whether a streaming request is answered in one piece (many servers do, above all for errors)."""
    return bool(response.headers.get("content-type", "").startswith("application/json"))


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]
