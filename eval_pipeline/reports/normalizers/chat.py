"""`chat`: a model's response in the format of its provider (`wire`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from eval_pipeline.failures import TARGET_ERROR, TRUNCATED, FailureClass
from eval_pipeline.llm.client import read_response
from eval_pipeline.llm.model import Reply, TokenUsage
from eval_pipeline.llm.reading import mapping, mappings, text
from eval_pipeline.reports.model import Event, MessageEvent, SessionReport, ToolCallEvent, ToolResultEvent, Usage
from eval_pipeline.reports.normalize import NORMALIZERS, RawSession
from eval_pipeline.reports.usage import total_usage

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
        if "rounds" in payload:
            report = self._of_rounds(material.execution_id, mappings(payload["rounds"]))
            answered = report.model_calls
            if answered is None or "error" not in payload:
                return report
            return replace(report, model_calls=answered + 1)  # the call after these rounds
        return self._of_response(material.execution_id, payload)

    def _of_response(self, execution_id: str, payload: Mapping[str, Any]) -> SessionReport:
        response = payload.get("response")
        if response is None and "error" not in payload:
            raise ValueError("the response was not kept")
        if not isinstance(response, Mapping):
            return SessionReport(execution_id=execution_id)
        reply = read_response(payload.get("wire", "openai"), response)
        words = reply.text or (reply.refusal if reply.finish != "content_filter" else None) or ""
        failure, error = (None, None) if words else _why_nothing(reply)
        return SessionReport(
            execution_id=execution_id,
            final_output=words,
            session_id=reply.id,
            model=reply.model,
            usage=_usage(reply.usage),
            events=tuple(_events(reply, words)),
            failure_class=failure.id if failure else None,
            error=error,
            ttft_ms=payload.get("ttft_ms"),
            model_calls=1,
        )

    def _of_rounds(self, execution_id: str, rounds: Sequence[Mapping[str, Any]]) -> SessionReport:
        """A turn in which the model called tools: its words, calls and their results in order, usage added up."""
        reports = [self._of_response(execution_id, each) for each in rounds]
        if not reports:
            return SessionReport(execution_id=execution_id)
        results = ([_result(item) for item in mappings(each.get("results"))] for each in rounds)
        return replace(
            reports[-1],
            usage=total_usage([report.usage for report in reports]),
            events=tuple(
                event for report, more in zip(reports, results, strict=True) for event in (*report.events, *more)
            ),
            ttft_ms=reports[0].ttft_ms,
            model_calls=len(reports),
        )


def _result(item: Mapping[str, Any]) -> ToolResultEvent:
    failed = item.get("is_error") is True
    return ToolResultEvent(
        tool=text(item.get("tool")),
        call_id=text(item.get("id")),
        output=str(item.get("output")),
        is_error=failed,
        unmatched=True if item.get("unmatched") is True else None,
        state=mapping(item["state"]) if "state" in item else None,
    )


def _why_nothing(reply: Reply) -> tuple[FailureClass | None, str | None]:
    """Return failure class and reason of an empty response; (None, None) after a normal stop or a tool call."""
    if reply.finish in _ANSWERED:
        return None, None
    unknown = TARGET_ERROR, f"the model ended with '{reply.finish}' and without an answer"
    failure, why = _NO_ANSWER.get(str(reply.finish), unknown)
    return failure, f"{why}: {reply.refusal}" if reply.refusal else why


def _events(reply: Reply, words: str) -> Iterator[Event]:
    if reply.thinking:
        yield MessageEvent(role="assistant", phase="thinking", text=reply.thinking)
    if words:
        yield MessageEvent(role="assistant", phase="commentary" if reply.tool_calls else "final", text=words)
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
