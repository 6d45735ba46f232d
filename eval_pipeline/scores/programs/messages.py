"""A session report as messages with their tool calls, in the shape of AgentV's grader protocol.

Field names are AgentV's (`tool`, `input`, `output`, `duration_ms`); names of tools are the target's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eval_pipeline.reports.model import MessageEvent, SessionReport, ToolCallEvent, ToolUse, Usage, is_spoken
from eval_pipeline.scores.session_facts import tool_errors
from eval_pipeline.suites.model import Message

JsonMap = dict[str, Any]


def output_messages(report: SessionReport) -> list[JsonMap]:
    """Return the target's messages and tool calls: no prompt before them, no thinking, no text of its own harness."""
    messages: list[JsonMap] = []
    uses = iter(report.tool_uses)
    for event in report.events:
        if isinstance(event, MessageEvent) and _is_shown(event, bool(messages)):
            messages.append(_known({"role": event.role, "content": event.text, "start_time": event.at}))
        elif isinstance(event, ToolCallEvent):
            _latest_assistant(messages).setdefault("tool_calls", []).append(_tool_call(next(uses)))
    _end_with_answer(messages, report.final_output)
    return messages


def _is_shown(event: MessageEvent, begun: bool) -> bool:
    """Whether a message is part of the output: after the target's first message all of them, before it no prompt."""
    return is_spoken(event) and (begun or event.role not in ("user", "system"))


def _latest_assistant(messages: list[JsonMap]) -> JsonMap:
    """The assistant message that a tool call belongs to; an empty one is added where there is none."""
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
    """Add the answer where the last assistant message is another: graders read the answer from that message."""
    if answer is None:
        return
    last = next((message for message in reversed(messages) if message["role"] == "assistant"), None)
    if last is None or last["content"].strip() != answer.strip():
        messages.append({"role": "assistant", "content": answer})


def trace_summary(report: SessionReport, messages: Sequence[Mapping[str, Any]]) -> JsonMap | None:
    """Return AgentV's summary of a session: calls by tool, durations, errors; None without messages.

    Tools keep their own names. Calls that the report does not show are not counted: an answer alone has none.
    """
    if not messages:
        return None
    uses = report.tool_uses
    durations: dict[str, list[float]] = {}
    for use in uses:
        if use.duration_ms is not None:
            durations.setdefault(use.tool, []).append(use.duration_ms)
    answers = sum(message["role"] == "assistant" for message in messages)
    summary: JsonMap = {
        "event_count": len(uses),
        "tool_calls": dict(Counter(use.tool for use in uses)),
        "error_count": tool_errors(report),
        "llm_call_count": answers if report.model_calls is None else report.model_calls,
    }
    return summary | ({"tool_durations": durations} if durations else {})


def token_usage(usage: Usage) -> JsonMap | None:
    """Return tokens by AgentV's names, `input` without cache reads; None when the target reports none."""
    if usage.input_tokens is None and usage.output_tokens is None:
        return None
    counted = {"input": usage.uncached_input_tokens, "output": usage.output_tokens}
    return counted | _known({"cached": usage.cached_input_tokens, "reasoning": usage.reasoning_tokens})


def authored(messages: Iterable[Message]) -> list[JsonMap]:
    """Return messages of a suite as JSON."""
    return [
        {"role": message.role, "content": message.content}
        | _known({"name": message.name, "tool_calls": list(message.tool_calls) or None})
        for message in messages
    ]


def _known(fields: Mapping[str, Any]) -> JsonMap:
    return {name: value for name, value in fields.items() if value is not None}
