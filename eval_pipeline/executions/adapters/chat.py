"""`chat`: a model behind an OpenAI-compatible chat-completions endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from eval_pipeline.errors import InputError, Place
from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters import ADAPTERS, Call
from eval_pipeline.executions.model import DEFAULT_CONCURRENCY, RawExecution, Runner, TargetFailure
from eval_pipeline.llm.client import ChatClient, ModelError
from eval_pipeline.suites.model import Case, Message

_PASSED_ON = (
    "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop", "frequency_penalty",
    "presence_penalty", "reasoning_effort", "response_format", "tools", "tool_choice", "parallel_tool_calls",
)  # fmt: skip
MAX_CONNECTIONS = 1_000


@ADAPTERS.register("chat")
class Chat:
    """Sends a case's messages to a model and brings back its response.

    Settings: `base_url`, `model`, `api_key`, `headers`, `system` (a message put first), `stream`, `body` (extra fields
    of the request), and the usual sampling fields (`temperature`, `max_tokens`, `tools`, …), passed on as they are.
    """

    version: ClassVar[str] = "1"
    settings: ClassVar[frozenset[str]] = frozenset(
        {"base_url", "model", "api_key", "headers", "system", "stream", "body", *_PASSED_ON}
    )
    default_timeout_s: ClassVar[float] = 120.0
    retries_timeouts: ClassVar[bool] = True

    def __init__(self, runner: Runner) -> None:
        given = runner.settings
        base_url = settings.text(given, "base_url")
        if not base_url.startswith(("http://", "https://")):
            raise InputError(f"expected an http:// or https:// address, got '{base_url}'", Place(field="base_url"))
        self._client = ChatClient(
            base_url,
            api_key=settings.optional_text(given, "api_key"),
            headers=settings.texts(given, "headers"),
            max_connections=max(runner.concurrency or DEFAULT_CONCURRENCY, MAX_CONNECTIONS),
        )
        self._system = settings.optional_text(given, "system")
        self._fixed: dict[str, Any] = {"model": settings.text(given, "model")}
        self._fixed |= {key: given[key] for key in _PASSED_ON if key in given}
        if settings.flag(given, "stream"):
            self._fixed |= {"stream": True, "stream_options": {"include_usage": True}}
        self._fixed |= settings.mapping(given, "body")

    def content(self) -> Mapping[str, str]:
        return {}

    async def execute(self, call: Call) -> RawExecution:
        messages = wire_messages(call.plan.case)
        if self._system is not None:
            messages.insert(0, {"role": "system", "content": self._system})
        try:
            reply = await self._client.complete({**self._fixed, "messages": messages}, timeout_s=call.timeout_s)
        except ModelError as error:
            raise TargetFailure(
                error.failure,
                str(error),
                retryable=error.retryable,
                status=error.status,
                retry_after_s=error.retry_after_s,
                raw=RawExecution(format="chat", payload={"error": error.body}) if error.body else None,
            ) from error
        payload: dict[str, Any] = {"response": reply.response}
        if reply.ttft_ms is not None:
            payload["ttft_ms"] = reply.ttft_ms
        return RawExecution(format="chat", payload=payload)

    async def close(self) -> None:
        await self._client.close()


def wire_messages(case: Case) -> list[dict[str, Any]]:
    """A case's input as chat-completions messages."""
    return [_wire(message) for message in case.input]


def _wire(message: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.name:
        wire["name"] = message.name
    if message.tool_calls:
        wire["tool_calls"] = list(message.tool_calls)
    return wire
