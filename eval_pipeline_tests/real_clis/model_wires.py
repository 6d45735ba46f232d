"""The wires that a scripted model speaks: a request read, an answer written, for chat, Responses, Messages and Gemini.

An answer is a reasoning text, a text and calls of tools, or an error; usage is made to be told apart: call `k` of a
session has 1000 + 100 k tokens of input, 256 of them cached after the first, and 50 + k of output.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_pipeline_tests.local_server import Reply, json_reply
from eval_pipeline_tests.real_clis.model_calls import Schemas, ToolCall

JsonMap = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of a conversation: its role, its text, and whether it is the result of a tool."""

    role: str
    text: str
    is_result: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """What the model answers in one call. `step` is the number of the call in its session, from 0."""

    model: str
    step: int
    text: str | None = None
    reasoning: str | None = None
    calls: Sequence[ToolCall] = ()

    @property
    def input_tokens(self) -> int:
        return 1000 + 100 * self.step

    @property
    def cached_tokens(self) -> int:
        return 256 if self.step else 0

    @property
    def output_tokens(self) -> int:
        return 50 + self.step

    @property
    def reasoning_tokens(self) -> int:
        return 16 if self.reasoning else 0

    def call_id(self, index: int, prefix: str = "call_") -> str:
        return f"{prefix}{self.step:04d}{index:04d}"


@dataclass(frozen=True, slots=True)
class ModelWire:
    """A wire: the turns and tools of a request, the events of an answer, and the body of an error."""

    turns: Callable[[JsonMap], Iterable[Turn]]
    tools: Callable[[JsonMap], Schemas]
    events: Callable[[ModelAnswer], Iterable[tuple[str | None, Any]]]
    error: Callable[[int, str, str], JsonMap]

    def reply(self, answer: ModelAnswer) -> Reply:
        """Return the answer as a stream of events."""
        chunks = [_event(name, value) for name, value in self.events(answer)]
        return Reply(chunks=chunks, headers={"content-type": "text/event-stream"})

    def refusal(self, status: int, code: str, message: str, **headers: str) -> Reply:
        return json_reply(self.error(status, code, message), status, **headers)


def _event(name: str | None, value: Any) -> bytes:
    data = value if isinstance(value, str) else json.dumps(value)
    return ((f"event: {name}\n" if name else "") + f"data: {data}\n\n").encode()


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) if isinstance(part, dict) else str(part) for part in content)
    return content if isinstance(content, str) else ""


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


# Chat completions


def _chat_turns(body: JsonMap) -> Iterator[Turn]:
    for message in body.get("messages") or ():
        is_result = message.get("role") == "tool"
        yield Turn(str(message.get("role")), _text(message.get("content")), is_result)


def _chat_tools(body: JsonMap) -> Schemas:
    functions = [tool.get("function") or {} for tool in body.get("tools") or ()]
    return {each["name"]: each.get("parameters") or {} for each in functions if "name" in each}


def _chat_events(answer: ModelAnswer) -> Iterator[tuple[str | None, Any]]:
    base = {"id": f"chat-{answer.step}", "object": "chat.completion.chunk", "created": 1, "model": answer.model}

    def chunk(delta: JsonMap, finish: str | None = None) -> tuple[None, Any]:
        return None, {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    if answer.reasoning:
        yield chunk({"reasoning_content": answer.reasoning})
    for piece in _halves(answer.text or ""):
        yield chunk({"content": piece})
    for index, call in enumerate(answer.calls):
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        calls = [{"index": index, "id": answer.call_id(index), "type": "function", "function": function}]
        yield chunk({"tool_calls": calls})
    yield chunk({}, "tool_calls" if answer.calls else "stop")
    usage = {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
    }
    yield None, {**base, "choices": [], "usage": usage}
    yield None, "[DONE]"


def _openai_error(status: int, code: str, message: str) -> JsonMap:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}


# Responses


def _responses_turns(body: JsonMap) -> Iterator[Turn]:
    items = body.get("input") or ()
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        kind = item.get("type", "message")
        if kind == "message":
            yield Turn(str(item.get("role")), _text(item.get("content")))
        else:
            is_result = kind.endswith("_output")
            yield Turn("tool" if is_result else "assistant", _text(item.get("output")), is_result)


def _responses_tools(body: JsonMap) -> Schemas:
    tools = body.get("tools") or ()
    return {tool["name"]: tool.get("parameters") or {} for tool in tools if tool.get("type") == "function"}


def _responses_events(answer: ModelAnswer) -> Iterator[tuple[str | None, Any]]:
    items = list(_response_items(answer))
    usage = {
        "input_tokens": answer.input_tokens,
        "input_tokens_details": {"cached_tokens": answer.cached_tokens},
        "output_tokens": answer.output_tokens,
        "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
        "total_tokens": answer.input_tokens + answer.output_tokens,
    }
    begun = {"id": f"resp_{answer.step}", "object": "response", "created_at": 1, "model": answer.model,
             "status": "in_progress", "output": []}  # fmt: skip
    events: list[tuple[str, JsonMap]] = [("response.created", {"response": begun})]
    for index, item in enumerate(items):
        events.append(("response.output_item.added", {"output_index": index, "item": item}))
        if item["type"] == "message":
            delta = {"item_id": item["id"], "output_index": index, "content_index": 0, "delta": answer.text}
            events.append(("response.output_text.delta", delta))
        events.append(("response.output_item.done", {"output_index": index, "item": item}))
    ended = {**begun, "status": "completed", "output": items, "usage": usage}
    events.append(("response.completed", {"response": ended}))
    for number, (name, values) in enumerate(events):
        yield name, {"type": name, "sequence_number": number, **values}


def _response_items(answer: ModelAnswer) -> Iterator[dict[str, Any]]:
    if answer.reasoning:
        summary = [{"type": "summary_text", "text": answer.reasoning}]
        yield {"id": f"rs_{answer.step}", "type": "reasoning", "encrypted_content": "c2NyaXB0", "summary": summary}
    if answer.text:
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        yield {"id": f"msg_{answer.step}", "type": "message", "role": "assistant", "status": "completed",
               "content": content}  # fmt: skip
    for index, call in enumerate(answer.calls):
        yield {"id": answer.call_id(index, "fc_"), "type": "function_call", "status": "completed", "name": call.name,
               "call_id": answer.call_id(index), "arguments": json.dumps(call.arguments)}  # fmt: skip


# Messages


def _messages_turns(body: JsonMap) -> Iterator[Turn]:
    for message in body.get("messages") or ():
        content = message.get("content")
        parts = content if isinstance(content, list) else []
        results = [part for part in parts if isinstance(part, dict) and part.get("type") == "tool_result"]
        if results:
            yield Turn("tool", _text(_text(results[0].get("content"))), True)
        if len(results) < len(parts) or not parts:
            yield Turn(str(message.get("role")), _text(content))


def _messages_tools(body: JsonMap) -> Schemas:
    return {tool["name"]: tool.get("input_schema") or {} for tool in body.get("tools") or () if "name" in tool}


def _messages_events(answer: ModelAnswer) -> Iterator[tuple[str | None, Any]]:
    usage = {
        "input_tokens": answer.input_tokens - answer.cached_tokens - 64,
        "cache_creation_input_tokens": 64,
        "cache_read_input_tokens": answer.cached_tokens,
        "output_tokens": answer.output_tokens,
    }
    begun = {**usage, "output_tokens": 1}
    message: JsonMap = {"id": f"msg_{answer.step}", "type": "message", "role": "assistant", "model": answer.model,
                        "content": [], "stop_reason": None, "stop_sequence": None, "usage": begun}  # fmt: skip
    yield from _typed("message_start", message=message)
    blocks: list[tuple[JsonMap, JsonMap]] = []
    if answer.text:
        blocks.append(({"type": "text", "text": ""}, {"type": "text_delta", "text": answer.text}))
    for index, call in enumerate(answer.calls):
        use: JsonMap = {"type": "tool_use", "id": answer.call_id(index, "toolu_"), "name": call.name, "input": {}}
        blocks.append((use, {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)}))
    for index, (block, delta) in enumerate(blocks):
        yield from _typed("content_block_start", index=index, content_block=block)
        yield from _typed("content_block_delta", index=index, delta=delta)
        yield from _typed("content_block_stop", index=index)
    stop = {"stop_reason": "tool_use" if answer.calls else "end_turn", "stop_sequence": None}
    yield from _typed("message_delta", delta=stop, usage=usage)
    yield from _typed("message_stop")


def _typed(name: str, **values: Any) -> Iterator[tuple[str, Any]]:
    yield name, {"type": name, **values}


def _messages_error(status: int, code: str, message: str) -> JsonMap:
    return {"type": "error", "error": {"type": code, "message": message}}


# Gemini


def _gemini_turns(body: JsonMap) -> Iterator[Turn]:
    for content in body.get("contents") or ():
        parts = content.get("parts") or ()
        is_result = any("functionResponse" in part for part in parts)
        role = "tool" if is_result else "assistant" if content.get("role") == "model" else "user"
        yield Turn(role, "\n".join(map(_gemini_text, parts)), is_result)


def _gemini_text(part: JsonMap) -> str:
    """Return the text of a part; of the result of a function, its output or error."""
    response = part.get("functionResponse", {}).get("response", {})
    return str(part.get("text") or response.get("output") or response.get("error") or "")


def _gemini_tools(body: JsonMap) -> Schemas:
    declared = [each for tool in body.get("tools") or () for each in tool.get("functionDeclarations") or ()]
    return {each["name"]: each.get("parametersJsonSchema") or each.get("parameters") or {} for each in declared}


def _gemini_events(answer: ModelAnswer) -> Iterator[tuple[str | None, Any]]:
    usage = {
        "promptTokenCount": answer.input_tokens,
        "cachedContentTokenCount": answer.cached_tokens,
        "candidatesTokenCount": answer.output_tokens - answer.reasoning_tokens,
        "thoughtsTokenCount": answer.reasoning_tokens,
        "totalTokenCount": answer.input_tokens + answer.output_tokens,
    }
    parts: list[JsonMap] = [{"text": answer.reasoning, "thought": True}] if answer.reasoning else []
    parts += [{"text": piece} for piece in _halves(answer.text or "") if piece]
    parts += [{"functionCall": {"name": call.name, "args": dict(call.arguments)}} for call in answer.calls]
    for number, part in enumerate([*parts, {"text": ""}]):
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": [part]}, "index": 0}
        if number == len(parts):
            candidate["finishReason"] = "STOP"
        yield None, {"candidates": [candidate], "usageMetadata": usage, "modelVersion": answer.model}


def _gemini_error(status: int, code: str, message: str) -> JsonMap:
    return {"error": {"code": status, "message": message, "status": code.upper()}}


CHAT = ModelWire(_chat_turns, _chat_tools, _chat_events, _openai_error)
RESPONSES = ModelWire(_responses_turns, _responses_tools, _responses_events, _openai_error)
MESSAGES = ModelWire(_messages_turns, _messages_tools, _messages_events, _messages_error)
GEMINI = ModelWire(_gemini_turns, _gemini_tools, _gemini_events, _gemini_error)
