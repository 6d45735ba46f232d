"""Session → one line of a transcript file, as AgentV's `import` writes it and its `eval run --transcript` reads it.

A transcript has messages and tool calls. It has no thinking of the agent, no text that the agent's harness put into the
user's role, and no facts without a field in the format (failures, exit codes, skills).
"""

from __future__ import annotations

from typing import Any

from eval_pipeline.agents.session_import import Session
from eval_pipeline.exports.rows import known
from eval_pipeline.reports.model import MessageEvent, SessionReport, ToolCallEvent, ToolResultEvent, ToolUse, Usage

JsonObject = dict[str, Any]


def transcript_line(session: Session) -> JsonObject:
    """Return the session as a JSON object: `input`, `output`, `token_usage`, `duration_ms`, `cost_usd`, `source`.

    `input` is the user's first message; `output` has all messages in order. Unknown values are null, and absent from
    `source`.
    """
    report = session.report
    source = {
        "provider": session.agent,
        "session_id": session.session_id,
        "model": report.model,
        "timestamp": report.started_at,
        "git_branch": session.git_branch,
        "cwd": session.cwd,
        "version": report.agent_version,
    }
    return {
        "input": session.prompt,
        "output": transcript_messages(report),
        "token_usage": _token_usage(report.usage),
        "duration_ms": report.duration_ms,
        "cost_usd": report.usage.cost_usd,
        "source": {name: value for name, value in source.items() if value is not None},
    }


def transcript_messages(report: SessionReport) -> list[JsonObject]:
    """Return the messages of a session, an assistant's with its tool calls; a call after a result begins a new one."""
    messages: list[JsonObject] = []
    uses = iter(report.tool_uses)
    takes_calls = False
    for event in report.events:
        if isinstance(event, MessageEvent) and not event.injected and event.phase != "thinking" and event.text:
            messages.append(known({"role": event.role, "content": event.text, "start_time": event.at}))
            takes_calls = event.role == "assistant"
        elif isinstance(event, ToolCallEvent):
            if not takes_calls:
                messages.append(known({"role": "assistant", "start_time": event.at}))
            takes_calls = True
            messages[-1].setdefault("tool_calls", []).append(_tool_call(next(uses)))
        elif isinstance(event, ToolResultEvent):
            takes_calls = False
    return messages


def _tool_call(use: ToolUse) -> JsonObject:
    call, result = use.call, use.result
    return known({
        "tool": call.tool,
        "input": call.arguments,
        "id": call.call_id,
        "start_time": call.at,
        "output": result.output if result is not None else None,
        "end_time": result.at if result is not None else None,
        "duration_ms": use.duration_ms,
    })  # fmt: skip


def _token_usage(usage: Usage) -> JsonObject | None:
    """Return token counts under AgentV's names: `input` excludes cache reads."""
    counts = {
        "input": usage.uncached_input_tokens,
        "output": usage.output_tokens,
        "cached": usage.cached_input_tokens,
        "reasoning": usage.reasoning_tokens,
    }
    return known(counts) or None
