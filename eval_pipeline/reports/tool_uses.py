"""Tool calls paired with their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from eval_pipeline.reports.events import Event, ToolCallEvent, ToolResultEvent
from eval_pipeline.reports.moments import later, milliseconds_between, parse_time
from eval_pipeline.reports.tool_kinds import ToolKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """A tool call with the result that belongs to it; `result` is None when the session shows none."""

    call: ToolCallEvent
    result: ToolResultEvent | None = None

    @property
    def tool(self) -> str:
        """Name of the tool, as the target calls it."""
        return self.call.tool

    @property
    def kind(self) -> ToolKind:
        """What the tool does, whatever it is called."""
        return self.call.does

    @property
    def duration_ms(self) -> float | None:
        """Duration that the result reports, else the time from call to result; None when neither is known."""
        if self.result is None:
            return None
        if self.result.duration_ms is not None:
            return self.result.duration_ms
        return milliseconds_between(self.call.at, self.result.at)

    @property
    def is_error(self) -> bool | None:
        """Whether the tool failed; None when the session does not report it."""
        return self.result.is_error if self.result is not None else None

    @property
    def started_at(self) -> datetime | None:
        """Time of the call (UTC)."""
        return parse_time(self.call.at)

    @property
    def ended_at(self) -> datetime | None:
        """Time of the call plus the duration (UTC), else the time of the result."""
        if self.started_at is not None and self.duration_ms is not None:
            return later(self.started_at, self.duration_ms)
        return parse_time(self.result.at) if self.result is not None else None


def pair_tool_uses(events: Sequence[Event]) -> tuple[ToolUse, ...]:
    """Tool calls in order, each with its result.

    A result belongs to the latest open call of its call id. A result without an id belongs to the latest open call of
    its tool, a result without tool and id to the latest open call. Other results are left out.
    """
    calls: list[ToolCallEvent] = []
    results: dict[int, ToolResultEvent] = {}
    open_: list[int] = []
    for event in events:
        if isinstance(event, ToolCallEvent):
            open_.append(len(calls))
            calls.append(event)
        elif isinstance(event, ToolResultEvent):
            index = next((index for index in reversed(open_) if _belongs_to(event, calls[index])), None)
            if index is not None:
                results[index] = event
                open_.remove(index)
    return tuple(ToolUse(call=call, result=results.get(index)) for index, call in enumerate(calls))


def _belongs_to(result: ToolResultEvent, call: ToolCallEvent) -> bool:
    if result.call_id is not None:
        return result.call_id == call.call_id
    return result.tool is None or result.tool == call.tool
