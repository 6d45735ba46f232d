"""`endpoint`: the messages that an agent behind an address produced in one turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eval_pipeline.fingerprints import to_json
from eval_pipeline.llm.reading import json_or_text, mapping, mappings, text
from eval_pipeline.reports.model import Event, MessageEvent, SessionReport, ToolCallEvent, ToolResultEvent
from eval_pipeline.reports.normalize import NORMALIZERS, RawSession
from eval_pipeline.reports.normalizers.answer import answer_usage


@NORMALIZERS.register("endpoint")
class EndpointNormalizer:
    """Words, tool calls and results in order. The last message is the answer."""

    version = "1"

    def normalize(self, material: RawSession) -> SessionReport:
        payload = material.raw.payload
        messages = mappings(payload.get("messages"))
        return SessionReport(
            execution_id=material.execution_id,
            final_output=(text(messages[-1].get("content")) or "") if messages else None,
            model=text(payload.get("model")),
            usage=answer_usage(payload),
            events=tuple(_events(messages)),
            model_calls=sum(message.get("role") == "assistant" for message in messages) or None,
        )


def _events(messages: Sequence[Mapping[str, Any]]) -> Iterator[Event]:
    tools: dict[str, str] = {}
    for number, message in enumerate(messages, start=1):
        role, words = str(message.get("role")), text(message.get("content"))
        if role == "tool":
            call_id = text(message.get("tool_call_id"))
            yield ToolResultEvent(tool=tools.get(call_id or ""), call_id=call_id, output=words or "")
            continue
        if words:
            phase = ("final" if number == len(messages) else "commentary") if role == "assistant" else None
            yield MessageEvent(role=role, text=words, phase=phase)  # type: ignore[arg-type]
        for call in mappings(message.get("tool_calls")):
            yield from _call_events(call, tools)


def _call_events(call: Mapping[str, Any], tools: dict[str, str]) -> Iterator[Event]:
    function = mapping(call.get("function"))
    call_id, tool = text(call.get("id")), str(function.get("name"))
    tools[call_id or ""] = tool
    yield ToolCallEvent(tool=tool, call_id=call_id, arguments=json_or_text(function.get("arguments")))
    result = call.get("tool_result")
    if result is not None:
        output = result if isinstance(result, str) else to_json(result).decode()
        yield ToolResultEvent(tool=tool, call_id=call_id, output=output)
