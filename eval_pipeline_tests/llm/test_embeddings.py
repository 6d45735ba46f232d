"""Embeddings: one vector for each text, in their order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.llm.client import ChatClient, Embeddings
from eval_pipeline.llm.errors import ModelError
from eval_pipeline_tests.local_server import Received, Reply, json_reply, serve

TWO = {
    "object": "list",
    "data": [
        {"object": "embedding", "index": 1, "embedding": [0, 1.0]},
        {"object": "embedding", "index": 0, "embedding": [0.5, -0.5]},
    ],
    "model": "e-1",
    "usage": {"prompt_tokens": 4, "total_tokens": 4},
}


def embed(reply: Reply, wire: str = "openai", texts: tuple[str, ...] = ("a", "b")) -> tuple[Embeddings, Received]:
    with serve(reply) as server:
        client = ChatClient(server.url, wire=wire, api_key="k-1")

        async def main() -> Embeddings:
            try:
                return await client.embed(texts, model="e")
            finally:
                await client.close()

        embeddings = asyncio.run(main())
        return embeddings, server.requests[0]


def test_every_text_has_its_vector() -> None:
    embeddings, request = embed(json_reply(TWO))

    assert embeddings == Embeddings(vectors=((0.5, -0.5), (0.0, 1.0)), model="e-1", input_tokens=4)
    assert request.json == {"model": "e", "input": ["a", "b"]}
    assert request.headers["authorization"] == "Bearer k-1"


@pytest.mark.parametrize(
    ("wire", "path"),
    [
        ("openai", "/embeddings"),
        ("openai-responses", "/embeddings"),
        ("azure", "/openai/deployments/e/embeddings?api-version=2024-12-01-preview"),
        ("azure-responses", "/openai/v1/embeddings"),
    ],
)
def test_embeddings_have_an_address_of_their_own(wire: str, path: str) -> None:
    _, request = embed(json_reply(TWO), wire)

    assert request.path == path


@pytest.mark.parametrize("wire", ["anthropic", "gemini"])
def test_a_provider_without_embeddings_says_who_has_them(wire: str) -> None:
    with pytest.raises(InputError, match=f"wire '{wire}' has no embeddings; openai and azure have"):
        embed(json_reply(TWO), wire)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        pytest.param({"data": TWO["data"], "error": {"message": "busy"}}, "busy", id="an error"),
        pytest.param({"data": [{"index": 0, "embedding": [1]}]}, "2 texts returned 1 embeddings", id="too few"),
        pytest.param({}, "2 texts returned 0 embeddings", id="none"),
        pytest.param([], "2 texts returned 0 embeddings", id="no object"),
        pytest.param({"data": [{"embedding": [1]}]}, "embeddings of another shape: 'index'", id="no index"),
        pytest.param({"data": [{"index": 0, "embedding": "AAAA"}]}, "embeddings of another shape: ", id="base64"),
    ],
)
def test_vectors_that_are_not_there_are_never_made_up(reply: Any, message: str) -> None:
    with pytest.raises(ModelError) as raised:
        embed(json_reply(reply))

    assert str(raised.value).startswith(message)
    assert raised.value.retryable
