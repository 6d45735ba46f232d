"""A server on 127.0.0.1 between agents and their provider: it forwards and keeps calls, or answers from a recording.

Each session has a path of its own, so one server serves all sessions of a runner. Streams are passed on as they come.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from eval_pipeline.agents.wire_records import WireCall
from eval_pipeline.agents.wire_replay import Recording
from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.moments import iso

if TYPE_CHECKING:
    import aiohttp
    from aiohttp import web

_BODY_BYTES = 256_000_000
_ENDING_S = 0.1
_LAST_CALLS_S = 1.0
_TICK_S = 0.005
_NOT_FORWARDED = frozenset({
    "host", "connection", "keep-alive", "te", "trailer", "upgrade", "transfer-encoding", "content-length",
    "accept-encoding", "proxy-authorization", "proxy-connection", "expect",
})  # fmt: skip
_NOT_RETURNED = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "trailer"}
)
_RECEIVED = time.perf_counter


@dataclass(slots=True)
class WireSession:
    """The calls of one session. `upstream` is the provider's address, `recording` what answers in its place."""

    upstream: str
    recording: Recording | None = None
    calls: list[WireCall] = field(default_factory=list)
    misses: list[str] = field(default_factory=list)
    under_way: int = 0
    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)


class WireServer:
    """The server of a runner's sessions: started for the first of them, ended by `close`."""

    def __init__(self) -> None:
        self._sessions: dict[str, WireSession] = {}
        self._starting = asyncio.Lock()
        self._runner: web.AppRunner | None = None
        self._client: aiohttp.ClientSession | None = None
        self._address = ""

    @contextlib.asynccontextmanager
    async def session(self, session: WireSession) -> AsyncIterator[str]:
        """Yield the address at which an agent reaches its provider while the block goes on."""
        await self._start()
        self._sessions[session.token] = session
        try:
            yield f"{self._address}/{session.token}"
        finally:
            del self._sessions[session.token]
            with contextlib.suppress(TimeoutError):  # an agent ends as soon as it has read the last answer
                async with asyncio.timeout(_LAST_CALLS_S):
                    while session.under_way:
                        await asyncio.sleep(_TICK_S)

    async def close(self) -> None:
        runner, self._runner = self._runner, None
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        if runner is not None:
            await runner.cleanup()

    async def _start(self) -> None:
        import aiohttp  # noqa: PLC0415 — heavy
        from aiohttp import web  # noqa: PLC0415

        async with self._starting:
            if self._runner is not None:
                return
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30)
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=60)
            self._client = aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=True,
                                                 auto_decompress=False)  # fmt: skip
            application = web.Application(client_max_size=_BODY_BYTES)
            application.router.add_route("*", "/{token}/{path:.*}", self._handle)
            self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=_ENDING_S)
            await self._runner.setup()
            site = web.TCPSite(self._runner, "127.0.0.1", 0)
            await site.start()
            self._address = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web  # noqa: PLC0415 — heavy

        session = self._sessions.get(request.match_info["token"])
        if session is None:
            return web.Response(status=404, text="no such session")
        path = request.raw_path.partition(f"/{session.token}/")[2]
        if session.recording is not None:
            return await _replayed(session, request, path)
        assert self._client is not None
        session.under_way += 1
        try:
            return await _forwarded(self._client, session, request, path)
        finally:
            session.under_way -= 1


async def _forwarded(
    client: aiohttp.ClientSession, session: WireSession, request: web.Request, path: str
) -> web.StreamResponse:
    """Forward a request, return the response as it comes, and keep both."""
    import aiohttp  # noqa: PLC0415 — heavy
    from aiohttp import web  # noqa: PLC0415
    from yarl import URL  # noqa: PLC0415

    began, started_at, body = _RECEIVED(), datetime.now(UTC), await request.read()
    headers = {name: value for name, value in request.headers.items() if name.lower() not in _NOT_FORWARDED}
    url = URL(f"{session.upstream.rstrip('/')}/{path}", encoded=True)
    kept = _Kept(session, request, path, _text(body, request.headers), began, started_at)
    answer: web.StreamResponse | None = None
    try:
        async with client.request(request.method, url, data=body or None, allow_redirects=False,
                                  headers={**headers, "Accept-Encoding": "identity"}) as response:  # fmt: skip
            kept.begin(response)
            answer = web.StreamResponse(status=response.status, headers=_returned(response.headers))
            if response.content_length is not None and "content-encoding" not in response.headers:
                answer.content_length = response.content_length
            await answer.prepare(request)
            async for block in response.content.iter_any():
                kept.add(block)
                await answer.write(block)
            await answer.write_eof()
            kept.complete = True
            return answer
    except aiohttp.ClientError as error:
        if answer is not None:  # the provider broke off, or the agent went away: the connection ends, too
            if request.transport is not None:
                request.transport.abort()
            return answer
        problem = {"error": {"message": f"the provider cannot be reached: {error}"}}
        return web.Response(status=502, body=to_json(problem), content_type="application/json")
    finally:
        kept.keep()


class _Kept:
    """What is kept of one call while it goes on."""

    def __init__(
        self, session: WireSession, request: web.Request, path: str, body: str, began: float, started_at: datetime
    ) -> None:
        self._session, self._request, self._path, self._body = session, request, path, body
        self._began, self._started_at = began, started_at
        self._blocks: list[bytes] = []
        self._headers: Mapping[str, str] = {}
        self._first_byte_ms: float | None = None
        self.status: int | None = None
        self.complete = False

    def begin(self, response: aiohttp.ClientResponse) -> None:
        self.status, self._headers = response.status, response.headers

    def add(self, block: bytes) -> None:
        if self._first_byte_ms is None:
            self._first_byte_ms = self._elapsed_ms()
        self._blocks.append(block)

    def keep(self) -> None:
        call = WireCall(
            method=self._request.method,
            path=self._path,
            request=self._body,
            status=self.status,
            response=_text(b"".join(self._blocks), self._headers),
            content_type=self._headers.get("content-type", ""),
            retry_after=self._headers.get("retry-after"),
            started_at=iso(self._started_at),
            first_byte_ms=self._first_byte_ms,
            duration_ms=self._elapsed_ms(),
            complete=self.complete,
        )
        self._session.calls.append(call)

    def _elapsed_ms(self) -> float:
        return round((_RECEIVED() - self._began) * 1000, 3)


async def _replayed(session: WireSession, request: web.Request, path: str) -> web.StreamResponse:
    """Answer a request from the recording of the session."""
    from aiohttp import web  # noqa: PLC0415 — heavy

    assert session.recording is not None
    text = _text(await request.read(), request.headers)
    asked = WireCall(method=request.method, path=path, request=text, status=None)
    recorded = session.recording.answer_to(asked)
    if recorded is None:
        if asked.is_model_call:
            session.misses.append(f"{request.method} {path.partition('?')[0]}")
        problem = {
            "error": {"message": "the recording has no further answer", "type": "invalid_request_error", "code": 400}
        }
        return web.Response(status=400 if asked.is_model_call else 404, body=to_json(problem),
                            content_type="application/json")  # fmt: skip
    session.calls.append(recorded)
    headers = {"content-type": recorded.content_type or "application/json"}
    if recorded.retry_after is not None:
        headers["retry-after"] = recorded.retry_after
    return web.Response(status=recorded.status or 502, body=recorded.response.encode(), headers=headers)


def _returned(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _NOT_RETURNED}


_DECODERS: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": lambda body: zlib.decompress(body, 16 + zlib.MAX_WBITS),
    "deflate": zlib.decompress,
}


def _text(body: bytes, headers: Mapping[str, str]) -> str:
    """Return a body as text; one that cannot be decoded is named by its size."""
    encoding = headers.get("content-encoding", "").lower()
    try:
        decoded = _DECODERS[encoding](body) if encoding in _DECODERS else body
    except zlib.error:
        decoded = body
    if encoding and encoding not in _DECODERS and encoding != "identity":
        return f"({len(body):,} bytes, {encoding})"
    return decoded.decode("utf-8", "replace")
