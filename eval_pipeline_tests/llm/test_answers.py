"""What each provider answers, in one piece and as a stream, is read alike."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline.llm.client import read_response
from eval_pipeline.llm.model import Reply, TokenUsage, ToolCall
from eval_pipeline_tests.llm.client_calls import ask, read_chunks
from eval_pipeline_tests.llm.providers import (
    ANTHROPIC,
    GEMINI,
    OPENAI,
    PROVIDERS,
    RESPONSES,
    Provider,
    plain,
    sse,
    streamed,
)

EACH = pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.wire)


@EACH
def test_a_response_is_read_and_kept_as_it_came(provider: Provider) -> None:
    answer, _ = ask(provider.wire, plain(provider.response))

    assert answer.read() == provider.reply
    assert answer.response == provider.response
    assert (answer.wire, answer.ttft_ms) == (provider.wire, None)


@EACH
def test_a_stream_says_what_the_response_would_have_said(provider: Provider) -> None:
    answer, _ = ask(provider.wire, streamed(provider.stream(), pieces=5), stream=True)

    assert answer.read() == provider.reply
    assert answer.ttft_ms is not None
    assert answer.ttft_ms > 0


@pytest.mark.parametrize("provider", [RESPONSES, ANTHROPIC, GEMINI], ids=lambda provider: provider.wire)
def test_a_stream_becomes_the_very_response_it_stands_for(provider: Provider) -> None:
    answer, _ = ask(provider.wire, streamed(provider.stream()), stream=True)

    assert answer.response == provider.response


@EACH
def test_an_endpoint_that_does_not_stream_when_asked_to_is_read_all_the_same(provider: Provider) -> None:
    answer, _ = ask(provider.wire, plain(provider.response), stream=True)

    assert answer.read() == provider.reply


def without(response: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in response.items() if key not in keys}


@pytest.mark.parametrize(
    ("provider", "usage"),
    [(OPENAI, "usage"), (RESPONSES, "usage"), (ANTHROPIC, "usage"), (GEMINI, "usageMetadata")],
    ids=lambda value: value.wire if isinstance(value, Provider) else "",
)
@pytest.mark.parametrize(
    "value_", [None, {}, [1], {"input_tokens": "9", "prompt_tokens": True, "promptTokenCount": -1}]
)
def test_what_a_provider_does_not_count_is_not_known(provider: Provider, usage: str, value_: Any) -> None:
    assert read_response(provider.wire, {**provider.response, usage: value_}).usage == TokenUsage()


def chat(message: dict[str, Any], finish: str | None = "stop", **usage: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}


def response(*items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"status": "completed", "output": list(items), **fields}


def said(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "content": list(parts)}


def message(*blocks: dict[str, Any], stop: str | None = "end_turn", **fields: Any) -> dict[str, Any]:
    return {"content": list(blocks), "stop_reason": stop, **fields}


def content(*parts: dict[str, Any], finish: str = "STOP", **fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}, "finishReason": finish}], **fields}


@pytest.mark.parametrize(
    ("wire", "raw", "reply"),
    [
        pytest.param("openai", chat({"content": None, "refusal": "I will not"}),
                     Reply(refusal="I will not", finish="stop"), id="openai: a refusal"),
        pytest.param("openai", chat({"content": "half"}, "length"), Reply(text="half", finish="length"),
                     id="openai: cut"),
        pytest.param("openai", chat({"content": ""}, "content_filter"), Reply(finish="content_filter"),
                     id="openai: filtered"),
        pytest.param("openai", chat({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]},
                                                 {"type": "text", "text": "4"}]}),
                     Reply(text="4", thinking="Hm", finish="stop"), id="openai: parts, as Mistral sends them"),
        pytest.param("openai", chat({"content": "4"}, prompt_tokens=9, prompt_cache_hit_tokens=5, completion_tokens=1),
                     Reply(text="4", finish="stop",
                           usage=TokenUsage(input_tokens=9, cached_input_tokens=5, output_tokens=1)),
                     id="openai: a cache, as DeepSeek counts it"),
        pytest.param("openai", chat({"content": "4"}, prompt_tokens=9,
                                    prompt_tokens_details={"cached_tokens": 0, "cache_write_tokens": 7}),
                     Reply(text="4", finish="stop",
                           usage=TokenUsage(input_tokens=9, cached_input_tokens=0, cache_write_tokens=7)),
                     id="openai: a cache, as OpenRouter counts it"),
        pytest.param("openai", chat({"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{"}}]}),
                     Reply(tool_calls=(ToolCall(name="f", arguments="{", id="1"),), finish="stop"),
                     id="openai: arguments that are no JSON"),
        pytest.param("openai-responses", response(said({"type": "refusal", "refusal": "I will not"})),
                     Reply(refusal="I will not", finish="stop"), id="responses: a refusal"),
        pytest.param("openai-responses", response(status="incomplete",
                                                  incomplete_details={"reason": "max_output_tokens"}),
                     Reply(finish="length"), id="responses: cut"),
        pytest.param("openai-responses", response(status="incomplete", incomplete_details={"reason": "content_filter"}),
                     Reply(finish="content_filter"), id="responses: filtered"),
        pytest.param("openai-responses", response(status="cancelled"), Reply(finish="cancelled"),
                     id="responses: cancelled"),
        pytest.param("openai-responses",
                     response({"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}},
                              said({"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"})),
                     Reply(text="ab", finish="tool_calls",
                           tool_calls=(ToolCall(name="web_search", arguments={"query": "x"}, id="ws_1"),)),
                     id="responses: a tool of the provider's"),
        pytest.param("openai-responses",
                     response({"type": "reasoning", "summary": [],
                               "content": [{"type": "reasoning_text", "text": "Hm"}]}),
                     Reply(thinking="Hm", finish="stop"), id="responses: thinking shown whole"),
        pytest.param("anthropic", message(stop="max_tokens"), Reply(finish="length"), id="anthropic: cut"),
        pytest.param("anthropic", message(stop="refusal", stop_details={"type": "refusal", "explanation": "Unsafe"}),
                     Reply(finish="content_filter", refusal="Unsafe"), id="anthropic: refused"),
        pytest.param("anthropic", message({"type": "text", "text": "4"}, stop="stop_sequence"),
                     Reply(text="4", finish="stop"), id="anthropic: a stop sequence"),
        pytest.param("anthropic", message(stop="pause_turn"), Reply(finish="pause_turn"), id="anthropic: another word"),
        pytest.param("anthropic", message({"type": "redacted_thinking", "data": "xyz"}, {"type": "text", "text": "a "},
                                          {"type": "text", "text": "b", "citations": []}),
                     Reply(text="a b", finish="stop"), id="anthropic: a text in pieces, thoughts withheld"),
        pytest.param("anthropic", message(usage={"input_tokens": 9, "output_tokens": 1,
                                                 "cache_read_input_tokens": None}),
                     Reply(finish="stop", usage=TokenUsage(input_tokens=9, output_tokens=1)),
                     id="anthropic: no cache"),
        pytest.param("gemini", content({"text": "half"}, finish="MAX_TOKENS"), Reply(text="half", finish="length"),
                     id="gemini: cut"),
        pytest.param("gemini", {"candidates": [{"finishReason": "SAFETY", "index": 0}]},
                     Reply(finish="content_filter"), id="gemini: an answer held back"),
        pytest.param("gemini", {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}},
                     Reply(finish="content_filter"), id="gemini: a question refused"),
        pytest.param("gemini", {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]},
                     Reply(finish="MALFORMED_FUNCTION_CALL"), id="gemini: another word"),
        pytest.param("gemini", content({"functionCall": {"name": "now"}}),
                     Reply(tool_calls=(ToolCall(name="now", arguments={}),), finish="tool_calls"),
                     id="gemini: a call without arguments or id"),
        pytest.param("gemini", content({"text": "4"}, usageMetadata={"promptTokenCount": 9, "thoughtsTokenCount": 3,
                                                                    "toolUsePromptTokenCount": 2}),
                     Reply(text="4", finish="stop",
                           usage=TokenUsage(input_tokens=11, output_tokens=3, reasoning_tokens=3)),
                     id="gemini: thoughts alone"),
    ],
)  # fmt: skip
def test_every_way_to_answer_is_told_from_the_others(wire: str, raw: dict[str, Any], reply: Reply) -> None:
    assert read_response(wire, raw) == reply


@pytest.mark.parametrize(
    ("wire", "raw"),
    [
        ("openai", {}),
        ("openai", {"choices": []}),
        ("openai-responses", {}),
        ("anthropic", {}),
        ("gemini", {}),
        ("gemini", {"candidates": []}),
    ],
)
def test_what_is_no_response_of_a_wire_is_not_read_as_an_empty_one(wire: str, raw: dict[str, Any]) -> None:
    with pytest.raises((KeyError, IndexError)):
        read_response(wire, raw)


def streamed_text(wire: str, *events: dict[str, Any]) -> Reply:
    return read_chunks(wire, [sse(events)]).read()


def test_a_streamed_refusal_is_a_refusal() -> None:
    def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
        return {"id": "1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    reply = streamed_text("openai", chunk(refusal="I will "), chunk(refusal="not"), chunk("stop"))

    assert (reply.text, reply.refusal) == ("", "I will not")


def test_a_last_event_without_items_is_filled_from_those_before() -> None:
    events = (
        {"type": "response.output_item.done", "output_index": 1, "item": said({"type": "output_text", "text": "b"})},
        {"type": "response.output_item.done", "output_index": 0, "item": said({"type": "output_text", "text": "a"})},
        {"type": "response.completed", "response": response()},
    )

    assert streamed_text("openai-responses", *events).text == "ab"


def test_a_tool_that_needs_no_arguments_gets_none_from_a_stream() -> None:
    events = (
        {"type": "message_start", "message": message(stop=None)},
        {"type": "content_block_start", "index": 0,
         "content_block": {"type": "tool_use", "id": "1", "name": "now", "input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": ""}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )  # fmt: skip

    reply = streamed_text("anthropic", *events)

    assert reply.tool_calls == (ToolCall(name="now", arguments={}, id="1"),)
    assert reply.usage == TokenUsage(output_tokens=2)


def test_a_stream_that_a_filter_ended_says_why() -> None:
    stopped = {"stop_reason": "refusal", "stop_details": {"type": "refusal", "explanation": "Unsafe"}}
    events = (
        {"type": "message_start", "message": message(stop=None)},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello.."}},
        {"type": "message_delta", "delta": stopped, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )

    reply = streamed_text("anthropic", *events)

    assert (reply.text, reply.finish, reply.refusal) == ("Hello..", "content_filter", "Unsafe")


def test_a_stream_that_ends_in_a_blocked_question_says_so() -> None:
    events = ({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}},)

    reply = streamed_text("gemini", *events)

    assert reply == Reply(finish="content_filter", usage=TokenUsage(input_tokens=4))
