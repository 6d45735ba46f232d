"""What is asked of a model and what it answers, whoever provides it. Values only.

What is answered are named tuples rather than frozen dataclasses: every response of every case makes three of them, and
making a frozen dataclass of this many fields takes several times as long.

Messages are plain chat messages, as the OpenAI chat format has them: `{"role": "system" | "user" | "assistant" |
"tool", "content": <text or a list of parts>}`. Parts are `{"type": "text", "text": …}` and `{"type": "image_url",
"image_url": {"url": <data: URL or address>}}`. An assistant's `tool_calls` are `{"id", "type": "function", "function":
{"name", "arguments": <JSON text>}}`; a tool's message names the call it answers in `tool_call_id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

JsonMap = Mapping[str, Any]
ChatMessage = Mapping[str, Any]

SETTINGS = (
    "temperature", "top_p", "max_tokens", "max_completion_tokens", "max_output_tokens", "seed", "stop",
    "frequency_penalty", "presence_penalty", "reasoning_effort", "thinking_budget", "response_format", "tools",
    "tool_choice", "parallel_tool_calls",
)  # fmt: skip
"""What can be asked of a model beside the messages. Names, and the shapes of tools and formats, are OpenAI's;
`max_output_tokens` and `thinking_budget` are counts of tokens that each wire puts where its provider has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a model is asked, and as whom. None: the wire's own address, no key, the wire's usual version."""

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Which model is asked, and how: `settings` by the names of SETTINGS, `extra` fields of the body as they are."""

    model: str
    stream: bool = False
    settings: JsonMap = field(default_factory=dict)
    extra: JsonMap = field(default_factory=dict)


class ToolCall(NamedTuple):
    """A tool that the model asked for. `arguments` is JSON, or the text that should have been."""

    name: str
    arguments: Any = None
    id: str | None = None


class TokenUsage(NamedTuple):
    """Tokens as the provider counted them, None where it did not say.

    `input_tokens` is gross: cache reads and cache writes are part of it. `output_tokens` includes reasoning. `cost_usd`
    is what the provider says that the call cost.
    """

    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None


class Reply(NamedTuple):
    """What a model answered.

    `finish` is `stop`, `length` (the token limit), `tool_calls`, `content_filter` (the provider held the answer back),
    or the provider's own word for anything else. `refusal` are the words of a refusal.
    """

    text: str = ""
    thinking: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    finish: str | None = None
    refusal: str | None = None
    usage: TokenUsage = TokenUsage()
    model: str | None = None
    id: str | None = None
