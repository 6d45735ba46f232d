"""A session report as the messages that AgentV's graders know: what was said, each with the tool calls it led to.

The names in it are AgentV's (`tool`, `input`, `output`, `duration_ms`), and they stay as the target wrote them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from eval_pipeline.reports.model import MessageEvent, SessionReport, ToolCallEvent, ToolUse, Usage
from eval_pipeline.suites.model import Message

JsonMap = dict[str, Any]


def output_messages(report: SessionReport) -> list[JsonMap]:
    """Return the target's messages and tool calls: no prompt before them, no thinking, no text of its own harness."""
    messages: list[JsonMap] = []
    uses = iter(report.tool_uses)
    for event in report.events:
        if isinstance(event, MessageEvent) and _is_heard(event, bool(messages)):
            messages.append(_known({"role": event.role, "content": event.text, "start_time": event.at}))
        elif isinstance(event, ToolCallEvent):
            _latest_assistant(messages).setdefault("tool_calls", []).append(_tool_call(next(uses)))
    _end_with_answer(messages, report.final_output)
    return messages


def _is_heard(event: MessageEvent, begun: bool) -> bool:
    spoken = event.phase != "thinking" and not event.injected
    return spoken and (begun or event.role not in ("user", "system"))


def _latest_assistant(messages: list[JsonMap]) -> JsonMap:
    """The message that a tool call belongs to; calls that nothing was said before get one without words."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": ""})
    return messages[-1]


def _tool_call(use: ToolUse) -> JsonMap:
    call, result = use.call, use.result
    return _known({
        "tool": call.tool,
        "input": call.arguments,
        "id": call.call_id,
        "start_time": call.at,
        "output": result.output if result is not None else None,
        "duration_ms": use.duration_ms,
        "status": "error" if use.is_error else None,
    })  # fmt: skip


def _end_with_answer(messages: list[JsonMap], answer: str | None) -> None:
    """Graders take the last assistant message for the answer: where the events end otherwise, it is added."""
    if answer is None:
        return
    last = next((message for message in reversed(messages) if message["role"] == "assistant"), None)
    if last is None or last["content"].strip() != answer.strip():
        messages.append({"role": "assistant", "content": answer})


def trace_summary(report: SessionReport, messages: Iterable[Mapping[str, Any]]) -> JsonMap | None:
    """How much there was of it, by AgentV's names; None for a session that shows nothing at all.

    Tool names are not touched. Calls that the session does not show are not counted: an answer alone has none.
    """
    messages = list(messages)
    if not messages:
        return None
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    durations: dict[str, list[float]] = {}
    for call in calls:
        if call.get("duration_ms") is not None:
            durations.setdefault(call["tool"], []).append(call["duration_ms"])
    said = sum(message["role"] == "assistant" for message in messages)
    summary: JsonMap = {
        "event_count": len(calls),
        "tool_calls": dict(Counter(call["tool"] for call in calls)),
        "error_count": sum(call.get("status") == "error" for call in calls),
        "llm_call_count": said if report.model_calls is None else report.model_calls,
    }
    return summary | ({"tool_durations": durations} if durations else {})


def token_usage(usage: Usage) -> JsonMap | None:
    """Tokens by AgentV's names: `input` without what came from a cache. None when the target told none."""
    if usage.input_tokens is None and usage.output_tokens is None:
        return None
    cached = usage.cached_input_tokens
    uncached = None if usage.input_tokens is None else usage.input_tokens - (cached or 0)
    counted = {"input": uncached, "output": usage.output_tokens}
    return counted | _known({"cached": cached, "reasoning": usage.reasoning_tokens})


def authored(messages: Iterable[Message]) -> list[JsonMap]:
    """Messages of a suite as JSON."""
    return [
        {"role": message.role, "content": message.content}
        | _known({"name": message.name, "tool_calls": list(message.tool_calls) or None})
        for message in messages
    ]


def _known(fields: Mapping[str, Any]) -> JsonMap:
    return {name: value for name, value in fields.items() if value is not None}
