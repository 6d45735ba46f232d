"""A session as AgentV 4.42's `trace`: the summary, the conversation, an event for each message, call and result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from eval_pipeline.reports.messages import JsonMap, known
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.programs.messages import token_usage


def full_trace(report: SessionReport, summary: Mapping[str, Any], messages: Sequence[JsonMap]) -> JsonMap:
    """Return the trace of a session whose conversation is `messages`. Unknown facts are absent."""
    return {
        **summary,
        "messages": list(messages),
        "events": [{**event, "ordinal": ordinal} for event, ordinal in zip(_events(messages), count(), strict=False)],
        **known({
            "token_usage": token_usage(report.usage),
            "cost_usd": report.usage.cost_usd,
            "duration_ms": report.duration_ms,
            "start_time": report.started_at,
            "end_time": report.ended_at,
        }),
    }  # fmt: skip


def _events(messages: Sequence[JsonMap]) -> Iterator[JsonMap]:
    for index, message in enumerate(messages):
        at = {"message_index": index}
        yield _message_event("message", f"message-{index}", message, at)
        for number, call in enumerate(message.get("tool_calls") or ()):
            yield from _call_events(call, f"message-{index}", {**at, "tool_index": number})
    last = next((at for at in reversed(range(len(messages))) if messages[at]["role"] == "assistant"), None)
    if last is not None:
        final = _message_event("final_response", "final-response", messages[last], {"message_index": last})
        yield {**final, "parent_event_id": f"message-{last}"}


def _message_event(type_: str, name: str, message: JsonMap, at: JsonMap) -> JsonMap:
    spoken = {key: message[key] for key in ("role", "name", "content") if message.get(key) is not None}
    times = known({"timestamp": message.get("start_time"), "duration_ms": message.get("duration_ms")})
    return {"event_id": name, "type": type_, **times, "message": spoken, "metadata": at}


def _call_events(call: JsonMap, parent: str, at: JsonMap) -> Iterator[JsonMap]:
    name = f"{parent}-tool-{at['tool_index']}"
    tool = known({"name": call["tool"], "call_id": call.get("id"), "output": call.get("output")})
    tool["status"] = call.get("status") or "ok"
    times = known({"timestamp": call.get("start_time"), "duration_ms": call.get("duration_ms")})
    asked = {**tool, **known({"input": call.get("input")})}
    yield {"event_id": name, "parent_event_id": parent, "type": "tool_call", **times, "tool": asked, "metadata": at}
    if call.get("output") is not None:
        ended = known({"timestamp": call.get("end_time")})
        yield {
            "event_id": f"{name}-result",
            "parent_event_id": name,
            "type": "tool_result",
            **ended,
            "tool": tool,
            "metadata": at,
        }
