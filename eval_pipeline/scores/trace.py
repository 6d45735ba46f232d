"""The tool calls of a session report as numbers. Tools have the target's names; unknown values are None, never 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from eval_pipeline.reports.model import SessionReport, ToolUse, Usage
from eval_pipeline.reports.moments import iso, parse_time
from eval_pipeline.reports.tool_kinds import EXPLORING_KINDS, usual_kind
from eval_pipeline.scores.session_facts import shows_session, tool_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    """Numbers of a session: calls by tool, their durations (ms), errors that tools reported, calls of the model."""

    tool_calls: Mapping[str, int]
    tool_durations: Mapping[str, Sequence[float]]
    error_count: int
    model_calls: int | None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    usage: Usage = field(default_factory=Usage)

    @property
    def event_count(self) -> int:
        """Number of tool calls."""
        return sum(self.tool_calls.values())

    @property
    def exploration_ratio(self) -> float | None:
        """Share of tool calls that only look (read, search, list, by the tool's name); None without calls."""
        looks = sum(count for tool, count in self.tool_calls.items() if usual_kind(tool) in EXPLORING_KINDS)
        return looks / self.event_count if self.event_count else None

    @property
    def tokens_per_tool(self) -> float | None:
        """Input and output tokens per tool call, without cache reads."""
        tokens = self.usage.uncached_tokens
        return None if tokens is None or not self.event_count else tokens / self.event_count

    @property
    def mean_tool_ms(self) -> float | None:
        """Mean duration of the tool calls whose duration is known."""
        durations = [duration for durations in self.tool_durations.values() for duration in durations]
        return sum(durations) / len(durations) if durations else None


def summarize_trace(report: SessionReport) -> TraceSummary | None:
    """Return the numbers of a session; None when the report is only an answer."""
    return trace_of(report) if shows_session(report) else None


def trace_of(report: SessionReport) -> TraceSummary:
    """Return the numbers of what a report shows; an answer alone has no calls."""
    uses = report.tool_uses
    durations: dict[str, list[float]] = {}
    for use in uses:
        if use.duration_ms is not None:
            durations.setdefault(use.tool, []).append(use.duration_ms)
    times = list(_times(report, uses))
    return TraceSummary(
        tool_calls=dict(Counter(use.tool for use in uses)),
        tool_durations=durations,
        error_count=tool_errors(report),
        model_calls=report.model_calls,
        started_at=min(times, default=None),
        ended_at=max(times, default=None),
        usage=report.usage,
    )


def _times(report: SessionReport, uses: Sequence[ToolUse]) -> Iterator[datetime]:
    texts = [report.started_at, report.ended_at, *(event.at for event in report.events)]
    times = [*map(parse_time, texts), *(use.ended_at for use in uses)]
    return (time for time in times if time is not None)


def trace_json(trace: TraceSummary) -> dict[str, Any]:
    """Return a summary as JSON: AgentV's keys, then the session's times and ratios."""
    summary = {
        "event_count": trace.event_count,
        "tool_calls": dict(trace.tool_calls),
        "error_count": trace.error_count,
        "tool_durations": dict(trace.tool_durations) or None,
        "llm_call_count": trace.model_calls,
        "start_time": iso(trace.started_at),
        "end_time": iso(trace.ended_at),
        "exploration_ratio": trace.exploration_ratio,
        "tokens_per_tool": trace.tokens_per_tool,
        "mean_tool_ms": trace.mean_tool_ms,
    }
    return {name: value for name, value in summary.items() if value is not None}
