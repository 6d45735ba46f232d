"""`chat`: an OpenAI-compatible chat-completions response."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from eval_pipeline.failures import TRUNCATED
from eval_pipeline.reports.model import Event, MessageEvent, SessionReport, ToolCallEvent, Usage
from eval_pipeline.reports.normalize import NORMALIZERS, Material, json_amount, json_int, json_mapping
from eval_pipeline.suites.model import content_text


@NORMALIZERS.register("chat")
class ChatNormalizer:
    """One response: its text is the final output, its tool calls are events."""

    version = "1"

    def normalize(self, material: Material) -> SessionReport:
        response = material.raw.payload.get("response")
        if response is None and "error" not in material.raw.payload:
            raise ValueError("the response was not kept")
        if not isinstance(response, Mapping):
            return SessionReport(execution_id=material.execution_id)
        choice = response["choices"][0]
        message = choice["message"]
        text = content_text(message.get("content") or message.get("refusal") or "")
        cut = choice.get("finish_reason") == "length" and not text
        return SessionReport(
            execution_id=material.execution_id,
            final_output=text,
            session_id=response.get("id"),
            model=response.get("model"),
            usage=chat_usage(response.get("usage")),
            events=tuple(_events(message, text)),
            failure_class=TRUNCATED.id if cut else None,
            error="the token limit was reached before any answer" if cut else None,
            ttft_ms=material.raw.payload.get("ttft_ms"),
            model_calls=1,
        )


def _events(message: Mapping[str, Any], text: str) -> Iterator[Event]:
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str):
        yield MessageEvent(role="assistant", phase="thinking", text=reasoning)
    calls = message.get("tool_calls") or ()
    if text:
        yield MessageEvent(role="assistant", phase="commentary" if calls else "final", text=text)
    for call in calls:
        function = call.get("function") or {}
        yield ToolCallEvent(
            tool=str(function.get("name")), call_id=call.get("id"), arguments=_arguments(function.get("arguments"))
        )


def _arguments(text: Any) -> Any:
    """Arguments as JSON when they are JSON, as the text they are otherwise."""
    try:
        return orjson.loads(text)
    except (orjson.JSONDecodeError, TypeError):
        return text


def chat_usage(raw: Any) -> Usage:
    """Usage of a chat-completions response; `prompt_tokens` already includes cached tokens."""
    if not isinstance(raw, Mapping):
        return Usage()
    prompt_details = json_mapping(raw.get("prompt_tokens_details"))
    completion_details = json_mapping(raw.get("completion_tokens_details"))
    cost = json_amount(raw.get("cost"))
    return Usage(
        input_tokens=json_int(raw.get("prompt_tokens")),
        cached_input_tokens=json_int(prompt_details.get("cached_tokens")),
        output_tokens=json_int(raw.get("completion_tokens")),
        reasoning_tokens=json_int(completion_details.get("reasoning_tokens")),
        cost_usd=cost,
        cost_source="reported" if cost is not None else None,
    )
