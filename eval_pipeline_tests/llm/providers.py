"""What providers really send: the same short exchange as each of them answers it, in one piece and as a stream.

Asked what 2 + 2 is, with a tool at hand, each thinks "Two and two", says "Grüße: 4 😀" and calls `add`. Ids,
signatures and other fields that nobody here reads are among it, as they are on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from eval_pipeline.llm.model import Reply, TokenUsage, ToolCall
from eval_pipeline_tests.local_server import Reply as HttpReply
from eval_pipeline_tests.local_server import json_reply

TEXT = "Grüße: 4 😀"
CALL = ToolCall(name="add", arguments={"a": 2, "b": 2}, id="call_1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One wire's exchange: the response, the events that stand for it, how the events are framed, and what is read."""

    wire: str
    response: dict[str, Any]
    events: tuple[dict[str, Any], ...]
    reply: Reply
    named: bool = False
    done: bool = False
    line_end: bytes = b"\n"

    def stream(self) -> bytes:
        """The events as they come over the wire."""
        return sse(self.events, named=self.named, done=self.done, line_end=self.line_end)


def sse(
    events: tuple[dict[str, Any], ...], *, named: bool = False, done: bool = False, line_end: bytes = b"\n"
) -> bytes:
    """Server-sent events, each with its `type` as a name if `named`."""
    blocks = []
    for event in events:
        name = b"event: " + str(event["type"]).encode() + line_end if named else b""
        blocks.append(name + b"data: " + orjson.dumps(event) + line_end * 2)
    return b"".join(blocks) + (b"data: [DONE]" + line_end * 2 if done else b"")


def streamed(body: bytes, *, pieces: int = 1, cut: bool = False) -> HttpReply:
    """A stream sent in pieces of about the same length."""
    step = max(1, -(-len(body) // pieces))
    chunks = [body[at : at + step] for at in range(0, len(body), step)]
    return HttpReply(chunks=chunks, cut=cut, headers={"content-type": "text/event-stream; charset=utf-8"})


def plain(response: object) -> HttpReply:
    """A response in one piece."""
    return json_reply(response, content_type="application/json; charset=utf-8")


def _chat_chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1767225600, "model": "gpt-x-2026",
            "system_fingerprint": "fp_1", "choices": [{"index": 0, "delta": delta, "logprobs": None,
            "finish_reason": finish}], **more}  # fmt: skip


_CHAT_USAGE = {
    "prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29,
    "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 3, "accepted_prediction_tokens": 0},
}  # fmt: skip
_CHAT_MESSAGE = {
    "role": "assistant", "content": TEXT, "refusal": None, "annotations": [],
    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":2,"b":2}'}}],
}  # fmt: skip
_TOKENS = TokenUsage(input_tokens=20, cached_input_tokens=4, output_tokens=9, reasoning_tokens=3)

OPENAI = Provider(
    wire="openai",
    response={
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1767225600, "model": "gpt-x-2026",
        "choices": [{"index": 0, "message": {**_CHAT_MESSAGE, "reasoning_content": "Two and two"}, "logprobs": None,
                     "finish_reason": "tool_calls"}],
        "usage": _CHAT_USAGE, "service_tier": "default", "system_fingerprint": "fp_1",
    },
    events=(
        _chat_chunk({"role": "assistant", "content": "", "refusal": None}),
        _chat_chunk({"reasoning_content": "Two and "}),
        _chat_chunk({"reasoning_content": "two"}),
        _chat_chunk({"content": "Grüße: "}),
        _chat_chunk({"content": "4 😀"}),
        _chat_chunk({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                                     "function": {"name": "add", "arguments": ""}}]}),
        _chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a":2'}}]}),
        _chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": ',"b":2}'}}]}),
        _chat_chunk({}, "tool_calls"),
        {**_chat_chunk({}), "choices": [], "usage": _CHAT_USAGE},
    ),
    reply=Reply(text=TEXT, thinking="Two and two", tool_calls=(CALL,), finish="tool_calls", usage=_TOKENS,
                model="gpt-x-2026", id="chatcmpl-1"),
    done=True,
)  # fmt: skip

AZURE = Provider(
    wire="azure",
    response={
        **OPENAI.response,
        "choices": [{**OPENAI.response["choices"][0], "content_filter_results": {"hate": {"filtered": False}}}],
        "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
    },
    events=(
        {"choices": [], "created": 0, "id": "", "model": "", "object": "",
         "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]},
        *OPENAI.events[:5],
        {"id": "", "object": "", "created": 0, "model": "", "usage": None, "choices": [
            {"index": 0, "finish_reason": None, "content_filter_results": {"hate": {"filtered": False}},
             "content_filter_offsets": {"check_offset": 44, "start_offset": 44, "end_offset": 198}}]},
        *OPENAI.events[5:],
    ),
    reply=OPENAI.reply,
    done=True,
)  # fmt: skip

_ROUTED_USAGE = {**_CHAT_USAGE, "cost": 0.00025, "is_byok": False, "cost_details": {"upstream_inference_cost": None}}
OPENROUTER = Provider(
    wire="openrouter",
    response={
        "id": "gen-1", "provider": "Anthropic", "model": "anthropic/claude-x", "object": "chat.completion",
        "created": 1767225600, "usage": _ROUTED_USAGE,
        "choices": [{"logprobs": None, "finish_reason": "tool_calls", "native_finish_reason": "tool_use", "index": 0,
                     "message": {**_CHAT_MESSAGE, "reasoning": "Two and two",
                                 "reasoning_details": [{"type": "reasoning.text", "text": "Two and two"}]}}],
    },
    events=tuple(
        {"id": "gen-1", "provider": "Anthropic", "model": "anthropic/claude-x", "object": "chat.completion.chunk",
         "created": 1767225600, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "", **delta},
         "finish_reason": finish, "native_finish_reason": None, "logprobs": None}], **more}
        for delta, finish, more in (
            ({"reasoning": "Two and two"}, None, {}),
            ({"content": TEXT}, None, {}),
            ({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                              "function": {"name": "add", "arguments": '{"a":2,"b":2}'}}]}, None, {}),
            ({}, "tool_calls", {}),
            ({}, None, {"usage": _ROUTED_USAGE}),
        )
    ),
    reply=Reply(text=TEXT, thinking="Two and two", tool_calls=(CALL,), finish="tool_calls",
                usage=TokenUsage(input_tokens=20, cached_input_tokens=4, output_tokens=9, reasoning_tokens=3,
                                 cost_usd=0.00025),
                model="anthropic/claude-x", id="gen-1"),
    done=True,
)  # fmt: skip

_ITEMS: list[dict[str, Any]] = [
    {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Two and two"}],
     "encrypted_content": None},
    {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
     "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": TEXT}]},
    {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1", "name": "add",
     "arguments": '{"a":2,"b":2}'},
]  # fmt: skip
_RESPONSE: dict[str, Any] = {
    "id": "resp_1", "object": "response", "created_at": 1767225600, "status": "completed", "background": False,
    "error": None, "incomplete_details": None, "instructions": None, "max_output_tokens": None, "model": "gpt-x-2026",
    "output": _ITEMS, "parallel_tool_calls": True, "previous_response_id": None, "store": True, "tools": [],
    "usage": {"input_tokens": 20, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 9,
              "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 29},
}  # fmt: skip
_BEGUN = {**_RESPONSE, "status": "in_progress", "output": [], "usage": None}

RESPONSES = Provider(
    wire="openai-responses",
    response=_RESPONSE,
    events=tuple(
        {**event, "sequence_number": number}
        for number, event in enumerate[dict[str, Any]](
            (
                {"type": "response.created", "response": _BEGUN},
                {"type": "response.in_progress", "response": _BEGUN},
                {"type": "response.output_item.added", "output_index": 0, "item": _ITEMS[0] | {"summary": []}},
                {"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0,
                 "summary_index": 0, "delta": "Two and two"},
                {"type": "response.output_item.done", "output_index": 0, "item": _ITEMS[0]},
                {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1, "content_index": 0,
                 "delta": "Grüße: "},
                {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1, "content_index": 0,
                 "delta": "4 😀"},
                {"type": "response.output_item.done", "output_index": 1, "item": _ITEMS[1]},
                {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 2,
                 "delta": '{"a":2,"b":2}'},
                {"type": "response.output_item.done", "output_index": 2, "item": _ITEMS[2]},
                {"type": "response.completed", "response": _RESPONSE},
            )
        )
    ),
    reply=Reply(text=TEXT, thinking="Two and two", tool_calls=(CALL,), finish="tool_calls", usage=_TOKENS,
                model="gpt-x-2026", id="resp_1"),
    named=True,
)  # fmt: skip

AZURE_RESPONSES = Provider(
    wire="azure-responses", response=RESPONSES.response, events=RESPONSES.events, reply=RESPONSES.reply, named=True
)

_MESSAGE: dict[str, Any] = {
    "id": "msg_01", "type": "message", "role": "assistant", "model": "claude-x-2026",
    "content": [
        {"type": "thinking", "thinking": "Two and two", "signature": "EqQBCg=="},
        {"type": "text", "text": TEXT},
        {"type": "tool_use", "id": "call_1", "name": "add", "input": {"a": 2, "b": 2}},
    ],
    "stop_reason": "tool_use", "stop_sequence": None,
    "usage": {"input_tokens": 9, "cache_creation_input_tokens": 7, "cache_read_input_tokens": 4,
              "cache_creation": {"ephemeral_5m_input_tokens": 7, "ephemeral_1h_input_tokens": 0},
              "output_tokens": 9, "service_tier": "standard"},
}  # fmt: skip

ANTHROPIC = Provider(
    wire="anthropic",
    response=_MESSAGE,
    events=(
        {"type": "message_start", "message": {**_MESSAGE, "content": [], "stop_reason": None, "usage": {
            "input_tokens": 9, "cache_creation_input_tokens": 7, "cache_read_input_tokens": 4, "output_tokens": 1,
            "cache_creation": {"ephemeral_5m_input_tokens": 7, "ephemeral_1h_input_tokens": 0},
            "service_tier": "standard"}}},
        {"type": "content_block_start", "index": 0,
         "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Two and "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "two"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "EqQBCg=="}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Grüße: "}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "4 😀"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "content_block_start", "index": 2,
         "content_block": {"type": "tool_use", "id": "call_1", "name": "add", "input": {}}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ""}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"a": 2'}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ', "b": 2}'}},
        {"type": "content_block_stop", "index": 2},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None},
         "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ),
    reply=Reply(text=TEXT, thinking="Two and two", tool_calls=(CALL,), finish="tool_calls",
                usage=TokenUsage(input_tokens=20, cached_input_tokens=4, cache_write_tokens=7, output_tokens=9),
                model="claude-x-2026", id="msg_01"),
    named=True,
)  # fmt: skip

_CONTENT_CALL = {"functionCall": {"id": "call_1", "name": "add", "args": {"a": 2, "b": 2}}, "thoughtSignature": "CiQB"}
_CONTENT_USAGE = {
    "promptTokenCount": 20, "cachedContentTokenCount": 4, "candidatesTokenCount": 6, "thoughtsTokenCount": 3,
    "totalTokenCount": 29, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 20}],
}  # fmt: skip


def _content(parts: list[dict[str, Any]], **candidate: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0, **candidate}],
            "usageMetadata": {"promptTokenCount": 20}, "modelVersion": "gemini-x", "responseId": "r1"}  # fmt: skip


GEMINI = Provider(
    wire="gemini",
    response={
        **_content([{"text": "Two and two", "thought": True}, {"text": TEXT}, _CONTENT_CALL], finishReason="STOP"),
        "usageMetadata": _CONTENT_USAGE,
    },
    events=(
        _content([{"text": "Two and ", "thought": True}]),
        _content([{"text": "two", "thought": True}]),
        _content([{"text": "Grüße: "}]),
        _content([{"text": "4 😀"}]),
        {**_content([_CONTENT_CALL], finishReason="STOP"), "usageMetadata": _CONTENT_USAGE},
    ),
    reply=Reply(text=TEXT, thinking="Two and two", tool_calls=(CALL,), finish="tool_calls", usage=_TOKENS,
                model="gemini-x", id="r1"),
    line_end=b"\r\n",
)  # fmt: skip

PROVIDERS = (OPENAI, RESPONSES, AZURE, AZURE_RESPONSES, ANTHROPIC, GEMINI, OPENROUTER)
