"""Calls of a model's provider as they were seen at the wire: what is kept of one, and the usage that it reports.

Protocols are told apart by what a response holds, so that any provider of the four kinds can be read: chat completions,
Responses, Messages, Gemini.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from eval_pipeline.agents.wire_streams import joined
from eval_pipeline.parsing.redaction import redact_text
from eval_pipeline.reports.jsonl_records import JsonMap, count, mapping, parse_json
from eval_pipeline.reports.usage import Usage

EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class WireCall:
    """One request to a provider and its response, without headers that may hold keys.

    `path` is below the provider's address. `first_byte_ms` and `duration_ms` count from the request. `complete` is
    False where the connection broke off. `retry_after` and `content_type` are those of the response.
    """

    method: str
    path: str
    request: str
    status: int | None
    response: str = ""
    content_type: str = "application/json"
    retry_after: str | None = None
    started_at: str | None = None
    first_byte_ms: float | None = None
    duration_ms: float | None = None
    complete: bool = True

    @property
    def model(self) -> str | None:
        """The model that the request names."""
        value = _json(self.request).get("model")
        named = self.path.partition("/models/")[2].partition(":")[0]
        return value if isinstance(value, str) else named or None

    @property
    def usage(self) -> Usage:
        """The tokens that the response reports; unknown ones are None."""
        found = Usage()
        for body in self.bodies():
            for read in (_chat_usage, _responses_usage, _messages_usage, _gemini_usage):
                found = _later(found, read(body))
        return found

    @property
    def is_model_call(self) -> bool:
        """Whether the provider was asked for an answer, and not for a list or a count."""
        path = self.path.partition("?")[0].rstrip("/")
        ends = ("/chat/completions", "/responses", "/messages", ":generateContent", ":streamGenerateContent")
        return self.method == "POST" and f"/{path}".endswith(ends)

    def bodies(self) -> Iterator[JsonMap]:
        """Yield the JSON objects of the response: its only one, or those of its events."""
        if EVENTS not in self.content_type:
            yield _json(self.response)
            return
        for line in self.response.split("\n"):
            if line.startswith("data:"):
                yield _json(line[5:].strip())

    def redacted(self, places: Mapping[str, str]) -> WireCall:
        """Return the call without known secrets, with names for the folders of the session, and with whole texts."""
        response = joined(self.response) if EVENTS in self.content_type else self.response
        path = redact_text(self.path)  # Gemini's addresses may have the key as a parameter
        return replace(self, path=path, request=_cleaned(self.request, places), response=_cleaned(response, places))

    def as_json(self) -> dict[str, Any]:
        """Return the call as a line of a recording has it."""
        usage = self.usage
        tokens = {"input_tokens": usage.input_tokens, "cached_input_tokens": usage.cached_input_tokens,
                  "output_tokens": usage.output_tokens, "reasoning_tokens": usage.reasoning_tokens}  # fmt: skip
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {
            **fields,
            "model": self.model,
            "usage": {name: value for name, value in tokens.items() if value is not None},
        }


def read_call(line: str) -> WireCall:
    """Return the call of a line of a recording. Raises ValueError."""
    value = mapping(parse_json(line))
    if not isinstance(value.get("path"), str):
        raise ValueError("expected an object with the method, path, request, status and response of a call")
    return WireCall(**{name: value[name] for name in WireCall.__slots__ if name in value})


def _cleaned(text: str, places: Mapping[str, str]) -> str:
    for place, name in places.items():
        text = text.replace(place, name)
    return redact_text(text)


def _json(text: str) -> JsonMap:
    try:
        return mapping(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _later(before: Usage, after: Usage) -> Usage:
    """Return usage with what a later event of the stream reports in place of what an earlier one did."""
    names = ("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
    values = {name: value for name in names if (value := getattr(after, name)) is not None}
    return replace(before, **values) if values else before


def _chat_usage(body: JsonMap) -> Usage:
    return _openai_usage(mapping(body.get("usage")), "prompt", "completion")


def _responses_usage(body: JsonMap) -> Usage:
    usage = mapping(mapping(body.get("response")).get("usage") or body.get("usage"))
    return _openai_usage(usage, "input", "output") if "input_tokens_details" in usage else Usage()


def _openai_usage(usage: JsonMap, sent: str, answered: str) -> Usage:
    """Return the usage of a body that counts the tokens of both sides under these names."""
    return Usage(
        input_tokens=count(usage.get(f"{sent}_tokens")),
        cached_input_tokens=count(mapping(usage.get(f"{sent}_tokens_details")).get("cached_tokens")),
        output_tokens=count(usage.get(f"{answered}_tokens")),
        reasoning_tokens=count(mapping(usage.get(f"{answered}_tokens_details")).get("reasoning_tokens")),
    )


def _messages_usage(body: JsonMap) -> Usage:
    """Of Messages: input without cache, to which both parts of the cache are added; later events repeat the sums."""
    usage = mapping(mapping(body.get("message")).get("usage") or body.get("usage"))
    if body.get("type") not in ("message", "message_start", "message_delta"):
        return Usage()
    plain, read = count(usage.get("input_tokens")), count(usage.get("cache_read_input_tokens"))
    written = count(usage.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=None if plain is None else plain + (read or 0) + (written or 0),
        cached_input_tokens=read,
        cache_write_tokens=written,
        output_tokens=count(usage.get("output_tokens")),
    )


def _gemini_usage(body: JsonMap) -> Usage:
    usage = mapping(body.get("usageMetadata"))
    answer, thoughts = count(usage.get("candidatesTokenCount")), count(usage.get("thoughtsTokenCount"))
    return Usage(
        input_tokens=count(usage.get("promptTokenCount")),
        cached_input_tokens=count(usage.get("cachedContentTokenCount")),
        output_tokens=None if answer is None else answer + (thoughts or 0),
        reasoning_tokens=thoughts,
    )
