"""`bedrock`: the Converse API of Amazon Bedrock, one format for the models of all providers there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import quote

import httpx

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.failures import TARGET_ERROR
from eval_pipeline.llm.authorization import Authorization
from eval_pipeline.llm.aws_signature import AwsSignature
from eval_pipeline.llm.errors import ModelError
from eval_pipeline.llm.messages import Image, calls_of, in_turns, is_system, late_system, pieces, split_system
from eval_pipeline.llm.model import ChatMessage, Endpoint, JsonMap, Options, Reply, TokenUsage, ToolCall
from eval_pipeline.llm.reading import count, joined, mapping, mappings, text, total
from eval_pipeline.llm.wires import (
    WIRES,
    Assembly,
    Places,
    address,
    at,
    headers_of,
    in_path,
    no_embeddings,
    placed,
    without_version,
)

_FINISH = {
    "end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "model_context_window_exceeded": "length",
    "tool_use": "tool_calls", "guardrail_intervened": "content_filter", "content_filtered": "content_filter",
}  # fmt: skip
_CHOICES: Mapping[str, Mapping[str, Any]] = {"auto": {"auto": {}}, "required": {"any": {}}}


def _tools(tools: Any) -> dict[str, Any]:
    specs = [mapping(mapping(tool).get("function")) for tool in tools]
    return {"toolConfig": {"tools": [{"toolSpec": _tool_spec(spec)} for spec in specs]}}


def _tool_spec(function: JsonMap) -> dict[str, Any]:
    described = {"description": function["description"]} if function.get("description") else {}
    schema = function.get("parameters") or {"type": "object"}
    return {"name": function.get("name"), **described, "inputSchema": {"json": schema}}


def _tool_choice(choice: Any) -> dict[str, Any]:
    name = mapping(mapping(choice).get("function")).get("name")
    if name is None and choice not in _CHOICES:
        problem = f"wire 'bedrock' has no choice '{choice}'; it has: {', '.join(_CHOICES)}, or a function"
        raise InputError(problem, SourceLocation(field="tool_choice"))
    return {"toolConfig": {"toolChoice": {"tool": {"name": name}} if name else _CHOICES[choice]}}


def _thinking(tokens: Any) -> dict[str, Any]:
    thinking = {"type": "enabled", "budget_tokens": tokens} if tokens else {"type": "disabled"}
    return {"additionalModelRequestFields": {"thinking": thinking}}


_LIMIT = at("inferenceConfig", "maxTokens")
_PLACES: Places = {
    "temperature": at("inferenceConfig", "temperature"),
    "top_p": at("inferenceConfig", "topP"),
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), _LIMIT),
    "stop": lambda stop: {"inferenceConfig": {"stopSequences": [stop] if isinstance(stop, str) else stop}},
    "thinking_budget": _thinking,
    "tools": _tools,
    "tool_choice": _tool_choice,
}


@WIRES.register("bedrock")
class Bedrock:
    """`model` is a model's id, an inference profile or its ARN. Requests are signed with an AWS key, or carry a Bedrock
    API key (`api_key`). Answers come in one piece.
    """

    name: ClassVar[str] = "bedrock"
    cloud_settings: ClassVar[frozenset[str]] = frozenset({
        "region", "access_key_id", "secret_access_key", "session_token",
    })  # fmt: skip

    def __init__(self, endpoint: Endpoint) -> None:
        without_version(endpoint, self.name)
        region = endpoint.cloud.region
        if not endpoint.base_url and not region:
            raise InputError("Bedrock needs a region, such as us-east-1", SourceLocation(field="region"))
        self._base = endpoint.base_url or f"https://bedrock-runtime.{in_path(region or '')}.amazonaws.com"
        address(self._base)
        self.headers: Mapping[str, str] = headers_of(endpoint)
        self.authorization: Authorization | None = None if endpoint.api_key else _signature(endpoint)
        self._urls: dict[str, httpx.URL] = {}

    def fixed(self, options: Options) -> dict[str, Any]:
        if options.stream:
            raise InputError("wire 'bedrock' does not stream; leave 'stream' out", SourceLocation(field="stream"))
        return placed(self.name, options, _PLACES)

    def body(self, fixed: JsonMap, messages: Sequence[ChatMessage]) -> dict[str, Any]:
        system, others = split_system(messages)
        turns = [{"role": role, "content": blocks} for role, blocks in in_turns(map(_turn, others))]
        return {**fixed, **({"system": [{"text": system}]} if system else {}), "messages": turns}

    def request(self, body: JsonMap) -> tuple[httpx.URL, JsonMap]:
        model = body["model"]
        if model not in self._urls:
            if any(character.isspace() for character in model) or model in ("", ".", ".."):
                raise InputError(f"'{model}' cannot be part of an address", SourceLocation(field="model"))
            self._urls[model] = address(self._base, f"/model/{quote(model, safe=':')}/converse")
        return self._urls[model], {key: value for key, value in body.items() if key not in ("model", "stream")}

    def embeddings(self, model: str) -> httpx.URL:
        raise no_embeddings(self.name)

    def assembly(self) -> Assembly:
        raise NotImplementedError("no stream is requested")

    @staticmethod
    def answers(response: JsonMap) -> bool:
        return isinstance(mapping(mapping(response.get("output")).get("message")).get("content"), list)

    @staticmethod
    def read(response: JsonMap) -> Reply:
        blocks = mappings(response["output"]["message"]["content"])
        thoughts = (mapping(mapping(block.get("reasoningContent")).get("reasoningText")) for block in blocks)
        reason = text(response.get("stopReason"))
        return Reply(
            text=joined(block.get("text") for block in blocks),
            thinking=joined((thought.get("text") for thought in thoughts), "\n").strip("\n") or None,
            tool_calls=tuple(_tool_call(mapping(block["toolUse"])) for block in blocks if "toolUse" in block),
            finish=_FINISH.get(reason or "", reason),
            usage=_usage(mapping(response.get("usage"))),
            model=text(mapping(mapping(response.get("trace")).get("promptRouter")).get("invokedModelId")),
        )


def _signature(endpoint: Endpoint) -> AwsSignature:
    given = {name: getattr(endpoint.cloud, name) for name in ("access_key_id", "secret_access_key", "region")}
    for name, value in given.items():
        if not value:
            problem = "Bedrock needs region, access_key_id and secret_access_key, or the api_key of Bedrock"
            raise InputError(problem, SourceLocation(field=name))
    return AwsSignature(**given, session_token=endpoint.cloud.session_token, service="bedrock")


def _turn(message: ChatMessage) -> tuple[str, list[Any]]:
    """Convert a message to a turn; tool results become user content."""
    if is_system(message):
        return "user", [_block(piece) for piece in late_system(message)]
    if message["role"] == "tool":
        result = [_block(piece) for piece in pieces(message.get("content"))]
        return "user", [{"toolResult": {"toolUseId": message.get("tool_call_id"), "content": result}}]
    blocks = [_block(piece) for piece in pieces(message.get("content"))]
    calls = [
        {"toolUse": {"toolUseId": id_, "name": name, "input": arguments}} for id_, name, arguments in calls_of(message)
    ]
    return message["role"], blocks + calls


def _block(piece: str | Image) -> dict[str, Any]:
    if isinstance(piece, str):
        return {"text": piece}
    if piece.data is None:
        raise ModelError(TARGET_ERROR, f"Bedrock takes images as data, not from an address: {piece.url[:200]}")
    return {"image": {"format": (piece.media_type or "").rpartition("/")[2], "source": {"bytes": piece.data}}}


def _tool_call(call: Mapping[str, Any]) -> ToolCall:
    return ToolCall(name=str(call.get("name")), arguments=call.get("input"), id=text(call.get("toolUseId")))


def _usage(usage: Mapping[str, Any]) -> TokenUsage:
    """`inputTokens` counts neither what was read from the cache nor what was written to it."""
    cached, written = count(usage.get("cacheReadInputTokens")), count(usage.get("cacheWriteInputTokens"))
    return TokenUsage(
        input_tokens=total(count(usage.get("inputTokens")), cached, written),
        cached_input_tokens=cached,
        cache_write_tokens=written,
        output_tokens=count(usage.get("outputTokens")),
    )
