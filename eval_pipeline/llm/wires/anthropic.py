"""`anthropic`: the Messages API."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import httpx

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.failures import CONNECTION
from eval_pipeline.llm.errors import ModelError
from eval_pipeline.llm.messages import (
    Image,
    calls_of,
    in_turns,
    is_system,
    late_system,
    pieces,
    split_system,
)
from eval_pipeline.llm.model import ChatMessage, Endpoint, JsonMap, Options, Reply, TokenUsage, ToolCall
from eval_pipeline.llm.reading import count, joined, json_or_text, mapping, mappings, merged, text, total
from eval_pipeline.llm.wires import WIRES, Places, address, at, headers_of, no_embeddings, placed

API_VERSION = "2023-06-01"
MAX_TOKENS = 8_192
"""The default limit on an answer, which this API requires. A thinking budget is added to it."""

_FINISH = {
    "end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "model_context_window_exceeded": "length",
    "tool_use": "tool_calls", "refusal": "content_filter",
}  # fmt: skip
_CHOICES = {"auto": {"type": "auto"}, "required": {"type": "any"}, "none": {"type": "none"}}


def _tool(tool: Any) -> Any:
    function = mapping(tool).get("function")
    if not isinstance(function, Mapping):
        return tool
    renamed = {"parameters": "input_schema"}
    return {"input_schema": {"type": "object"}} | {renamed.get(key, key): value for key, value in function.items()}


def _tool_choice(choice: Any) -> dict[str, Any]:
    if isinstance(choice, str):
        return {"tool_choice": _CHOICES.get(choice, choice)}
    name = mapping(mapping(choice).get("function")).get("name")
    return {"tool_choice": {"type": "tool", "name": name} if name else choice}


def _output_format(value: Any) -> dict[str, Any]:
    """Map a JSON schema. This API has no plain JSON mode without a schema; the messages have to request it."""
    schema = mapping(mapping(value).get("json_schema")).get("schema")
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}} if schema else {}


def _thinking(tokens: Any) -> dict[str, Any]:
    return {"type": "enabled", "budget_tokens": tokens} if tokens else {"type": "disabled"}


_LIMIT = at("max_tokens")
_PLACES: Places = {
    "temperature": at("temperature"),
    "top_p": at("top_p"),
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), _LIMIT),
    "stop": lambda stop: {"stop_sequences": [stop] if isinstance(stop, str) else stop},
    "thinking_budget": lambda tokens: {"thinking": _thinking(tokens)},
    "reasoning_effort": at("output_config", "effort"),
    "response_format": _output_format,
    "tools": lambda tools: {"tools": [_tool(tool) for tool in tools]},
    "tool_choice": _tool_choice,
    "parallel_tool_calls": lambda allowed: {"tool_choice": {"disable_parallel_tool_use": not allowed}},
}


@WIRES.register("anthropic")
class Anthropic:
    """`system` is a field beside the messages; `base_url` is the part before `/v1/messages`.

    The API refuses `temperature` together with a thinking budget, so it is left out then.
    """

    name: ClassVar[str] = "anthropic"
    base_url: ClassVar[str] = "https://api.anthropic.com"

    def __init__(self, endpoint: Endpoint) -> None:
        base = (endpoint.base_url or self.base_url).rstrip("/").removesuffix("/v1")
        self._url = address(base, "/v1/messages")
        version = {"anthropic_version": endpoint.api_version or API_VERSION}
        self.headers: Mapping[str, str] = headers_of(endpoint, "x-api-key", **version)

    def fixed(self, options: Options) -> dict[str, Any]:
        body = placed(self.name, options, _PLACES)
        budget = count(mapping(body.get("thinking")).get("budget_tokens")) or 0
        limit = body.setdefault("max_tokens", MAX_TOKENS + budget)
        if budget and isinstance(limit, int) and limit <= budget:
            raise InputError(
                f"{budget} tokens of thinking leave nothing for an answer of at most {limit} tokens, thinking included",
                SourceLocation(field="thinking_budget"),
            )
        if budget:
            body.pop("temperature", None)
        if "tool_choice" in body and "type" not in mapping(body["tool_choice"]):
            body["tool_choice"] = merged(body["tool_choice"], _CHOICES["auto"])
        return body

    def body(self, fixed: JsonMap, messages: Sequence[ChatMessage]) -> dict[str, Any]:
        system, others = split_system(messages)
        turns = [{"role": role, "content": blocks} for role, blocks in in_turns(map(_turn, others))]
        return {**fixed, **({"system": system} if system else {}), "messages": turns}

    def request(self, body: JsonMap) -> tuple[httpx.URL, JsonMap]:
        return self._url, body

    def embeddings(self, model: str) -> httpx.URL:
        raise no_embeddings(self.name)

    def assembly(self) -> MessageAssembly:
        return MessageAssembly()

    @staticmethod
    def answers(response: JsonMap) -> bool:
        return isinstance(response.get("content"), list)

    @staticmethod
    def read(response: JsonMap) -> Reply:
        blocks = mappings(response["content"])
        reason = text(response.get("stop_reason"))
        thoughts = (block.get("thinking") for block in blocks if block.get("type") == "thinking")
        explanation = text(mapping(response.get("stop_details")).get("explanation"))
        return Reply(
            text=joined(block.get("text") for block in blocks if block.get("type") == "text"),
            thinking=joined(thoughts, "\n") or None,
            tool_calls=tuple(_tool_call(block) for block in blocks if str(block.get("type")).endswith("tool_use")),
            finish=_FINISH.get(reason or "", reason),
            refusal=explanation if reason == "refusal" else None,
            usage=_usage(mapping(response.get("usage"))),
            model=text(response.get("model")),
            id=text(response.get("id")),
        )


def _turn(message: ChatMessage) -> tuple[str, list[Any]]:
    """Convert a message to a turn; tool results become user content."""
    if is_system(message):
        return "user", [_block(piece) for piece in late_system(message)]
    if message["role"] == "tool":
        result = [_block(piece) for piece in pieces(message.get("content"))]
        return "user", [{"type": "tool_result", "tool_use_id": message.get("tool_call_id"), "content": result}]
    blocks = [_block(piece) for piece in pieces(message.get("content"))]
    calls = [
        {"type": "tool_use", "id": id_, "name": name, "input": arguments} for id_, name, arguments in calls_of(message)
    ]
    return message["role"], blocks + calls


def _block(piece: str | Image) -> dict[str, Any]:
    if isinstance(piece, str):
        return {"type": "text", "text": piece}
    if piece.data is None:
        return {"type": "image", "source": {"type": "url", "url": piece.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": piece.media_type, "data": piece.data}}


def _tool_call(block: Mapping[str, Any]) -> ToolCall:
    return ToolCall(name=str(block.get("name")), arguments=block.get("input"), id=text(block.get("id")))


def _usage(usage: Mapping[str, Any]) -> TokenUsage:
    """This API's `input_tokens` excludes cache reads and cache writes, so both are added."""
    read, written = count(usage.get("cache_read_input_tokens")), count(usage.get("cache_creation_input_tokens"))
    return TokenUsage(
        input_tokens=total(count(usage.get("input_tokens")), read, written),
        cached_input_tokens=read,
        cache_write_tokens=written,
        output_tokens=count(usage.get("output_tokens")),
    )


class MessageAssembly:
    """A streamed message under construction."""

    def __init__(self) -> None:
        self.done = False
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._grown: dict[tuple[int, str], io.StringIO] = {}

    def add(self, event: JsonMap) -> bool:
        take = _TAKERS.get(event["type"])
        return take(self, event) if take is not None else False

    def _start(self, event: JsonMap) -> bool:
        self._message = {**event["message"]}
        return False

    def _open(self, event: JsonMap) -> bool:
        self._blocks[event["index"]] = {**event["content_block"]}
        return bool(event["content_block"]["type"] == "tool_use")

    def _grow(self, event: JsonMap) -> bool:
        """Append a delta to a block.

        Text, thinking and JSON accumulate; anything else (a signature) arrives complete.
        """
        delta, index = event["delta"], event["index"]
        block = self._blocks[index]
        for key, value in delta.items():
            if key in ("text", "thinking", "partial_json"):
                initial = "" if key == "partial_json" else block.get(key) or ""
                grown = self._grown.setdefault((index, key), io.StringIO(initial, newline=""))
                grown.seek(0, io.SEEK_END)
                grown.write(value)
            elif key != "type":
                block[key] = value
        return bool(delta.get("text") or delta.get("thinking") or delta.get("partial_json"))

    def _change(self, event: JsonMap) -> bool:
        self._message |= event["delta"]
        self._message["usage"] = merged(mapping(self._message.get("usage")), mapping(event.get("usage")))
        return False

    def _stop(self, event: JsonMap) -> bool:
        self.done = True
        return False

    def response(self) -> JsonMap:
        if not self._message or self._message.get("stop_reason") is None:
            raise ModelError(CONNECTION, "the stream ended before the answer did", retryable=True)
        for (index, key), grown in self._grown.items():
            content = grown.getvalue()
            self._blocks[index] |= {"input": json_or_text(content or "{}")} if key == "partial_json" else {key: content}
        return {**self._message, "content": [block for _, block in sorted(self._blocks.items())]}


_TAKERS = {
    "message_start": MessageAssembly._start,
    "content_block_start": MessageAssembly._open,
    "content_block_delta": MessageAssembly._grow,
    "message_delta": MessageAssembly._change,
    "message_stop": MessageAssembly._stop,
}
