"""`openai-responses`: OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import httpx

from eval_pipeline.failures import CONNECTION
from eval_pipeline.fingerprints import to_json
from eval_pipeline.llm.errors import ModelError, raise_reported
from eval_pipeline.llm.messages import Image, calls_of, pieces, plain_text
from eval_pipeline.llm.model import ChatMessage, Endpoint, JsonMap, Options, Reply, TokenUsage, ToolCall
from eval_pipeline.llm.reading import amount, count, joined, json_or_text, mapping, mappings, text
from eval_pipeline.llm.wires import WIRES, Places, address, at, headers_of, placed, without_version
from eval_pipeline.llm.wires.openai import OpenAI

_LAST = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_FINISH = {"max_output_tokens": "length", "content_filter": "content_filter"}


def _tool(tool: Any) -> Any:
    """Convert a tool: the fields that chat completions put below `function` move beside the type."""
    function = mapping(tool).get("function")
    return {"type": "function", **function} if isinstance(function, Mapping) else tool


def _text_format(value: Any) -> dict[str, Any]:
    schema = mapping(value).get("json_schema")
    return {"text": {"format": {"type": "json_schema", **schema} if isinstance(schema, Mapping) else value}}


_LIMIT = at("max_output_tokens")
PLACES: Places = {
    **{name: at(name) for name in ("temperature", "top_p", "parallel_tool_calls")},
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), _LIMIT),
    "reasoning_effort": at("reasoning", "effort"),
    "response_format": _text_format,
    "tools": lambda tools: {"tools": [_tool(tool) for tool in tools]},
    "tool_choice": lambda choice: {"tool_choice": _tool(choice)},
}


@WIRES.register("openai-responses")
class OpenAIResponses:
    """Messages become input items. `base_url` is the part before `/responses`."""

    name: ClassVar[str] = "openai-responses"
    base_url: ClassVar[str] = OpenAI.base_url

    def __init__(self, endpoint: Endpoint) -> None:
        without_version(endpoint, self.name)
        base_url = endpoint.base_url or self.base_url
        self._url = address(base_url, "/responses")
        self._embeddings = address(base_url, "/embeddings")
        self.headers: Mapping[str, str] = headers_of(endpoint)

    def fixed(self, options: Options) -> dict[str, Any]:
        return placed(self.name, options, PLACES)

    def body(self, fixed: JsonMap, messages: Sequence[ChatMessage]) -> dict[str, Any]:
        return {**fixed, "input": [item for message in messages for item in _items(message)]}

    def request(self, body: JsonMap) -> tuple[httpx.URL, JsonMap]:
        return self._url, body

    def embeddings(self, model: str) -> httpx.URL:
        return self._embeddings

    def assembly(self) -> ResponsesAssembly:
        return ResponsesAssembly()

    @staticmethod
    def answers(response: JsonMap) -> bool:
        return isinstance(response.get("output"), list) and response.get("status") not in ("queued", "in_progress")

    @staticmethod
    def read(response: JsonMap) -> Reply:
        items = mappings(response["output"])
        parts = [part for item in items if item.get("type") == "message" for part in mappings(item.get("content"))]
        calls = tuple(_tool_call(item) for item in items if str(item.get("type")).endswith("_call"))
        return Reply(
            text=joined(part.get("text") for part in parts if part.get("type") == "output_text"),
            thinking=joined(_thoughts(items), "\n") or None,
            tool_calls=calls,
            finish=_finish(response, calls),
            refusal=joined(part.get("refusal") for part in parts) or None,
            usage=_usage(mapping(response.get("usage"))),
            model=text(response.get("model")),
            id=text(response.get("id")),
        )


def _items(message: ChatMessage) -> Iterator[dict[str, Any]]:
    """Yield a message as input items: its content, then its tool calls."""
    role, content = message["role"], message.get("content")
    if role == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message.get("tool_call_id"),
            "output": plain_text(content),
        }
        return
    value = content if isinstance(content, str) else [_part(piece, role) for piece in pieces(content)]
    if value:
        yield {"role": role, "content": value}
    for id_, name, arguments in calls_of(message):
        yield {"type": "function_call", "call_id": id_, "name": name, "arguments": to_json(arguments).decode()}


def _part(piece: str | Image, role: str) -> dict[str, Any]:
    if isinstance(piece, Image):
        return {"type": "input_image", "image_url": piece.url}
    return {"type": "output_text" if role == "assistant" else "input_text", "text": piece}


def _thoughts(items: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
    for item in items:
        if item.get("type") == "reasoning":
            shown = mappings(item.get("content")) or mappings(item.get("summary"))
            yield from (part.get("text") for part in shown)


def _tool_call(item: Mapping[str, Any]) -> ToolCall:
    """Convert a function call; a call of a provider's built-in tool is named by the type of its item."""
    arguments = next((item[key] for key in ("arguments", "input", "action") if key in item), None)
    return ToolCall(
        name=text(item.get("name")) or str(item.get("type")).removesuffix("_call"),
        arguments=json_or_text(arguments),
        id=text(item.get("call_id")) or text(item.get("id")),
    )


def _finish(response: Mapping[str, Any], calls: Sequence[ToolCall]) -> str | None:
    reason = text(mapping(response.get("incomplete_details")).get("reason"))
    if reason is not None:
        return _FINISH.get(reason, reason)
    if response.get("status") in (None, "completed"):
        return "tool_calls" if calls else "stop"
    return text(response.get("status"))


def _usage(usage: Mapping[str, Any]) -> TokenUsage:
    input_details = mapping(usage.get("input_tokens_details"))
    output_details = mapping(usage.get("output_tokens_details"))
    return TokenUsage(
        input_tokens=count(usage.get("input_tokens")),
        cached_input_tokens=count(input_details.get("cached_tokens")),
        cache_write_tokens=count(input_details.get("cache_write_tokens")),
        output_tokens=count(usage.get("output_tokens")),
        reasoning_tokens=count(output_details.get("reasoning_tokens")),
        cost_usd=amount(usage.get("cost")),
    )


class ResponsesAssembly:
    """A streamed response. The last event holds all of it; earlier events only give the time to the first token."""

    def __init__(self) -> None:
        self.done = False
        self._response: JsonMap | None = None
        self._items: dict[int, JsonMap] = {}

    def add(self, event: JsonMap) -> bool:
        kind = str(event["type"])
        if kind == "response.output_item.done":
            self._items[event["output_index"]] = event["item"]
        if kind in _LAST:
            self._response = self._whole(event["response"])
            self.done = True
        return kind.endswith(".delta")

    def _whole(self, response: JsonMap) -> JsonMap:
        """Return the last event's response; some servers leave its output empty and send it in earlier items only."""
        raise_reported(response)
        if response.get("output") or not self._items:
            return response
        return {**response, "output": [item for _, item in sorted(self._items.items())]}

    def response(self) -> JsonMap:
        if self._response is None:
            raise ModelError(CONNECTION, "the stream ended before the answer did", retryable=True)
        return self._response
