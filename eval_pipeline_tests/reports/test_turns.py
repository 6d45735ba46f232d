"""Turns of a report: as a live conversation delimits them, else as the messages of the user show them."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline.executions.model import RawExecution
from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.model import (
    CommandEvent,
    Event,
    MessageEvent,
    SessionReport,
    ToolCallEvent,
    Turn,
    TurnStart,
    Usage,
)
from eval_pipeline.reports.normalize import normalize
from eval_pipeline.reports.normalizers.answer import stored_report
from eval_pipeline_tests.builders import a_case, a_runner, an_execution


def message(role: str, text: str, **fields: Any) -> MessageEvent:
    return MessageEvent(role=role, text=text, **fields)


def user(text: str, **fields: Any) -> MessageEvent:
    return message("user", text, **fields)


def answer(text: str) -> MessageEvent:
    return message("assistant", text)


def texts(events: tuple[Event, ...]) -> list[str]:
    return [getattr(event, "text", event.kind) for event in events]


def shown(report: SessionReport) -> list[tuple[list[str], list[str]]]:
    """Each turn as the texts of its messages and of its events."""
    return [(texts(turn.messages), texts(turn.events)) for turn in report.turns]


@pytest.mark.parametrize(
    ("events", "turns"),
    [
        ([answer("4")], [([], ["4"])]),
        ([user("a"), answer("b")], [(["a"], ["b"])]),
        ([user("a"), answer("b"), user("c"), answer("d")], [(["a"], ["b"]), (["c"], ["d"])]),
        ([user("a"), user("b"), answer("c")], [(["a", "b"], ["c"])]),
        ([user("a"), user("note", injected=True), user("b"), answer("c")], [(["a", "b"], ["note", "c"])]),
        ([user("a"), ToolCallEvent(tool="t"), user("note", injected=True), answer("b")],
         [(["a"], ["tool_call", "note", "b"])]),
        ([message("system", "be brief"), user("a"), answer("b")], [(["a"], ["be brief", "b"])]),
        ([answer("hello"), user("a"), answer("b")], [([], ["hello"]), (["a"], ["b"])]),
        ([user("a"), CommandEvent(command="ls"), user("a")], [(["a"], ["command"]), (["a"], [])]),
    ],
    ids=[
        "answer only", "one turn", "two turns", "two messages", "injected text begins no turn",
        "nor does it in the middle", "a system message belongs to the first turn", "the target speaks first",
        "no answer to the last",
    ],
)  # fmt: skip
def test_messages_of_the_user_begin_turns(events: list[Event], turns: list[tuple[list[str], list[str]]]) -> None:
    assert shown(SessionReport(execution_id="e", events=tuple(events))) == turns


def test_a_session_of_one_turn_has_the_measures_of_the_session_and_several_have_none() -> None:
    measured: dict[str, Any] = {
        "usage": Usage(output_tokens=3, cost_usd=0.5), "duration_ms": 9.0, "ttft_ms": 1.0, "model_calls": 2,
    }  # fmt: skip
    events = (user("a"), answer("b"))

    (only,) = SessionReport(execution_id="e", events=events, **measured).turns
    first, _ = SessionReport(execution_id="e", events=events * 2, **measured).turns

    assert (only.usage, only.cost_usd, only.duration_ms, only.ttft_ms, only.model_calls) == (
        measured["usage"], 0.5, 9.0, 1.0, 2,
    )  # fmt: skip
    assert (first.usage, first.cost_usd, first.duration_ms, first.ttft_ms, first.model_calls) == (
        Usage(), None, None, None, None,
    )  # fmt: skip


def test_a_turn_of_a_recorded_session_lasts_from_its_message_to_its_last_event() -> None:
    events = (
        user("a", at="2026-03-01T12:00:00Z"), message("assistant", "b", at="2026-03-01T12:00:03Z"),
        user("c", at="2026-03-01T12:05:00Z"), message("assistant", "d", at="2026-03-01T12:05:00.500Z"),
        user("e", at="2026-03-01T12:06:00Z"), answer("f"),
    )  # fmt: skip

    turns = SessionReport(execution_id="e", events=events, duration_ms=999_999.0).turns

    assert [turn.duration_ms for turn in turns] == [3000.0, 500.0, None]


def test_a_report_that_shows_nothing_has_no_turns_and_an_answer_without_events_is_one() -> None:
    assert SessionReport(execution_id="e").turns == ()
    assert SessionReport(execution_id="e", final_output="4").turns == (Turn(number=1),)


def test_the_answer_of_a_turn_is_the_targets_last_message_in_it() -> None:
    events = (user("a"), answer("hm"), answer("b"), message("assistant", "thinking", phase="thinking"), user("c"))

    assert [turn.answer for turn in SessionReport(execution_id="e", events=events).turns] == ["b", None]


def test_turns_are_split_once_and_are_no_part_of_a_reports_identity() -> None:
    read, unread = (SessionReport(execution_id="e", events=(user("a"), answer("b"))) for _ in range(2))

    assert read.turns is read.turns
    assert (read, to_json(read)) == (unread, to_json(unread))


# Live conversations.


def conversation(*turns: dict[str, Any], prices: dict[str, float] | None = None) -> SessionReport:
    """The report of a conversation; each turn has `messages` (texts of the user) and the target's answer."""
    payload = [
        {
            "messages": [{"role": "user", "text": text} for text in turn.pop("messages")],
            "format": "python",
            **({"elapsed_ms": turn.pop("elapsed_ms")} if "elapsed_ms" in turn else {}),
            "payload": turn,
        }
        for turn in turns
    ]
    raw = RawExecution(format="conversation", payload={"turns": payload})
    return normalize(an_execution(raw=raw), a_case(), a_runner(prices=prices or {}))


def test_two_turns_of_identical_text_are_two_turns() -> None:
    report = conversation({"messages": ["again"], "output": "same"}, {"messages": ["again"], "output": "same"})

    assert shown(report) == [(["again"], ["same"]), (["again"], ["same"])]
    assert [turn.speaker for turn in report.turns] == ["user", "user"]


def test_a_turn_without_an_answer_is_no_part_of_the_next() -> None:
    report = conversation({"messages": ["a"], "output": ""}, {"messages": ["b", "c"], "output": "d"})

    assert shown(report) == [(["a"], []), (["b", "c"], ["d"])]


def test_each_turn_has_its_own_usage_cost_and_duration() -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 0}
    report = conversation(
        {"messages": ["a"], "output": "b", "usage": usage, "duration_ms": 5, "elapsed_ms": 99.0},
        {"messages": ["c"], "output": "d", "cost_usd": 7.0, "elapsed_ms": 12.0},
        {"messages": ["e"], "output": "f"},
        prices={"input_per_million": 2.0, "output_per_million": 1.0},
    )

    assert [turn.cost_usd for turn in report.turns] == [2.0, 7.0, None]
    assert [turn.usage.input_tokens for turn in report.turns] == [1_000_000, None, None]
    assert [turn.duration_ms for turn in report.turns] == [5.0, 12.0, None]


def test_turns_survive_json() -> None:
    start = TurnStart(position=0, messages=1, usage=Usage(output_tokens=3), duration_ms=4.0)
    report = SessionReport(
        execution_id="e", events=(user("a"), user("a")), turn_starts=(start, TurnStart(position=1, messages=1))
    )
    stored = {
        **{name: getattr(report, name) for name in ("final_output",)},
        "events": [{"kind": "message", "role": "user", "text": "a"}] * 2,
        "turn_starts": [
            {"position": 0, "messages": 1, "usage": {"output_tokens": 3}, "duration_ms": 4.0},
            {"position": 1, "messages": 1},
        ],
    }

    assert stored_report(stored, "e").turns == report.turns
