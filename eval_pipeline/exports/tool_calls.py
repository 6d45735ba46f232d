"""SessionReport → what a session did, in numbers and as messages, in the words of AgentV's result files.

Names of tools are data and stay as they are. What a report cannot show is None or left out, never 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from eval_pipeline.reports.model import (
    Event,
    MessageEvent,
    SessionReport,
    ToolCallEvent,
    ToolResultEvent,
    ToolUse,
    Usage,
)
from eval_pipeline.reports.moments import parse_time
from eval_pipeline.reports.tool_kinds import EXPLORING_KINDS, usual_kind
from eval_pipeline.scores.session_facts import shows_session


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    """What a session did: calls by tool, their durations (ms), errors that tools reported, calls of the model."""

    tool_calls: Mapping[str, int]
    tool_durations: Mapping[str, Sequence[float]]
    error_count: int
    model_calls: int | None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    usage: Usage = field(default_factory=Usage)

    @property
    def event_count(self) -> int:
        """Tool calls."""
        return sum(self.tool_calls.values())

    def exploration_ratio(self, looking: Collection[str] | None = None) -> float | None:
        """The share of tool calls that only look (default: read, search, list, by name); None without calls."""
        looks = sum(
            count
            for tool, count in self.tool_calls.items()
            if (usual_kind(tool) in EXPLORING_KINDS if looking is None else tool in looking)
        )
        return looks / self.event_count if self.event_count else None

    @property
    def tokens_per_tool(self) -> float | None:
        """Input and output tokens, without what came from a cache, for each tool call."""
        if self.usage.total_tokens is None or not self.event_count:
            return None
        return (self.usage.total_tokens - (self.usage.cached_input_tokens or 0)) / self.event_count

    @property
    def mean_tool_ms(self) -> float | None:
        """The mean time of the tool calls whose time is known."""
        known = [duration for durations in self.tool_durations.values() for duration in durations]
        return sum(known) / len(known) if known else None


def summarize_trace(report: SessionReport) -> TraceSummary | None:
    """What a session did; None when the report is only an answer, which shows nothing of it."""
    if not shows_session(report):
        return None
    uses = report.tool_uses
    durations: dict[str, list[float]] = {}
    for use in uses:
        if use.duration_ms is not None:
            durations.setdefault(use.tool, []).append(use.duration_ms)
    times = list(_times(report, uses))
    return TraceSummary(
        tool_calls=dict(Counter(use.tool for use in uses)),
        tool_durations=durations,
        error_count=sum(isinstance(event, ToolResultEvent) and event.is_error is True for event in report.events),
        model_calls=report.model_calls,
        started_at=min(times, default=None),
        ended_at=max(times, default=None),
        usage=report.usage,
    )


def _times(report: SessionReport, uses: Sequence[ToolUse]) -> Iterator[datetime]:
    texts = [report.started_at, report.ended_at, *(event.at for event in report.events)]
    known = [*map(parse_time, texts), *(use.ended_at for use in uses)]
    return (time for time in known if time is not None)


def trace_json(trace: TraceSummary) -> dict[str, Any]:
    """A summary under AgentV's names."""
    said = {
        "event_count": trace.event_count,
        "tool_calls": dict(trace.tool_calls),
        "error_count": trace.error_count,
        "tool_durations": dict(trace.tool_durations) or None,
        "llm_call_count": trace.model_calls,
    }
    return {name: value for name, value in said.items() if value is not None}


def output_messages(report: SessionReport) -> list[dict[str, Any]]:
    """What the target said and called, as messages with `tool_calls`; what was said to it before is left out."""
    messages: list[dict[str, Any]] = []
    uses = iter(report.tool_uses)
    for event in report.events:
        if isinstance(event, MessageEvent) and _is_said(event, bool(messages)):
            messages.append(_known({"role": event.role, "content": event.text, "start_time": event.at}))
        elif isinstance(event, ToolCallEvent):
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": ""})
            messages[-1].setdefault("tool_calls", []).append(_tool_call(next(uses)))
    if not messages and report.final_output is not None:
        messages.append({"role": "assistant", "content": report.final_output})
    return messages


def _is_said(event: Event, began: bool) -> bool:
    if not isinstance(event, MessageEvent) or event.injected or event.phase == "thinking":
        return False
    return event.role == "assistant" or began


def _tool_call(use: ToolUse) -> dict[str, Any]:
    result = use.result
    return _known({
        "tool": use.tool,
        "id": use.call.call_id,
        "input": use.call.arguments,
        "output": result.output if result is not None else None,
        "start_time": use.call.at,
        "duration_ms": use.duration_ms,
    })  # fmt: skip


def _known(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in value.items() if part is not None}
