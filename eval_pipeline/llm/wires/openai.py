"""`openai`: chat completions, as OpenAI and compatible servers implement them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import httpx

from eval_pipeline.failures import CONNECTION
from eval_pipeline.llm.errors import ModelError
from eval_pipeline.llm.model import ChatMessage, Endpoint, JsonMap, Options, Reply, TokenUsage, ToolCall
from eval_pipeline.llm.reading import amount, count, joined, json_or_text, mapping, mappings, text
from eval_pipeline.llm.wires import WIRES, Places, address, at, headers_of, placed, without_version

AS_THEY_ARE = (
    "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop", "frequency_penalty",
    "presence_penalty", "reasoning_effort", "response_format", "tools", "tool_choice", "parallel_tool_calls",
)  # fmt: skip
_HEAD = ("id", "created", "model", "system_fingerprint")
_OPTIONAL = ("provider", "service_tier")


@WIRES.register("openai")
class OpenAI:
    """Settings are passed on as they are. `base_url` is the part before `/chat/completions`."""

    name: ClassVar[str] = "openai"
    base_url: ClassVar[str] = "https://api.openai.com/v1"

    def __init__(self, endpoint: Endpoint) -> None:
        without_version(endpoint, self.name)
        base_url = endpoint.base_url or self.base_url
        self._url = address(base_url, "/chat/completions")
        self._embeddings = address(base_url, "/embeddings")
        self.headers: Mapping[str, str] = headers_of(endpoint)

    @property
    def places(self) -> Places:
        """Map settings. OpenAI's newer models refuse `max_tokens`; most compatible servers accept only that."""
        limit = "max_completion_tokens" if self._url.host == httpx.URL(OpenAI.base_url).host else "max_tokens"
        return {**{name: at(name) for name in AS_THEY_ARE}, "max_output_tokens": at(limit)}

    def fixed(self, options: Options) -> dict[str, Any]:
        body = placed(self.name, options, self.places)
        if options.stream:
            body.setdefault("stream_options", {"include_usage": True})
        return body

    def body(self, fixed: JsonMap, messages: Sequence[ChatMessage]) -> dict[str, Any]:
        return {**fixed, "messages": messages}

    def request(self, body: JsonMap) -> tuple[httpx.URL, JsonMap]:
        return self._url, body

    def embeddings(self, model: str) -> httpx.URL:
        return self._embeddings

    def assembly(self) -> ChatAssembly:
        return ChatAssembly()

    @staticmethod
    def answers(response: JsonMap) -> bool:
        choices = response.get("choices")
        return isinstance(choices, list) and bool(choices) and "message" in mapping(choices[0])

    @staticmethod
    def read(response: JsonMap) -> Reply:
        choice = response["choices"][0]
        message = choice["message"]
        content = message.get("content")
        return Reply(
            text=content if isinstance(content, str) else _joined_texts(content, "text"),
            thinking=_thinking(message, content),
            tool_calls=tuple(map(_tool_call, message.get("tool_calls") or ())),
            finish=text(choice.get("finish_reason")),
            refusal=text(message.get("refusal")) or None,
            usage=chat_usage(response.get("usage")),
            model=text(response.get("model")),
            id=text(response.get("id")),
        )


def _joined_texts(content: Any, kind: str) -> str:
    """Join the texts among the parts of a content by line breaks; parts may be plain texts."""
    parts = content if isinstance(content, list) else ()
    texts = (
        part.get("text") if isinstance(part, Mapping) and part.get("type", kind) == kind else part for part in parts
    )
    return joined(filter(None, texts), "\n")


def _thinking(message: Mapping[str, Any], content: Any) -> str | None:
    """Return the model's visible thinking from the fields that different servers use for it."""
    reasoning = text(message.get("reasoning_content")) or text(message.get("reasoning"))
    if reasoning or not isinstance(content, list):
        return reasoning or None
    shown = (
        _joined_texts(part.get("thinking"), "text") for part in mappings(content) if part.get("type") == "thinking"
    )
    return joined(shown, "\n") or None


def _tool_call(call: Mapping[str, Any]) -> ToolCall:
    function = mapping(call.get("function"))
    return ToolCall(
        name=str(function.get("name")), arguments=json_or_text(function.get("arguments")), id=text(call.get("id"))
    )


def chat_usage(raw: Any) -> TokenUsage:
    """Read the usage of a chat completion. `prompt_tokens` includes cached tokens, `completion_tokens` reasoning."""
    usage = mapping(raw)
    prompt, completion = mapping(usage.get("prompt_tokens_details")), mapping(usage.get("completion_tokens_details"))
    cached = prompt.get("cached_tokens")
    return TokenUsage(
        input_tokens=count(usage.get("prompt_tokens")),
        cached_input_tokens=count(usage.get("prompt_cache_hit_tokens") if cached is None else cached),
        cache_write_tokens=count(prompt.get("cache_write_tokens")),
        output_tokens=count(usage.get("completion_tokens")),
        reasoning_tokens=count(completion.get("reasoning_tokens")),
        cost_usd=amount(usage.get("cost")),
    )


class ChatAssembly:
    """A streamed completion under construction."""

    def __init__(self) -> None:
        self.done = False
        self._head: dict[str, Any] = {}
        self._text = io.StringIO()
        self._reasoning = io.StringIO()
        self._refusal = io.StringIO()
        self._calls: dict[int, dict[str, Any]] = {}
        self._finish: str | None = None
        self._usage: Any = None

    def add(self, chunk: JsonMap) -> bool:
        if not self._head.get("id"):  # Azure's first chunk has no id
            self._head = {key: chunk.get(key) for key in _HEAD} | {key: chunk[key] for key in _OPTIONAL if key in chunk}
        self._usage = chunk.get("usage") or self._usage
        choices = chunk.get("choices") or [{}]
        delta = choices[0].get("delta") or {}
        self._finish = choices[0].get("finish_reason") or self._finish
        content, reasoning = delta.get("content") or "", delta.get("reasoning_content") or delta.get("reasoning") or ""
        refusal, calls = delta.get("refusal") or "", delta.get("tool_calls") or ()
        self._text.write(content)
        self._reasoning.write(reasoning)
        self._refusal.write(refusal)
        for call in calls:
            self._add_call(call)
        return bool(content or reasoning or refusal or calls)

    def _add_call(self, piece: JsonMap) -> None:
        empty = {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
        call = self._calls.setdefault(piece.get("index", len(self._calls)), empty)
        function = piece.get("function") or {}
        call["id"] = piece.get("id") or call["id"]
        call["function"]["name"] += function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""

    def response(self) -> JsonMap:
        if not self.done and self._finish is None:
            raise ModelError(CONNECTION, "the stream ended before the answer did", retryable=True)
        message: dict[str, Any] = {"role": "assistant", "content": self._text.getvalue()}
        if reasoning := self._reasoning.getvalue():
            message["reasoning_content"] = reasoning
        if refusal := self._refusal.getvalue():
            message["refusal"] = refusal
        if self._calls:
            message["tool_calls"] = [call for _, call in sorted(self._calls.items())]
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self._usage}
