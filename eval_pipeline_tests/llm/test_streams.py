"""Streams as the network brings them: cut anywhere, with keep-alives between, broken, or ending too soon."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.llm.client import ChatClient
from eval_pipeline.llm.errors import ModelError
from eval_pipeline.llm.model import Options
from eval_pipeline_tests.llm.client_calls import QUESTION, ask, error_of, read_chunks
from eval_pipeline_tests.llm.providers import ANTHROPIC, GEMINI, OPENAI, PROVIDERS, RESPONSES, Provider, sse, streamed
from eval_pipeline_tests.local_server import Reply, serve

EACH = pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.wire)
STEADY = settings(derandomize=True, deadline=None, max_examples=30)


def cut(body: bytes, places: list[int]) -> list[bytes]:
    """A body in chunks that end at these places."""
    ends = sorted({place % (len(body) + 1) for place in places} | {0, len(body)})
    return [body[begin:end] for begin, end in itertools.pairwise(ends)]


@EACH
@STEADY
@given(places=st.lists(st.integers(0, 10_000), max_size=40))
def test_wherever_a_stream_is_cut_it_says_the_same(provider: Provider, places: list[int]) -> None:
    assert read_chunks(provider.wire, cut(provider.stream(), places)).read() == provider.reply


@EACH
def test_a_stream_may_come_byte_by_byte(provider: Provider) -> None:
    chunks = [bytes([byte]) for byte in provider.stream()]

    assert read_chunks(provider.wire, chunks).read() == provider.reply


@EACH
def test_keep_alives_and_other_fields_are_passed_over(provider: Provider) -> None:
    comment = b": OPENROUTER PROCESSING\r\n\r\nretry: 3000\nid: 7\n\n\n: \n"
    blocks = provider.stream().replace(b"\r\n", b"\n").split(b"\n\n")

    reply = read_chunks(provider.wire, [comment + block + b"\n\n" for block in blocks]).read()

    assert reply == provider.reply


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("named", [True, False], ids=["named", "nameless"])
def test_lines_may_end_either_way_and_events_go_without_names(line_end: bytes, named: bool) -> None:
    body = sse(ANTHROPIC.events, named=named, line_end=line_end)

    assert read_chunks("anthropic", [body]).read() == ANTHROPIC.reply


def test_data_may_be_spread_over_lines_and_lack_the_space() -> None:
    spread = b'data:{"choices": [{"delta":\ndata: {"content": "4"},\ndata: "finish_reason": "stop"}]}\n\n'

    assert read_chunks("openai", [spread]).read().text == "4"


@pytest.mark.parametrize("provider", [OPENAI, RESPONSES, ANTHROPIC, GEMINI], ids=lambda provider: provider.wire)
@pytest.mark.parametrize("done", [True, False], ids=["with a last word", "without"])
def test_a_last_word_is_welcome_and_not_needed(provider: Provider, done: bool) -> None:
    body = sse(provider.events, done=done)

    assert read_chunks(provider.wire, [body]).read() == provider.reply


def test_the_last_event_needs_no_empty_line_after_it() -> None:
    assert read_chunks("gemini", [GEMINI.stream().rstrip()]).read() == GEMINI.reply


@EACH
def test_a_stream_that_ends_before_the_answer_may_be_tried_again(provider: Provider) -> None:
    half = sse(provider.events[: len(provider.events) // 2])

    with pytest.raises(ModelError) as raised:
        read_chunks(provider.wire, [half])

    assert str(raised.value) == "the stream ended before the answer did"
    assert (raised.value.failure.id, raised.value.retryable) == ("connection", True)


@EACH
def test_a_connection_that_breaks_off_may_be_tried_again(provider: Provider) -> None:
    half = sse(provider.events[: len(provider.events) // 2])

    error = error_of(provider.wire, streamed(half, cut=True), stream=True)

    assert (error.failure.id, error.retryable) == ("connection", True)


ODD: tuple[Any, ...] = (None, 4, True, "x", [], {}, [None], [4], {"a": 1}, [{"parts": None}])


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place inside a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    for key, item in inside:
        yield (*path, key)
        yield from places(item, (*path, key))


def with_odd(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    """The value with something odd in one place."""
    if not path:
        return odd
    items = value.items() if isinstance(value, dict) else enumerate(value)
    changed = {key: with_odd(item, path[1:], odd) if key == path[0] else item for key, item in items}
    return changed if isinstance(value, dict) else [*changed.values()]


@EACH
@STEADY
@given(data=st.data())
def test_an_event_of_another_shape_is_never_more_than_a_reply_that_cannot_be_read(
    provider: Provider, data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(list(places(provider.events))))
    events = with_odd(provider.events, path, data.draw(st.sampled_from(ODD)))

    try:
        response = read_chunks(provider.wire, [sse(tuple(events))]).response
    except ModelError as error:
        response = {"error": str(error)}

    assert response


@pytest.mark.parametrize(
    ("wire", "event"),
    [
        pytest.param("openai-responses", {"response": {}}, id="responses: without a type"),
        pytest.param("openai-responses", {"type": "response.completed"}, id="responses: without a response"),
        pytest.param("anthropic", {"index": 0}, id="anthropic: without a type"),
        pytest.param("anthropic", {"type": "content_block_delta", "index": 7, "delta": {"text": "x"}},
                     id="anthropic: a piece of no block"),
        pytest.param("gemini", {"candidates": [{"content": {"parts": ["x"]}}]}, id="gemini: a part that is a text"),
        pytest.param("gemini", {"candidates": "x"}, id="gemini: candidates are a text"),
    ],
)  # fmt: skip
def test_a_broken_event_is_shown(wire: str, event: dict[str, Any]) -> None:
    error = error_of(wire, streamed(sse((event,))), stream=True)

    assert str(error).startswith("stream chunk of another shape: {")
    assert (error.failure.id, error.retryable) == ("malformed-reply", True)


def test_pieces_that_do_not_fit_together_are_a_reply_that_cannot_be_read() -> None:
    odd = {"type": "content_block_start", "index": "third", "content_block": {"type": "text", "text": ""}}
    events = (*ANTHROPIC.events[:-2], odd, *ANTHROPIC.events[-2:])

    error = error_of("anthropic", streamed(sse(events)), stream=True)

    assert str(error).startswith("the stream's pieces do not fit together: ")
    assert (error.failure.id, error.retryable) == ("malformed-reply", True)


def test_an_answer_counts_from_its_first_word_not_from_the_servers_greeting() -> None:
    chunks = [sse(ANTHROPIC.events[:3]), sse(ANTHROPIC.events[3:])]

    answer, _ = ask("anthropic", streamed(b"".join(chunks)), stream=True)
    greeting_only = (*ANTHROPIC.events[:2], ANTHROPIC.events[6], *ANTHROPIC.events[-2:])
    silent = read_chunks("anthropic", [sse(greeting_only)])

    assert answer.ttft_ms is not None
    assert silent.ttft_ms is None


@EACH
def test_a_connection_may_break_after_the_last_word(provider: Provider) -> None:
    answer, _ = ask(provider.wire, streamed(provider.stream() + b": bye\n\n", cut=provider is not GEMINI), stream=True)

    assert answer.read() == provider.reply


def test_a_connection_serves_again_when_the_server_ended_after_its_last_word() -> None:
    late = [OPENAI.stream(), b": and that is it\n\n"]

    with serve(Reply(chunks=late, pause_s=0.01, headers={"content-type": "text/event-stream"})) as server:

        async def main() -> None:
            client = ChatClient(server.url)
            model = client.model(Options(model="m", stream=True))
            for _ in range(3):
                await model.complete(QUESTION, timeout_s=5.0)
            await client.close()

        asyncio.run(main())

        assert len({request.port for request in server.requests}) == 1


def test_a_server_that_goes_on_after_its_last_word_is_not_waited_for() -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield ANTHROPIC.stream()
        await asyncio.Event().wait()

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=endless())

    client = ChatClient(wire="anthropic", transport=httpx.MockTransport(answer))

    reply = asyncio.run(client.model(Options(model="m", stream=True)).complete(QUESTION, timeout_s=5.0))

    assert reply.read() == ANTHROPIC.reply
