"""`gemini`: Google's generateContent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import httpx

from eval_pipeline.failures import CONNECTION
from eval_pipeline.llm.errors import ModelError
from eval_pipeline.llm.messages import (
    Image,
    calls_of,
    in_turns,
    is_system,
    late_system,
    pieces,
    plain_text,
    split_system,
)
from eval_pipeline.llm.model import ChatMessage, Endpoint, JsonMap, Options, Reply, TokenUsage, ToolCall
from eval_pipeline.llm.reading import count, joined, json_or_text, mapping, mappings, text, total
from eval_pipeline.llm.wires import (
    WIRES,
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
    "STOP": "stop", "MAX_TOKENS": "length",
    **dict.fromkeys(("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"),
                    "content_filter"),
}  # fmt: skip
_CHOICES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
_SIGNING_MODEL = re.compile(r"(?:models/)?gemini-([3-9]|\d\d)")
_UNSIGNED = "skip_thought_signature_validator"


def _tools(tools: Any) -> dict[str, Any]:
    """Map functions to one declaration list; any other tool (Google's own) is passed on as it is."""
    functions = [mapping(tool)["function"] for tool in tools if "function" in mapping(tool)]
    renamed = {"parameters": "parametersJsonSchema"}
    declared = [
        {renamed.get(key, key): value for key, value in mapping(function).items() if key != "strict"}
        for function in functions
    ]
    others = [tool for tool in tools if "function" not in mapping(tool)]
    return {"tools": ([{"functionDeclarations": declared}] if declared else []) + others}


def _tool_choice(choice: Any) -> dict[str, Any]:
    name = mapping(mapping(choice).get("function")).get("name")
    config = {"mode": "ANY", "allowedFunctionNames": [name]} if name else {"mode": _CHOICES.get(choice, choice)}
    return {"toolConfig": {"functionCallingConfig": config}}


def _output_format(value: Any) -> dict[str, Any]:
    if mapping(value).get("type") == "text":
        return {}
    schema = mapping(mapping(value).get("json_schema")).get("schema")
    config: dict[str, Any] = {"responseMimeType": "application/json"}
    return {"generationConfig": {**config, "responseJsonSchema": schema} if schema else config}


def _thinking(key: str) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {"generationConfig": {"thinkingConfig": {key: value, "includeThoughts": True}}}


_LIMIT = at("generationConfig", "maxOutputTokens")
_PLACES: Places = {
    "temperature": at("generationConfig", "temperature"),
    "top_p": at("generationConfig", "topP"),
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), _LIMIT),
    "seed": at("generationConfig", "seed"),
    "stop": lambda stop: {"generationConfig": {"stopSequences": [stop] if isinstance(stop, str) else stop}},
    "frequency_penalty": at("generationConfig", "frequencyPenalty"),
    "presence_penalty": at("generationConfig", "presencePenalty"),
    "thinking_budget": _thinking("thinkingBudget"),
    "reasoning_effort": _thinking("thinkingLevel"),
    "response_format": _output_format,
    "tools": _tools,
    "tool_choice": _tool_choice,
}


@WIRES.register("gemini")
class Gemini:
    """Model and streaming are part of the address. `base_url` is the part before `/models/`."""

    name: ClassVar[str] = "gemini"
    base_url: ClassVar[str] = "https://generativelanguage.googleapis.com/v1beta"

    def __init__(self, endpoint: Endpoint) -> None:
        without_version(endpoint, self.name)
        self._base = endpoint.base_url or self.base_url
        address(self._base)
        self._urls: dict[tuple[str, bool], httpx.URL] = {}
        self.headers: Mapping[str, str] = headers_of(endpoint, "x-goog-api-key")

    def fixed(self, options: Options) -> dict[str, Any]:
        return placed(self.name, options, _PLACES)

    def body(self, fixed: JsonMap, messages: Sequence[ChatMessage]) -> dict[str, Any]:
        system, others = split_system(messages)
        names = {id_: name for message in others for id_, name, _ in calls_of(message)}
        signed = {} if _SIGNING_MODEL.match(fixed["model"]) is None else {"thoughtSignature": _UNSIGNED}
        turns = in_turns(_turn(message, names, signed) for message in others)
        body = {**fixed, "contents": [{"role": role, "parts": parts} for role, parts in turns]}
        return body | ({"systemInstruction": {"parts": [{"text": system}]}} if system else {})

    def request(self, body: JsonMap) -> tuple[httpx.URL, JsonMap]:
        sent = {key: value for key, value in body.items() if key not in ("model", "stream")}
        variant = (body["model"], bool(body.get("stream")))
        if variant not in self._urls:
            verb = "streamGenerateContent?alt=sse" if variant[1] else "generateContent"
            self._urls[variant] = address(self._base, f"/models/{in_path(variant[0].removeprefix('models/'))}:{verb}")
        return self._urls[variant], sent

    def embeddings(self, model: str) -> httpx.URL:
        raise no_embeddings(self.name)

    def assembly(self) -> ContentAssembly:
        return ContentAssembly()

    @staticmethod
    def answers(response: JsonMap) -> bool:
        return bool(mappings(response.get("candidates"))) or "blockReason" in mapping(response.get("promptFeedback"))

    @staticmethod
    def read(response: JsonMap) -> Reply:
        candidates = mappings(response.get("candidates"))
        if not candidates and "promptFeedback" not in response:
            raise KeyError("candidates")
        candidate = candidates[0] if candidates else {}
        parts = mappings(mapping(candidate.get("content")).get("parts"))
        calls = tuple(_tool_call(mapping(part["functionCall"])) for part in parts if "functionCall" in part)
        return Reply(
            text=joined(part.get("text") for part in parts if not part.get("thought")),
            thinking=joined(part.get("text") for part in parts if part.get("thought")) or None,
            tool_calls=calls,
            finish=_finish(response, candidate, calls),
            usage=_usage(mapping(response.get("usageMetadata"))),
            model=text(response.get("modelVersion")),
            id=text(response.get("responseId")),
        )


def _turn(message: ChatMessage, names: Mapping[str, str], signed: Mapping[str, str]) -> tuple[str, list[Any]]:
    """Convert a message to a turn. Calls that this model did not make carry a placeholder signature."""
    if is_system(message):
        return "user", [_part(piece) for piece in late_system(message)]
    if message["role"] == "tool":
        id_ = str(message.get("tool_call_id"))
        answer = json_or_text(plain_text(message.get("content")))
        response = answer if isinstance(answer, Mapping) else {"result": answer}
        return "user", [{"functionResponse": {"name": names.get(id_, id_), "response": response}}]
    parts = [_part(piece) for piece in pieces(message.get("content"))]
    calls = [{"functionCall": {"name": name, "args": arguments}} for _, name, arguments in calls_of(message)]
    first = [{**call, **signed} for call in calls[:1]]
    return "model" if message["role"] == "assistant" else "user", parts + first + calls[1:]


def _part(piece: str | Image) -> dict[str, Any]:
    if isinstance(piece, str):
        return {"text": piece}
    if piece.data is None:
        return {"fileData": {"fileUri": piece.url}}
    return {"inlineData": {"mimeType": piece.media_type, "data": piece.data}}


def _tool_call(call: Mapping[str, Any]) -> ToolCall:
    return ToolCall(name=str(call.get("name")), arguments=call.get("args") or {}, id=text(call.get("id")))


def _finish(response: JsonMap, candidate: Mapping[str, Any], calls: Sequence[ToolCall]) -> str | None:
    if not candidate:
        return "content_filter"
    reason = text(candidate.get("finishReason"))
    return "tool_calls" if calls and reason == "STOP" else _FINISH.get(reason or "", reason)


def _usage(usage: Mapping[str, Any]) -> TokenUsage:
    """`promptTokenCount` includes cached tokens; thoughts are counted separately from the candidates."""
    thoughts = count(usage.get("thoughtsTokenCount"))
    answer = count(usage.get("candidatesTokenCount"))
    return TokenUsage(
        input_tokens=total(count(usage.get("promptTokenCount")), count(usage.get("toolUsePromptTokenCount"))),
        cached_input_tokens=count(usage.get("cachedContentTokenCount")),
        output_tokens=total(thoughts if answer is None else answer, None if answer is None else thoughts),
        reasoning_tokens=thoughts,
    )


class ContentAssembly:
    """A streamed response under construction: every event is a response of its own with the next parts."""

    def __init__(self) -> None:
        self.done = False
        self._whole: dict[str, Any] = {}
        self._candidate: dict[str, Any] = {}
        self._parts: list[dict[str, Any]] = []

    def add(self, event: JsonMap) -> bool:
        self._whole |= {key: value for key, value in event.items() if key != "candidates"}
        before = len(self._parts)
        has_text = False
        for candidate in event.get("candidates") or ():
            if candidate.get("index", 0) == 0:
                parts = (candidate.get("content") or {}).get("parts") or []
                for part in parts:
                    self._add_part(part)
                has_text = has_text or any(part.get("text") for part in parts)
                self._candidate |= {key: value for key, value in candidate.items() if key != "content"}
        return has_text or len(self._parts) > before

    def _add_part(self, part: JsonMap) -> None:
        """Merge consecutive texts of one kind; a signature stays with the part that it signs."""
        last = self._parts[-1] if self._parts else {}
        mergeable = "text" in part and "text" in last and not last.keys() - {"text", "thought"}
        if mergeable and bool(part.get("thought")) == bool(last.get("thought")):
            self._parts[-1] = {**last, **part, "text": last["text"] + part["text"]}
        else:
            self._parts.append({**part})

    def response(self) -> JsonMap:
        blocked = "blockReason" in mapping(self._whole.get("promptFeedback"))
        if "finishReason" not in self._candidate and not blocked:
            raise ModelError(CONNECTION, "the stream ended before the answer did", retryable=True)
        if not self._candidate:
            return self._whole
        content = {"role": "model", "parts": self._parts}
        return {**self._whole, "candidates": [{"content": content, **self._candidate}]}
