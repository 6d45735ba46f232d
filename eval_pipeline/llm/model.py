"""Requests to a model and its replies, independent of the provider. Values only.

Replies are named tuples rather than frozen dataclasses: every response of every case makes three of them, and
constructing a frozen dataclass of this many fields takes several times as long.

Messages are plain chat messages in the OpenAI chat format: `{"role": "system" | "user" | "assistant" |
"tool", "content": <text or a list of parts>}`. Parts are `{"type": "text", "text": …}` and `{"type": "image_url",
"image_url": {"url": <data: URL or address>}}`. An assistant's `tool_calls` are `{"id", "type": "function", "function":
{"name", "arguments": <JSON text>}}`; a tool message names its call in `tool_call_id`.
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
"""Settings of a request beside the messages.

Names, and the shapes of tools and formats, are OpenAI's. `max_output_tokens` and `thinking_budget` are counts of tokens
that each wire maps to its provider's field.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudAccount:
    """Where a cloud serves a model, and who calls it. Which fields a wire reads is its `cloud_settings`.

    `credentials` is the path of a file.
    """

    region: str | None = None
    project: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    credentials: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Address and credentials of a model.

    None selects the wire's default address, no key, the wire's default version.
    """

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str | None = None
    cloud: CloudAccount = CloudAccount()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Model and parameters of a request: `settings` by the names of SETTINGS, `extra` fields copied into the body as
    they are."""

    model: str
    stream: bool = False
    settings: JsonMap = field(default_factory=dict)
    extra: JsonMap = field(default_factory=dict)


class ToolCall(NamedTuple):
    """A tool call of the model. `arguments` is the parsed JSON, or the raw text if it is not JSON."""

    name: str
    arguments: Any = None
    id: str | None = None


class TokenUsage(NamedTuple):
    """Token counts as the provider reports them; None where it does not.

    `input_tokens` is gross: it includes cache reads and cache writes. `output_tokens` includes reasoning. `cost_usd` is
    the cost that the provider reports.
    """

    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None


class Reply(NamedTuple):
    """A model's reply.

    `finish` is `stop`, `length` (the token limit), `tool_calls`, `content_filter` (the provider withheld the answer),
    or the provider's own value for anything else. `refusal` is the text of a refusal.
    """

    text: str = ""
    thinking: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    finish: str | None = None
    refusal: str | None = None
    usage: TokenUsage = TokenUsage()
    model: str | None = None
    id: str | None = None
