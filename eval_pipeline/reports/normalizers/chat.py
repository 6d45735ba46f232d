"""`chat`: a model's response in the format of its provider (`wire`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eval_pipeline.failures import TARGET_ERROR, TRUNCATED, FailureClass
from eval_pipeline.llm.client import read_response
from eval_pipeline.llm.model import Reply, TokenUsage
from eval_pipeline.reports.model import Event, MessageEvent, SessionReport, ToolCallEvent, Usage
from eval_pipeline.reports.normalize import NORMALIZERS, RawSession

_ANSWERED = frozenset({None, "stop", "tool_calls", "function_call"})
_NO_ANSWER: dict[str, tuple[FailureClass, str]] = {
    "length": (TRUNCATED, "the token limit was reached before any answer"),
    "content_filter": (TARGET_ERROR, "the provider's content filter held the answer back"),
}


@NORMALIZERS.register("chat")
class ChatNormalizer:
    """One response: its text is the final output, its thinking and its tool calls are events."""

    version = "2"

    def normalize(self, material: RawSession) -> SessionReport:
        payload = material.raw.payload
        response = payload.get("response")
        if response is None and "error" not in payload:
            raise ValueError("the response was not kept")
        if not isinstance(response, Mapping):
            return SessionReport(execution_id=material.execution_id)
        reply = read_response(payload.get("wire", "openai"), response)
        text = reply.text or (reply.refusal if reply.finish != "content_filter" else None) or ""
        failure, error = (None, None) if text else _why_nothing(reply)
        return SessionReport(
            execution_id=material.execution_id,
            final_output=text,
            session_id=reply.id,
            model=reply.model,
            usage=_usage(reply.usage),
            events=tuple(_events(reply, text)),
            failure_class=failure.id if failure else None,
            error=error,
            ttft_ms=payload.get("ttft_ms"),
            model_calls=1,
        )


def _why_nothing(reply: Reply) -> tuple[FailureClass | None, str | None]:
    """Return failure class and reason of an empty response; (None, None) after a normal stop or a tool call."""
    if reply.finish in _ANSWERED:
        return None, None
    unknown = TARGET_ERROR, f"the model ended with '{reply.finish}' and without an answer"
    failure, why = _NO_ANSWER.get(str(reply.finish), unknown)
    return failure, f"{why}: {reply.refusal}" if reply.refusal else why


def _events(reply: Reply, text: str) -> Iterator[Event]:
    if reply.thinking:
        yield MessageEvent(role="assistant", phase="thinking", text=reply.thinking)
    if text:
        yield MessageEvent(role="assistant", phase="commentary" if reply.tool_calls else "final", text=text)
    for call in reply.tool_calls:
        yield ToolCallEvent(tool=call.name, call_id=call.id, arguments=call.arguments)


def _usage(tokens: TokenUsage) -> Usage:
    return Usage(
        input_tokens=tokens.input_tokens,
        cached_input_tokens=tokens.cached_input_tokens,
        cache_write_tokens=tokens.cache_write_tokens,
        output_tokens=tokens.output_tokens,
        reasoning_tokens=tokens.reasoning_tokens,
        cost_usd=tokens.cost_usd,
        cost_source="reported" if tokens.cost_usd is not None else None,
    )
