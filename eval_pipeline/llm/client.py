"""One async chat client for models, used by targets, simulators and graders.

The request and response format of a provider is its wire (`wires/`); the network is `json_client`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from eval_pipeline.errors import SourceLocation
from eval_pipeline.failures import DEFAULT_OUTPUT_MB
from eval_pipeline.fingerprints import to_json
from eval_pipeline.llm.authorization import Authorization
from eval_pipeline.llm.bodies import Body
from eval_pipeline.llm.errors import ModelError, malformed, raise_reported
from eval_pipeline.llm.events import event_data
from eval_pipeline.llm.json_client import JsonClient, parsed
from eval_pipeline.llm.model import ChatMessage, CloudAccount, Endpoint, JsonMap, Options, Reply
from eval_pipeline.llm.network import network_errors
from eval_pipeline.llm.reading import count, mapping, mappings
from eval_pipeline.llm.wires import WIRES, Assembly, Wire, check_cloud

LINGER_S = 0.5
# Exceptions that a wire raises when a response has an unexpected shape.
_BROKEN = (AttributeError, IndexError, KeyError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """A model's reply as the response object of its wire format.

    A stream is assembled into the same object. `ttft_ms` is the time to the first token in milliseconds, known for
    streams only.
    """

    response: JsonMap
    ttft_ms: float | None = None
    wire: str = "openai"

    def read(self) -> Reply:
        """Return the content of the response in the form that all wires share."""
        return read_response(self.wire, self.response)


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings:
    """One vector per text, in the order of the texts, and their number of tokens (None: not reported)."""

    vectors: tuple[tuple[float, ...], ...]
    model: str | None = None
    input_tokens: int | None = None


class ChatClient:
    """Call one endpoint of a provider in the format of `wire`. `base_url` None selects the provider's default address.

    A response of more than `max_bytes` (decoded) is a ModelError of class `output-limit`, and no more of it is read.
    Raises InputError for an endpoint that cannot be used.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        wire: str = "openai",
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        api_version: str | None = None,
        cloud: CloudAccount = CloudAccount(),  # noqa: B008 — a frozen value
        max_connections: int = 100,
        max_bytes: int = int(DEFAULT_OUTPUT_MB * 1_000_000),
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        endpoint = Endpoint(
            base_url=base_url, api_key=api_key, headers=headers or {}, api_version=api_version, cloud=cloud
        )
        type_ = WIRES.get(wire, SourceLocation(field="wire"))
        check_cloud(wire, cloud, getattr(type_, "cloud_settings", frozenset()))
        self.wire: Wire = type_(endpoint)
        authorization: Authorization | None = getattr(self.wire, "authorization", None)
        self._http = JsonClient(
            self.wire.headers,
            authorization=authorization,
            max_connections=max_connections,
            max_bytes=max_bytes,
            transport=transport,
        )

    def model(self, options: Options) -> Model:
        """Return one model of the endpoint with fixed options.

        Raises InputError for settings that the provider lacks.
        """
        return Model(self, options)

    async def complete(self, body: JsonMap, *, timeout_s: float) -> ChatReply:
        """Return the reply to one request body in the wire's format.

        The body holds `model` and `stream` for every wire. `timeout_s` bounds each network wait. Raises ModelError.
        """
        url, sent = self.wire.request(body)
        response, ttft_ms = await self._http.post(
            url, sent, timeout_s, self._read_stream if body.get("stream") else None
        )
        return ChatReply(response=self._checked(response), ttft_ms=ttft_ms, wire=self.wire.name)

    async def embed(self, texts: Sequence[str], *, model: str, timeout_s: float = 60.0) -> Embeddings:
        """Return the embeddings of texts (OpenAI's format).

        Raises ModelError, or InputError where the provider has none.
        """
        body = {"model": model, "input": list(texts)}
        reply, _ = await self._http.post(self.wire.embeddings(model), body, timeout_s)
        raise_reported(reply)
        return _embeddings(mapping(reply), len(texts))

    async def close(self) -> None:
        """Close the connections. The client remains usable."""
        await self._http.close()

    def _checked(self, response: Any) -> JsonMap:
        """Return the response if it has the wire's shape.

        Raises for an error inside a status 200 and for any other shape.
        """
        raise_reported(response)
        if isinstance(response, dict) and self._can_be_read(response):
            return response
        shown = to_json(response)[:200].decode(errors="replace")
        raise malformed(f"reply is not a response of the wire '{self.wire.name}': {shown}")

    def _can_be_read(self, response: JsonMap) -> bool:
        """Return whether a response is read without an error: any of its parts may be of a wrong type."""
        try:
            if self.wire.answers(response):
                self.wire.read(response)
                return True
        except (AttributeError, LookupError, TypeError, ValueError):
            pass
        return False

    async def _read_stream(self, body: Body, started: float) -> tuple[JsonMap, float | None]:
        """Assemble a stream into its response object. Returns it with the time to the first token in ms."""
        assembly = self.wire.assembly()
        first_ms: float | None = None
        events = event_data(body.chunks())
        async for data in events:
            if data == b"[DONE]":
                assembly.done = True
            elif _take(assembly, parsed(data)) and first_ms is None:
                first_ms = (time.perf_counter() - started) * 1000
            if assembly.done:
                await _read_to_end(events)
        return _finished(assembly), first_ms


class Model:
    """One model with fixed options: the parts of a request that do not change are prepared once."""

    def __init__(self, client: ChatClient, options: Options) -> None:
        self._client = client
        self._fixed = client.wire.fixed(options)
        client.wire.request(self._fixed)  # fails for an unusable model name here, not at the first request

    def complete(self, messages: Sequence[ChatMessage], *, timeout_s: float) -> Coroutine[Any, Any, ChatReply]:
        """Return the reply to a conversation (see `llm/model`). Raises ModelError."""
        return self._client.complete(self._client.wire.body(self._fixed, messages), timeout_s=timeout_s)


def read_response(wire: str, response: JsonMap) -> Reply:
    """Read a response of a wire. Raises KeyError, IndexError, TypeError or AttributeError for another shape."""
    return WIRES.get(wire).read(response)


async def _read_to_end(events: AsyncIterator[bytes]) -> None:
    """Read the rest of a finished stream, because only then can its connection be used again.

    The answer is complete, so errors are ignored. A server that never closes the stream is cut off after LINGER_S.
    """
    with contextlib.suppress(TimeoutError, ModelError, *network_errors()):
        async with asyncio.timeout(LINGER_S):
            async for _ in events:
                pass


def _take(assembly: Assembly, event: Any) -> bool:
    """Add an event to the assembly. Returns whether it held a part of the answer."""
    if not isinstance(event, Mapping):
        raise malformed("stream chunk is not an object")
    raise_reported(event)
    try:
        return assembly.add(event)
    except _BROKEN as error:
        # Wires index into events without checks; an event of another shape fails here.
        shown = to_json(event)[:200].decode(errors="replace")
        raise malformed(f"stream chunk of another shape: {shown}") from error


def _finished(assembly: Assembly) -> JsonMap:
    try:
        return assembly.response()
    except _BROKEN as error:
        raise malformed(f"the stream's pieces do not fit together: {error}") from error


def _embeddings(reply: JsonMap, expected: int) -> Embeddings:
    try:
        rows = sorted(mappings(reply.get("data")), key=lambda row: row["index"])
        vectors = tuple(tuple(float(number) for number in row["embedding"]) for row in rows)
    except _BROKEN as error:
        raise malformed(f"embeddings of another shape: {error}") from error
    if len(vectors) != expected:
        raise malformed(f"{expected} texts returned {len(vectors)} embeddings")
    usage = mapping(reply.get("usage"))
    return Embeddings(vectors=vectors, model=reply.get("model"), input_tokens=count(usage.get("prompt_tokens")))
