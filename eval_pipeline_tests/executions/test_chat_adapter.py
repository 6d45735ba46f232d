"""Models behind a provider's endpoint: a real server on 127.0.0.1 answers, refuses, breaks off and hangs."""

from __future__ import annotations

import asyncio
import gzip
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.errors import InputError
from eval_pipeline.executions.adapters.chat import Chat
from eval_pipeline.executions.engine import Engine, Lane
from eval_pipeline.executions.model import RawExecution, RetryPolicy, TargetFailure
from eval_pipeline.executions.redaction import without_secrets
from eval_pipeline.executions.runners import load_runners
from eval_pipeline.llm.client import ChatClient, ChatReply
from eval_pipeline.llm.errors import ModelError, retry_after_s
from eval_pipeline.reports.model import MessageEvent, ToolCallEvent
from eval_pipeline.reports.normalize import normalize
from eval_pipeline.suites.model import Case, Message
from eval_pipeline_tests.builders import NOON, a_call, a_case, a_plan, a_runner, an_execution, plans
from eval_pipeline_tests.executions.simulated_provider import Sink
from eval_pipeline_tests.llm.providers import ANTHROPIC, OPENAI, PROVIDERS, RESPONSES, TEXT, Provider, plain, streamed
from eval_pipeline_tests.local_server import (
    Answer,
    Received,
    Reply,
    chat_reply,
    in_turn,
    json_reply,
    serve,
    stream_reply,
)

STEADY = settings(derandomize=True, deadline=None, max_examples=50)
KEY = "sk-not-for-the-disk"


def chunk(finish: str | None = None, usage: object = None, **delta: Any) -> dict[str, Any]:
    """One chunk of a streamed completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chat-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice], "usage": usage}


def ask(reply: Answer | Reply, case: Case | None = None, **fields: Any) -> tuple[RawExecution, Received]:
    """What the adapter brings back from a server that answers so, and what the server was asked."""
    with serve(reply) as server:
        adapter = Chat(a_runner(adapter="chat", settings={"base_url": server.url + "/v1", "model": "m", **fields}))

        async def main() -> RawExecution:
            try:
                return await adapter.execute(a_call(Path("nowhere"), a_plan(case), timeout_s=5.0))
            finally:
                await adapter.close()

        raw = asyncio.run(main())
        return raw, server.requests[0]


def failure_of(reply: Answer | Reply, **fields: Any) -> TargetFailure:
    with pytest.raises(TargetFailure) as raised:
        ask(reply, **fields)
    return raised.value


def complete(url: str, *, timeout_s: float = 5.0, stream: bool = False) -> ChatReply:
    async def main() -> ChatReply:
        client = ChatClient(url)
        try:
            return await client.complete({"messages": [], "stream": stream}, timeout_s=timeout_s)
        finally:
            await client.close()

    return asyncio.run(main())


def test_a_model_is_asked_and_its_response_kept_whole() -> None:
    usage = {"prompt_tokens": 8, "completion_tokens": 1}

    raw, request = ask(chat_reply("4", usage=usage))

    assert raw.format == "chat"
    assert raw.payload["response"]["choices"][0]["message"]["content"] == "4"
    assert raw.payload["response"]["usage"] == usage
    assert "ttft_ms" not in raw.payload
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.json == {"model": "m", "messages": [{"role": "user", "content": "What is 2 + 2?"}]}


def test_settings_are_passed_on_as_they_are() -> None:
    _, request = ask(
        chat_reply(),
        system="Be brief",
        temperature=0.5,
        max_tokens=100,
        stop=["\n"],
        tools=[{"type": "function"}],
        body={"top_k": 3, "max_tokens": 7},
    )

    assert request.json == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "What is 2 + 2?"}],
        "temperature": 0.5,
        "max_tokens": 7,
        "stop": ["\n"],
        "tools": [{"type": "function"}],
        "top_k": 3,
    }


def test_a_conversation_is_sent_message_by_message() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    case = a_case(
        input=(
            Message(role="user", content=[{"type": "text", "value": "a"}, {"type": "text", "value": "b"}], name="Ann"),
            Message(role="assistant", content=None, tool_calls=(call,)),
            Message(role="tool", content={"sum": 4}),
        )
    )

    _, request = ask(chat_reply(), case)

    assert request.json["messages"] == [
        {"role": "user", "content": "a\nb", "name": "Ann"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": '{"sum":4}'},
    ]


AGENTV_CALL = {"tool": "add", "input": {"a": 2}, "output": {"sum": 4}}


def called(id_: str, name: str = "add", arguments: str = '{"a":2}') -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("calls", "answers", "sent"),
    [
        pytest.param((AGENTV_CALL,), (), [("call_1", '{"sum":4}')], id="an answer beside its call"),
        pytest.param(({**AGENTV_CALL, "output": [2, "two"]},), (), [("call_1", '[2,"two"]')], id="a list as an answer"),
        pytest.param((AGENTV_CALL,), (Message(role="tool", content="4!"),), [("call_1", "4!")],
                     id="a turn of the tool's goes before it"),
        pytest.param(({"tool": "add", "input": {"a": 2}, "id": "x"},), (Message(role="tool", content="4"),),
                     [("x", "4")], id="an id of the suite's own"),
        pytest.param(({"function": {"name": "add", "arguments": {"a": 2}}},), (Message(role="tool", content="4"),),
                     [("call_1", "4")], id="arguments as an object"),
        pytest.param(({"name": "add", "arguments": '{"a":2}'},), (Message(role="tool", content="4"),),
                     [("call_1", "4")], id="flat"),
    ],
)  # fmt: skip
def test_a_tools_answer_names_the_call_it_answers(
    calls: tuple[dict[str, Any], ...], answers: tuple[Message, ...], sent: list[tuple[str, str]]
) -> None:
    calling = Message(role="assistant", content="", tool_calls=calls)
    case = a_case(input=(Message(role="user", content="?"), calling, *answers, Message(role="user", content="So?")))

    _, request = ask(chat_reply(), case)

    _, call, *results, last = request.json["messages"]
    assert call["tool_calls"] == [called(sent[0][0])]
    assert results == [{"role": "tool", "tool_call_id": id_, "content": text} for id_, text in sent]
    assert last == {"role": "user", "content": "So?"}


def test_answers_of_several_tools_find_their_calls_by_name_then_by_order() -> None:
    calls = ({"tool": "add"}, {"tool": "now"}, {"tool": "add"})
    answers = [("now", "noon"), (None, "first"), ("add", "second"), (None, "nobody asked")]
    turns = tuple(Message(role="tool", content=text, name=name) for name, text in answers)
    case = a_case(input=(Message(role="assistant", content="", tool_calls=calls), *turns))

    _, request = ask(chat_reply(), case)

    assert request.json["messages"][1:] == [
        {"role": "tool", "tool_call_id": "call_2", "content": "noon"},
        {"role": "tool", "tool_call_id": "call_1", "content": "first"},
        {"role": "tool", "tool_call_id": "call_3", "content": "second"},
        {"role": "user", "content": "@[Tool]:\nnobody asked"},
    ]


FILE = {"type": "file", "value": "src/a.py", "text": "x = 1", "resolved_path": "/nowhere/src/a.py"}
IMAGE = {"type": "image", "value": "a.png", "media_type": "image/png", "source": "data:image/png;base64,iVBORw0KGgo="}
SHOWN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


@pytest.mark.parametrize(
    ("parts", "content"),
    [
        pytest.param([FILE, {"type": "text", "value": "Explain"}],
                     '<file path="src/a.py">\nx = 1\n</file>\n\nExplain', id="a file"),
        pytest.param([{"type": "text", "value": "See"}, IMAGE], [{"type": "text", "text": "See"}, SHOWN],
                     id="an image"),
        pytest.param([IMAGE, FILE, {"type": "text", "value": ""}],
                     [SHOWN, {"type": "text", "text": '<file path="src/a.py">\nx = 1\n</file>'}], id="both"),
        pytest.param([{"type": "file", "value": "a.bin", "sha256": "0"}, "look"], '<file: path="a.bin">\n\nlook',
                     id="a file that is no text"),
        pytest.param([{"type": "image", "value": "a.png"}], '<image: path="a.png">', id="an image without its bytes"),
    ],
)  # fmt: skip
def test_files_are_written_out_and_images_shown(parts: list[Any], content: object) -> None:
    _, request = ask(chat_reply(), a_case(input=(Message(role="user", content=parts),)))

    assert request.json["messages"] == [{"role": "user", "content": content}]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streaming"])
@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.wire)
def test_every_providers_own_response_is_kept_and_reported_alike(provider: Provider, stream: bool) -> None:
    reply = streamed(provider.stream(), pieces=3) if stream else plain(provider.response)

    raw, _ = ask(reply, wire=provider.wire, stream=stream, max_output_tokens=9)
    report = normalize(an_execution(raw=raw), a_case(), a_runner())

    assert raw.payload.get("wire", "openai") == provider.wire
    assert ("ttft_ms" in raw.payload) is stream
    assert report.failure_class is None
    assert (report.final_output, report.model, report.session_id) == (
        TEXT, provider.reply.model, provider.reply.id
    )  # fmt: skip
    assert report.usage.input_tokens == 20
    assert report.usage.output_tokens == 9
    assert report.events == (
        MessageEvent(role="assistant", text="Two and two", phase="thinking"),
        MessageEvent(role="assistant", text=TEXT, phase="commentary"),
        ToolCallEvent(tool="add", call_id="call_1", arguments={"a": 2, "b": 2}),
    )


def test_responses_of_openai_itself_are_kept_without_a_wire_as_they_always_were() -> None:
    raw, _ = ask(plain(OPENAI.response))

    assert raw.payload == {"response": OPENAI.response}


@pytest.mark.parametrize(
    ("config", "path"),
    [
        pytest.param({"api_format": "chat"}, "/v1/chat/completions", id="openai"),
        pytest.param({"api_format": "responses"}, "/v1/responses", id="openai responses"),
        pytest.param({"wire": "openai_responses", "api_format": "responses"}, "/v1/responses", id="said twice"),
        pytest.param({"wire": "azure", "api_format": "responses"}, "/v1/openai/v1/responses", id="azure responses"),
    ],
)
def test_the_format_of_openai_and_azure_can_be_chosen(config: dict[str, Any], path: str) -> None:
    format_ = RESPONSES if "responses" in path else OPENAI

    _, request = ask(plain(format_.response), **config)

    assert request.path == path


def test_a_system_setting_stands_where_the_provider_has_it() -> None:
    case = a_case(input=(Message(role="system", content="Be kind"), Message(role="user", content="Hi")))

    _, request = ask(plain(ANTHROPIC.response), case, wire="anthropic", system="Be brief", api_key=KEY)

    assert request.json == {
        "model": "m",
        "max_tokens": 8_192,
        "system": "Be brief\n\nBe kind",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }
    assert request.headers["x-api-key"] == KEY


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        pytest.param({"wire": "anthropci"}, "wire: no wire 'anthropci'; there are: ", id="wire"),
        pytest.param({"wire": "anthropci"}, "did you mean 'anthropic'?", id="near wire"),
        pytest.param({"wire": 4}, "wire: expected a text, got a number (4)", id="wire that is no text"),
        pytest.param({"wire": "gemini", "api_format": "responses"}, "api_format: wire 'gemini' has no such format;"
                     " openai and azure have", id="format"),
        pytest.param({"api_format": "batch"}, "api_format: expected one of chat, responses; got a text ('batch')",
                     id="unknown format"),
        pytest.param({"wire": "anthropic", "seed": 4}, "seed: wire 'anthropic' has no such setting", id="setting"),
        pytest.param({"wire": "anthropic", "thinking_budget": "2k"}, "thinking_budget: expected a whole number of"
                     " tokens, got '2k'", id="tokens"),
        pytest.param({"tools": {"add": {}}}, "tools: expected a list of tools, got {'add': {}}", id="tools"),
        pytest.param({"max_tokens": True}, "max_tokens: expected a whole number of tokens, got True", id="truth value"),
        pytest.param({"wire": "gemini", "model": "../x"}, "model: '../x' cannot be part of an address", id="model"),
        pytest.param({"wire": "azure", "base_url": None}, "base_url: Azure needs the address or the name", id="azure"),
        pytest.param({"model": None}, "model: expected a text, got nothing", id="no model"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_used_are_found_before_anything_runs(fields: dict[str, Any], problem: str) -> None:
    config = {"base_url": "http://127.0.0.1:1/v1", "model": "m", **fields}

    with pytest.raises(InputError) as raised:
        Chat(a_runner(adapter="chat", settings=config))

    assert problem in str(raised.value)


def test_text_that_json_cannot_hold_is_sent_all_the_same() -> None:
    _, request = ask(chat_reply(), a_case(text="half a \ud83d"))

    assert request.json["messages"][0]["content"].startswith("half a ")


def test_the_key_and_headers_are_sent() -> None:
    _, request = ask(chat_reply(), api_key=KEY, headers={"X-Team": "evals", "User-Agent": "mine", "X-Number": 3})

    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert (request.headers["x-team"], request.headers["user-agent"]) == ("evals", "mine")
    assert request.headers["x-number"] == "3"


def test_without_a_key_none_is_sent() -> None:
    _, request = ask(chat_reply())

    assert "authorization" not in request.headers


def test_tool_calls_come_back_as_the_model_made_them() -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}]

    raw, _ = ask(chat_reply(None, tool_calls=calls))

    assert raw.payload["response"]["choices"][0]["message"]["tool_calls"] == calls


def test_a_compressed_answer_is_read() -> None:
    plain = chat_reply("four")

    raw, request = ask(Reply(body=gzip.compress(plain.body), headers={**plain.headers, "content-encoding": "gzip"}))

    assert raw.payload["response"]["choices"][0]["message"]["content"] == "four"
    assert "gzip" in request.headers["accept-encoding"]


def test_a_stream_is_put_together() -> None:
    raw, request = ask(
        stream_reply(
            chunk(role="assistant", content=""),
            chunk(content="Fo"),
            chunk(content="ur"),
            chunk(finish="stop"),
            {"id": "chat-1", "model": "m", "choices": [], "usage": {"prompt_tokens": 8}},
        ),
        stream=True,
    )

    assert request.json["stream"] is True
    assert request.json["stream_options"] == {"include_usage": True}
    assert raw.payload["response"] == {
        "id": "chat-1",
        "created": None,
        "model": "m",
        "system_fingerprint": None,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Four"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 8},
    }
    assert raw.payload["ttft_ms"] > 0


def message_of(*events: object, done: bool = True) -> dict[str, Any]:
    raw, _ = ask(stream_reply(*events, done=done), stream=True)
    message: dict[str, Any] = raw.payload["response"]["choices"][0]["message"]
    return message


def test_streamed_tool_calls_are_put_together() -> None:
    first = {"index": 0, "id": "1", "function": {"name": "add", "arguments": ""}}
    second = {"index": 1, "id": "2", "function": {"name": "sub", "arguments": '{"b"'}}

    message = message_of(
        chunk(tool_calls=[second]),
        chunk(tool_calls=[first]),
        chunk(tool_calls=[{"index": 0, "function": {"arguments": '{"a": '}}]),
        chunk(
            tool_calls=[{"index": 1, "function": {"arguments": ": 1}"}}, {"index": 0, "function": {"arguments": "2}"}}]
        ),
        chunk(finish="tool_calls"),
    )

    assert message["tool_calls"] == [
        {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}},
        {"id": "2", "type": "function", "function": {"name": "sub", "arguments": '{"b": 1}'}},
    ]


def test_streamed_reasoning_is_kept_apart() -> None:
    message = message_of(chunk(reasoning_content="Two and "), chunk(reasoning_content="two"), chunk(content="4"))

    assert message == {"role": "assistant", "content": "4", "reasoning_content": "Two and two"}


def test_a_stream_that_ended_properly_needs_no_last_word() -> None:
    assert message_of(chunk(content="4"), chunk(finish="stop"), done=False)["content"] == "4"


def test_a_stream_may_be_cut_into_pieces_anywhere() -> None:
    whole = b": hello\r\n\r\n" + b"".join(
        b"data:" + orjson.dumps(event) + b"\r\n\r\n" for event in (chunk(content="Grüße 😀"), chunk(finish="stop"))
    )
    pieces = [whole[at : at + 7] for at in range(0, len(whole), 7)]

    raw, _ = ask(Reply(chunks=[*pieces, b"data: [DONE]"]), stream=True)

    assert raw.payload["response"]["choices"][0]["message"]["content"] == "Grüße 😀"


def test_an_endpoint_that_does_not_stream_when_asked_to_is_read_all_the_same() -> None:
    raw, _ = ask(chat_reply("4"), stream=True)

    assert raw.payload["response"]["choices"][0]["message"]["content"] == "4"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streaming"])
@pytest.mark.parametrize(
    ("reply", "failure_class", "retryable", "message"),
    [
        pytest.param(json_reply({"error": {"message": "no such field"}}, 400), "bad-request", False,
                     "HTTP 400: no such field", id="400"),
        pytest.param(json_reply({"error": "wrong key"}, 401), "authentication", False, "HTTP 401: wrong key", id="401"),
        pytest.param(json_reply({"error": {"message": "no model"}}, 404), "model-rejected", False,
                     "HTTP 404: no model", id="404"),
        pytest.param(Reply(status=429, body=b"slow down"), "rate-limited", True, "HTTP 429: slow down", id="429"),
        pytest.param(json_reply({"error": {"message": "no money", "code": "insufficient_quota"}}, 429), "rate-limited",
                     False, "HTTP 429: no money", id="429 for good"),
        pytest.param(Reply(status=500), "server-error", True, "HTTP 500: Internal Server Error", id="500"),
        pytest.param(Reply(status=503, body=b"<html>" + b"x" * 9_000), "server-error", True, "HTTP 503: <html>",
                     id="503"),
        pytest.param(Reply(status=501), "server-error", False, "HTTP 501", id="501"),
        pytest.param(Reply(status=302, headers={"location": "/"}), "malformed-reply", False, "HTTP 302", id="302"),
        pytest.param(json_reply({"error": {"message": "overloaded", "code": 529}}), "server-error", True, "overloaded",
                     id="an error inside a 200"),
        pytest.param(json_reply({"error": {"message": "no", "code": 403}}), "authentication", False, "no",
                     id="a final error inside a 200"),
        pytest.param(json_reply({"error": {"message": "what?", "code": "x"}}), "server-error", True, "what?",
                     id="an error without a status"),
        pytest.param(json_reply({"error": "model is loading"}), "server-error", True, "model is loading",
                     id="an error that is just a text"),
        pytest.param(json_reply({"choices": []}), "malformed-reply", True, "reply is not a response",
                     id="empty"),
        pytest.param(json_reply([1]), "malformed-reply", True, "reply is not a response", id="no object"),
        pytest.param(json_reply({"choices": [{"text": "4"}]}), "malformed-reply", True, "reply is not a response",
                     id="another format"),
        pytest.param(Reply(body=b"{", headers={"content-type": "application/json"}), "malformed-reply", True,
                     "reply is not JSON", id="no JSON"),
        pytest.param(Reply(body=b"{}", headers={"content-encoding": "gzip"}), "malformed-reply", True,
                     "reply cannot be decoded", id="no gzip"),
        pytest.param(Reply(body=b"{", cut=True), "connection", True, "127.0.0.1: ", id="cut off"),
        pytest.param(Reply(chunks=[], cut=True, status=429), "connection", True, "127.0.0.1: ", id="cut off 429"),
    ],
)  # fmt: skip
def test_what_is_no_answer_has_a_failure_class(
    reply: Reply, failure_class: str, retryable: bool, message: str, stream: bool
) -> None:
    failure = failure_of(reply, stream=stream)

    assert (failure.failure.id, failure.retryable) == (failure_class, retryable)
    assert message in str(failure)
    assert len(str(failure)) < 2_100


@pytest.mark.parametrize(
    ("reply", "failure_class", "message"),
    [
        pytest.param(stream_reply(chunk(content="Fo"), done=False), "connection", "the stream ended before the answer"
                     " did", id="ended early"),
        pytest.param(stream_reply(chunk(content="Fo"), done=False, cut=True), "connection", "127.0.0.1", id="cut off"),
        pytest.param(stream_reply(done=False), "connection", "the stream ended before the answer did", id="nothing"),
        pytest.param(Reply(chunks=[b"data: {\n\n"]), "malformed-reply", "reply is not JSON", id="no JSON"),
        pytest.param(stream_reply([1]), "malformed-reply", "stream chunk is not an object", id="no object"),
        pytest.param(stream_reply(chunk(content="F"), {"error": {"message": "gone", "code": 502}}), "server-error",
                     "gone", id="an error on the way"),
        *(pytest.param(stream_reply(event), "malformed-reply", "stream chunk of another shape: {", id=name)
          for name, event in {
              "choices are a text": {"choices": "x"}, "choices are an object": {"choices": {"a": 1}},
              "a choice is null": {"choices": [None]}, "a delta is a text": {"choices": [{"delta": "x"}]},
              "text is a number": chunk(content=4), "text is a list": chunk(content=["x"]),
              "a call is null": chunk(tool_calls=[None]), "calls are a number": chunk(tool_calls=4),
              "arguments are an object": chunk(tool_calls=[{"index": 0, "function": {"arguments": {"a": 1}}}]),
          }.items()),
    ],
)  # fmt: skip
def test_a_broken_stream_has_a_failure_class_and_may_be_tried_again(
    reply: Reply, failure_class: str, message: str
) -> None:
    failure = failure_of(reply, stream=True)

    assert (failure.failure.id, failure.retryable) == (failure_class, True)
    assert message in str(failure)


def test_what_a_server_said_to_a_refused_request_is_kept() -> None:
    failure = failure_of(json_reply({"error": {"message": "no"}, "id": 7}, 400))

    assert failure.status == 400
    assert failure.raw == RawExecution(format="chat", payload={"error": '{"error":{"message":"no"},"id":7}'})


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streaming"])
def test_a_server_that_never_answers_took_too_long(stream: bool) -> None:
    with serve(Reply(hang=True)) as server, pytest.raises(ModelError) as raised:
        complete(server.url, timeout_s=0.1, stream=stream)

    assert (raised.value.failure.id, raised.value.retryable) == ("timeout", True)


def test_a_server_that_is_not_there_is_a_connection_that_failed() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers here

        with pytest.raises(ModelError) as raised:
            complete(f"http://127.0.0.1:{taken.getsockname()[1]}")

    assert (raised.value.failure.id, raised.value.retryable) == ("connection", True)
    assert "127.0.0.1" in str(raised.value)


def test_a_name_that_does_not_exist_is_a_connection_that_failed() -> None:
    with pytest.raises(ModelError) as raised:
        complete("http://no-such-host.invalid")

    assert raised.value.failure.id == "connection"


@pytest.mark.parametrize(
    ("error", "failure_class"),
    [
        pytest.param(httpx.ReadTimeout("slow"), "timeout", id="time"),
        pytest.param(httpx.ConnectTimeout("slow"), "timeout", id="time to connect"),
        pytest.param(httpx.PoolTimeout("slow"), "timeout", id="time for a place"),
        pytest.param(httpx.ConnectError("no"), "connection", id="connect"),
        pytest.param(httpx.RemoteProtocolError("what"), "connection", id="protocol"),
        pytest.param(httpx.ProxyError("no"), "connection", id="proxy"),
        pytest.param(ConnectionResetError("gone"), "connection", id="operating system"),
        pytest.param(httpx.DecodingError("what"), "malformed-reply", id="decoding"),
    ],
)
def test_whatever_the_network_raises_has_a_failure_class(error: Exception, failure_class: str) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise error

    client = ChatClient("http://127.0.0.1:1", transport=httpx.MockTransport(refuse))

    with pytest.raises(ModelError) as raised:
        asyncio.run(client.complete({}, timeout_s=1.0))

    assert (raised.value.failure.id, raised.value.retryable) == (failure_class, True)


@pytest.mark.parametrize("base_url", ["http://127.0.0.1:port", "http://", "http://[::1"])
def test_an_address_that_is_none_is_an_input_error(base_url: str) -> None:
    with pytest.raises(InputError):
        ChatClient(base_url)


@pytest.mark.parametrize("ending", ["", "/"])
def test_an_address_may_end_in_a_slash(ending: str) -> None:
    with serve(chat_reply()) as server:
        complete(f"{server.url}/v1{ending}")

        assert server.requests[0].path == "/v1/chat/completions"


def test_a_client_can_be_used_again_after_it_was_closed() -> None:
    async def main(url: str) -> None:
        client = ChatClient(url)
        for _ in range(2):
            await client.complete({}, timeout_s=5.0)
            await client.close()
        await client.close()

    with serve(chat_reply()) as server:
        asyncio.run(main(server.url))

        assert len(server.requests) == 2


def headers(**values: str) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in values.items()}


@pytest.mark.parametrize(
    ("given_headers", "seconds"),
    [
        pytest.param({}, None, id="none"),
        pytest.param(headers(retry_after="7"), 7.0, id="seconds"),
        pytest.param(headers(retry_after="0.5"), 0.5, id="part of a second"),
        pytest.param(headers(retry_after="0"), 0.0, id="at once"),
        pytest.param(headers(retry_after_ms="1500", retry_after="7"), 1.5, id="milliseconds"),
        pytest.param(headers(retry_after_ms="soon", retry_after="7"), 7.0, id="no milliseconds"),
        pytest.param(headers(retry_after="Thu, 15 Jan 2026 12:00:30 GMT"), 30.0, id="date"),
        pytest.param(headers(retry_after="Thursday, 15-Jan-26 12:00:30 GMT"), 30.0, id="date, as it once was"),
        pytest.param(headers(retry_after="Thu Jan 15 12:00:30 2026"), 30.0, id="date, as C writes it"),
        pytest.param(headers(retry_after="Thu, 15 Jan 2026 13:00:30 +0100"), 30.0, id="date elsewhere"),
        pytest.param(headers(retry_after="Thu, 15 Jan 2026 11:00:00 GMT"), 0.0, id="date gone by"),
        pytest.param(headers(retry_after="soon"), None, id="word"),
        pytest.param(headers(retry_after="-1"), None, id="negative"),
        pytest.param(headers(retry_after="nan"), None, id="not a number"),
        pytest.param(headers(retry_after="inf"), None, id="never"),
        pytest.param(headers(retry_after=""), None, id="empty"),
    ],
)
def test_when_to_come_back_is_said_in_several_ways(given_headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(given_headers, lambda: NOON) == seconds


@STEADY
@given(
    st.text() | st.from_regex(r"\A(Mon, )?[0-9]{1,12} Jan [0-9]{1,12} [0-9]{1,4}:[0-9]{1,4}(:[0-9]{1,9})? ?.{0,6}\Z")
)
def test_no_retry_after_makes_it_fail(text: str) -> None:
    seconds = retry_after_s({"retry-after": text}, lambda: NOON)

    assert seconds is None or seconds >= 0


@pytest.mark.parametrize("as_date", [False, True], ids=["seconds", "date"])
def test_a_refusal_says_when_to_come_back(as_date: bool) -> None:
    later = datetime.now(UTC) + timedelta(seconds=90)
    header = format_datetime(later, usegmt=True) if as_date else "90"

    failure = failure_of(json_reply({}, 429, retry_after=header))

    assert failure.retry_after_s is not None
    assert 60 < failure.retry_after_s <= 90


async def carry_out(runner: Any, sink: Sink, count: int) -> None:
    lane = Lane(runner=runner, adapter=Chat(runner), plans=iter(plans(count, runner)), concurrency=8)
    await Engine(sink=sink, folder_of=lambda plan: Path("nowhere")).carry_out([lane])


def test_through_the_engine_troubles_of_a_server_pass() -> None:
    troubles = in_turn(
        json_reply({}, 429, retry_after="0.01"),
        Reply(status=500),
        Reply(body=b"{", cut=True),
        Reply(body=b"?"),
        chat_reply(),
    )
    sink = Sink()

    with serve(troubles) as server:
        settings_ = {"base_url": server.url, "model": "m"}
        runner = a_runner(adapter="chat", settings=settings_, retries=RetryPolicy(initial_delay_s=0.01))
        asyncio.run(carry_out(runner, sink, 20))

    assert [execution.failure_class for execution in sink.kept] == [None] * 20
    assert sum(len(execution.attempts) for execution in sink.kept) == 24


def test_a_key_is_never_stored_even_when_the_server_says_it(tmp_path: Path) -> None:
    def tell(request: Received) -> Reply:
        return json_reply({"error": {"message": f"wrong key {request.headers['authorization']}"}}, 401)

    sink = Sink()
    with serve(tell) as server:
        (tmp_path / "runners.yaml").write_text(
            f"runners: [{{name: a, adapter: chat, base_url: {server.url}, model: m, api_key: '${{{{ KEY }}}}'}}]"
        )
        (runner,) = load_runners(tmp_path / "runners.yaml", {"KEY": KEY})
        asyncio.run(carry_out(runner, sink, 1))

    (execution,) = sink.kept
    stored = without_secrets(execution, runner.secrets, lambda: tmp_path)
    assert KEY in repr(execution)
    assert KEY not in repr(stored)
    assert stored.error == "HTTP 401: wrong key Bearer ***"
    assert KEY not in repr(runner.public_settings)
