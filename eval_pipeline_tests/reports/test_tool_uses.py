"""Tool calls are paired with their results once, and times are read in one place."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.model import Event, SessionReport, ToolCallEvent, ToolResultEvent
from eval_pipeline.reports.moments import parse_time


def report(*events: Event) -> SessionReport:
    return SessionReport(execution_id="e", events=events)


def call(tool: str = "a", call_id: str | None = None, at: str | None = None) -> ToolCallEvent:
    return ToolCallEvent(tool=tool, call_id=call_id, at=at)


def result(output: str, tool: str | None = None, call_id: str | None = None, **fields: Any) -> ToolResultEvent:
    return ToolResultEvent(tool=tool, call_id=call_id, output=output, **fields)


@pytest.mark.parametrize(
    ("events", "outputs"),
    [
        ([call("a", "1"), call("a", "2"), result("first", "a", "1")], ["first", None]),
        ([call("a"), call("a"), result("last", "a")], [None, "last"]),
        ([call("a"), result("one", "a"), call("a"), result("two", "a")], ["one", "two"]),
        ([call("a"), call("b"), result("of a", "a"), result("of b", "b")], ["of a", "of b"]),
        ([call("a"), result("unnamed")], ["unnamed"]),
        ([call("a", "1"), result("without id", "a")], ["without id"]),
        ([call("a", "1"), result("of another", "a", "2")], [None]),
        ([call("a"), result("of an unknown tool", "b")], [None]),
        ([call("a", "1"), result("one", "a", "1"), call("a", "1"), result("two", "a", "1")], ["one", "two"]),
        ([result("before"), call("a")], [None]),
        ([], []),
    ],
    ids=[
        "by id", "latest open call of the tool", "one after the other", "by tool", "no tool and no id",
        "only the call has an id", "another id", "another tool", "an id used twice", "result before the call",
        "nothing",
    ],
)  # fmt: skip
def test_a_result_belongs_to_the_call_of_its_id_else_to_the_latest_open_one_of_its_tool(
    events: list[Event], outputs: list[str | None]
) -> None:
    uses = report(*events).tool_uses

    assert [use.result.output if use.result is not None else None for use in uses] == outputs


@pytest.mark.parametrize(
    ("called_at", "fields", "duration_ms"),
    [
        ("2026-03-01T12:00:00Z", {"duration_ms": 7.0, "at": "2026-03-01T12:00:09Z"}, 7.0),
        ("2026-03-01T12:00:00Z", {"at": "2026-03-01T12:00:01.088Z"}, 1088.0),
        ("2026-03-01T12:00:00Z", {"at": "2026-03-01T12:00:00Z"}, 0.0),
        ("2026-03-01T12:00:00Z", {"at": "2026-03-01T11:59:59Z"}, None),
        ("2026-03-01T12:00:00Z", {}, None),
        (None, {"at": "2026-03-01T12:00:00Z"}, None),
        ("yesterday", {"at": "2026-03-01T12:00:00Z"}, None),
    ],
    ids=["reported", "by times", "same time", "reversed", "no end", "no begin", "no time"],
)
def test_a_duration_is_reported_or_the_time_from_call_to_result_and_unknown_is_not_zero(
    called_at: str | None, fields: dict[str, Any], duration_ms: float | None
) -> None:
    (use,) = report(call(at=called_at), result("", "a", **fields)).tool_uses

    assert use.duration_ms == duration_ms


def test_a_call_without_result_has_no_duration_and_no_known_error() -> None:
    (use,) = report(call(at="2026-03-01T12:00:00Z")).tool_uses

    assert (use.duration_ms, use.is_error, use.ended_at) == (None, None, None)


@pytest.mark.parametrize("duration_ms", [1e300, float("inf"), float("nan")])
def test_a_duration_beyond_the_calendar_has_no_end(duration_ms: float) -> None:
    (use,) = report(call(at="2026-03-01T12:00:00Z"), result("", "a", duration_ms=duration_ms)).tool_uses

    assert use.ended_at is None


def test_tool_uses_are_paired_once_and_are_no_part_of_a_reports_identity() -> None:
    read, unread = report(call(), result("x")), report(call(), result("x"))

    assert read.tool_uses is read.tool_uses
    assert (read, to_json(read)) == (unread, to_json(unread))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01T12:00:00Z", "2026-03-01T12:00:00+00:00"),
        ("2026-03-01T14:00:00+02:00", "2026-03-01T12:00:00+00:00"),
        ("2026-03-01T12:00:00", "2026-03-01T12:00:00+00:00"), ("yesterday", None),
        ("0001-01-01T00:00:00+14:00", None), ("", None), (None, None),
    ],
)  # fmt: skip
def test_times_are_read_as_utc(text: str | None, expected: str | None) -> None:
    time = parse_time(text)

    assert (time.isoformat() if time is not None else None) == expected
