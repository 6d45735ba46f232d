"""A session report as messages with their tool calls, under AgentV's field names (`tool`, `input`, `output`, …).

Graders, exports and transcripts share it. Names of tools are the target's. Values missing from a report are absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from eval_pipeline.reports.model import MessageEvent, SessionReport, ToolCallEvent, ToolResultEvent, ToolUse, is_spoken
from eval_pipeline.reports.usage import Usage
from eval_pipeline.suites.model import content_text

JsonMap = dict[str, Any]


def output_messages(report: SessionReport) -> list[JsonMap]:
    """Return the target's messages and tool calls: no prompt before them, no thinking, no text of its own harness.

    The last assistant message has the answer: one is added where the session ends with another.
    """
    messages = _messages(report, _is_output, splits=False)
    answer = report.final_output
    last = next((message for message in reversed(messages) if message["role"] == "assistant"), None)
    if answer is not None and (last is None or content_text(last["content"]).strip() != answer.strip()):
        messages.append({"role": "assistant", "content": answer})
    return messages


def session_messages(report: SessionReport) -> list[JsonMap]:
    """Return all messages of a session, the user's included; a tool call after a result begins a new message."""
    return _messages(report, _is_said, splits=True)


def token_counts(usage: Usage) -> JsonMap:
    """Return the known token counts by AgentV's names: `input` excludes cache reads."""
    return known({
        "input": usage.uncached_input_tokens,
        "output": usage.output_tokens,
        "cached": usage.cached_input_tokens,
        "reasoning": usage.reasoning_tokens,
    })  # fmt: skip


def known(fields: Mapping[str, Any]) -> JsonMap:
    """Return a mapping without its None values."""
    return {name: value for name, value in fields.items() if value is not None}


def _messages(report: SessionReport, is_shown: Callable[[MessageEvent, bool], bool], *, splits: bool) -> list[JsonMap]:
    messages: list[JsonMap] = []
    uses = iter(report.tool_uses)
    takes_calls, unspoken = False, None if splits else ""
    for event in report.events:
        if isinstance(event, MessageEvent) and is_shown(event, bool(messages)):
            messages.append(known({"role": event.role, "content": _content(event), "start_time": event.at}))
            takes_calls = event.role == "assistant"
        elif isinstance(event, ToolCallEvent):
            if not takes_calls:
                messages.append(known({"role": "assistant", "content": unspoken, "start_time": event.at}))
            takes_calls = True
            messages[-1].setdefault("tool_calls", []).append(_tool_call(next(uses)))
        elif splits and isinstance(event, ToolResultEvent):
            takes_calls = False
    return messages


def _is_output(event: MessageEvent, begun: bool) -> bool:
    """Whether a message is part of the output: after the target's first message all of them, before it no prompt."""
    return is_spoken(event) and (begun or event.role not in ("user", "system"))


def _is_said(event: MessageEvent, begun: bool) -> bool:
    return not event.injected and event.phase != "thinking" and bool(event.text or event.files)


def _content(event: MessageEvent) -> Any:
    """Return a message's text, or the list of its parts where it has files."""
    if not event.files:
        return event.text
    text = [{"type": "text", "text": event.text}] if event.text else []
    return [*text, *({"type": "file", **_without_folder(file)} for file in event.files)]


def _without_folder(file: Mapping[str, Any]) -> JsonMap:
    return {name: value for name, value in file.items() if name != "folder"}


def _result_value(result: ToolResultEvent | None) -> Any:
    """Return what a tool returned, as the source has it."""
    if result is None:
        return None
    return result.output if result.value is None else result.value


def _tool_call(use: ToolUse) -> JsonMap:
    call, result = use.call, use.result
    return known({
        "tool": call.tool,
        "input": call.arguments,
        "id": call.call_id,
        "start_time": call.at,
        "output": _result_value(result),
        "end_time": result.at if result is not None else None,
        "duration_ms": use.duration_ms,
        "status": "error" if use.is_error else None,
    })  # fmt: skip
