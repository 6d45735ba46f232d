"""Asking a server on this machine, or bytes that never leave the process, through the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

import httpx
import pytest

from eval_pipeline.llm.client import ChatClient, ChatReply
from eval_pipeline.llm.errors import ModelError
from eval_pipeline.llm.model import Options
from eval_pipeline_tests.local_server import Answer, Received, Reply, serve

QUESTION = ({"role": "user", "content": "What is 2 + 2?"},)


def ask(
    wire: str,
    reply: Answer | Reply,
    messages: Sequence[Mapping[str, Any]] = QUESTION,
    *,
    path: str = "",
    model: str = "m",
    stream: bool = False,
    extra: Mapping[str, Any] | None = None,
    endpoint: Mapping[str, Any] | None = None,
    **settings: Any,
) -> tuple[ChatReply, Received]:
    """What a server that answers so brings, and what it was asked. `path` is added to its address."""
    options = Options(model=model, stream=stream, settings=settings, extra=extra or {})
    with serve(reply) as server:
        client = ChatClient(server.url + path, wire=wire, **(endpoint or {}))

        async def main() -> ChatReply:
            try:
                return await client.model(options).complete(messages, timeout_s=5.0)
            finally:
                await client.close()

        answer = asyncio.run(main())
        return answer, server.requests[0]


def error_of(wire: str, reply: Answer | Reply, **options: Any) -> ModelError:
    """Why a call brought no reply."""
    with pytest.raises(ModelError) as raised:
        ask(wire, reply, **options)
    return raised.value


def read_chunks(wire: str, chunks: Iterable[bytes]) -> ChatReply:
    """The reply to a streaming request whose body comes in exactly these chunks."""

    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body())

    client = ChatClient("http://127.0.0.1:1", wire=wire, transport=httpx.MockTransport(answer))
    return asyncio.run(client.model(Options(model="m", stream=True)).complete(QUESTION, timeout_s=1.0))
