"""What the proxy before a provider adds to the first byte of an answer, beside 50 streams that go on."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web

from eval_pipeline.agents.wire_server import WireServer, WireSession

STREAMS = 50
_PIECE = b'data: {"choices": [{"delta": {"content": "a word "}}]}\n\n'
_EVERY_S = 0.5


class _Provider:
    """Streams that begin at once and have 2 pieces a second, until the client leaves or the provider ends."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while not self.ended.is_set():
                await response.write(_PIECE)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.ended.wait(), _EVERY_S)
        return response


@contextlib.asynccontextmanager
async def _provider() -> AsyncIterator[str]:
    provider, application = _Provider(), web.Application()
    application.router.add_post("/{path:.*}", provider.stream)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        provider.ended.set()  # no stream is left for the server to end
        await runner.cleanup()


async def _first_byte_ms(client: aiohttp.ClientSession, address: str) -> float:
    began = time.perf_counter()
    async with client.post(f"{address}/v1/chat/completions", json={"model": "m", "stream": True}) as response:
        await response.content.readany()
        return (time.perf_counter() - began) * 1000


async def _read_on(client: aiohttp.ClientSession, address: str) -> None:
    async with client.post(f"{address}/v1/chat/completions", json={"model": "m"}) as response:
        async for _ in response.content.iter_any():
            pass


async def _measured(rounds: int) -> tuple[list[float], list[float]]:
    server, session = WireServer(), WireSession("")
    async with _provider() as url, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        session.upstream = url
        async with server.session(session) as proxy:
            streams = [asyncio.create_task(_read_on(client, proxy)) for _ in range(STREAMS)]
            await asyncio.sleep(0.5)
            pairs = [(await _first_byte_ms(client, url), await _first_byte_ms(client, proxy)) for _ in range(rounds)]
            for stream in streams:
                stream.cancel()
            await asyncio.gather(*streams, return_exceptions=True)
        await server.close()
    return [direct for direct, _ in pairs], [through for _, through in pairs]


def measure_wire(quick: bool) -> None:
    """The first byte, directly and through the proxy in turn, beside 50 streams through the proxy."""
    direct, through = asyncio.run(_measured(20 if quick else 200))
    added = [proxied - plain for plain, proxied in zip(direct, through, strict=True)]
    print(
        f"first byte at {STREAMS} streams: {statistics.median(direct):.2f} ms, through the proxy "
        f"{statistics.median(through):.2f} ms, added {statistics.median(added):.2f} ms (median of {len(added)} pairs)",
        flush=True,
    )
