"""Logs of agents on disk: found, read, and written as transcript lines."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.agents.agent_cli import AGENTS
from eval_pipeline.agents.session_import import read_session
from eval_pipeline.executions.adapters.replay import Replay
from eval_pipeline.fingerprints import to_json
from eval_pipeline.formats.agentv.transcripts import transcript_line
from eval_pipeline.reports.messages import session_messages
from eval_pipeline.reports.model import Event, MessageEvent, SessionReport, ToolCallEvent, ToolResultEvent
from eval_pipeline.reports.moments import milliseconds_between
from eval_pipeline.reports.normalizers.answer import answer_report
from eval_pipeline_tests.agents.recorded_sessions import KEPT_LOGS, WORKSPACE, log_of, recorded_session
from eval_pipeline_tests.builders import a_call, a_case, a_plan, a_runner


@pytest.mark.parametrize(
    ("begun", "ended", "passed"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01.5+00:00", 1500.0),
        ("2026-01-01T00:00:01Z", "2026-01-01T00:00:00Z", None),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01", None),
        ("yesterday", "2026-01-01T00:00:01", None),
        (None, "2026-01-01T00:00:01Z", None),
    ],
    ids=["passed", "reversed", "one without zone", "no moment", "unknown"],
)
def test_time_between_two_moments_is_known_or_not(begun: str | None, ended: str | None, passed: float | None) -> None:
    assert milliseconds_between(begun, ended) == passed


# Telling them


VERSIONS = {"claude": ("stub-model", "2.1.330"), "codex": ("gpt-5.5", "0.169.0"), "copilot": ("stub-model", "1.0.102")}


@pytest.mark.parametrize("agent", KEPT_LOGS)
def test_a_line_tells_where_the_session_came_from(tmp_path: Path, agent: str) -> None:
    source = transcript_line(recorded_session(tmp_path, agent))["source"]

    assert (source["provider"], source["cwd"]) == (agent, WORKSPACE)
    assert (source["model"], source["version"]) == VERSIONS[agent]
    assert set(source) >= {"session_id", "timestamp"}


@pytest.mark.parametrize("agent", KEPT_LOGS)
def test_a_line_holds_the_question_the_answer_and_the_calls(tmp_path: Path, agent: str) -> None:
    line = transcript_line(recorded_session(tmp_path, agent))

    assert line["input"] == line["output"][0]["content"] == "Please do the task. [[stub:files]]"
    assert line["output"][-1]["content"] == "Done. STUB-FINAL-ANSWER for scenario files."
    calls = [call for message in line["output"] for call in message.get("tool_calls", ())]
    assert len(calls) == 4
    assert all(
        {"tool", "input", "output", "id", "start_time", "end_time", "duration_ms"} == set(call) for call in calls
    )


@pytest.mark.parametrize("agent", KEPT_LOGS)
def test_a_line_counts_input_without_what_was_cached(tmp_path: Path, agent: str) -> None:
    usage = transcript_line(recorded_session(tmp_path, agent))["token_usage"]

    assert (usage["input"], usage["cached"], usage["output"]) == (6000 - 1024, 1024, 260)


@pytest.mark.parametrize("agent", KEPT_LOGS)
def test_a_line_replayed_has_the_answer_the_calls_and_the_usage_of_the_session(tmp_path: Path, agent: str) -> None:
    original = recorded_session(tmp_path, agent).report

    replayed = answer_report(transcript_line(recorded_session(tmp_path, agent)), "again")

    assert replayed.final_output == original.final_output
    assert replayed.usage.input_tokens == original.usage.input_tokens
    assert replayed.duration_ms == original.duration_ms
    assert [(call.tool, call.arguments) for call in replayed.tool_calls] == [
        (call.tool, call.arguments) for call in original.tool_calls
    ]


def test_a_transcript_file_is_a_recording(tmp_path: Path) -> None:
    line = transcript_line(recorded_session(tmp_path, "codex"))
    (tmp_path / "recorded.jsonl").write_bytes(to_json(line) + b"\n")
    runner = a_runner(settings={"recording": "recorded.jsonl"}, folder=tmp_path)

    raw = asyncio.run(Replay(runner).execute(a_call(tmp_path, a_plan(a_case(text=line["input"]), runner))))

    assert answer_report(raw.payload, "again").final_output == "Done. STUB-FINAL-ANSWER for scenario files."


def test_what_a_session_does_not_tell_is_null(tmp_path: Path) -> None:
    path = tmp_path / "abc.jsonl"
    path.write_text('{"type":"user","message":{"role":"user","content":"hi"}}\n', "utf-8")

    line = transcript_line(read_session(AGENTS.get("claude"), log_of("claude", path)))

    assert (line["token_usage"], line["duration_ms"], line["cost_usd"]) == (None, None, None)
    assert line["source"] == {"provider": "claude", "session_id": "abc"}
    to_json(line)


def says(text: str, role: str = "assistant", **more: Any) -> MessageEvent:
    return MessageEvent(role=role, text=text, **more)


MESSAGES: dict[str, tuple[list[Event], list[tuple[str, str | None, int]]]] = {
    "calls belong to the words before them": (
        [says("look"), ToolCallEvent(tool="a"), ToolCallEvent(tool="b")],
        [("assistant", "look", 2)],
    ),
    "a call after a result begins a new message": (
        [says("look"), ToolCallEvent(tool="a", call_id="1"), ToolResultEvent(call_id="1"), ToolCallEvent(tool="b")],
        [("assistant", "look", 1), ("assistant", None, 1)],
    ),
    "a call without words has a message of its own": (
        [says("do it", role="user"), ToolCallEvent(tool="a")],
        [("user", "do it", 0), ("assistant", None, 1)],
    ),
    "thinking and injected text are left out": (
        [says("hm", phase="thinking"), says("<context>", role="user", injected=True), says("done")],
        [("assistant", "done", 0)],
    ),
    "nothing": ([], []),
}


@pytest.mark.parametrize(("events", "messages"), MESSAGES.values(), ids=MESSAGES.keys())
def test_events_become_messages(events: list[Event], messages: list[tuple[str, str | None, int]]) -> None:
    lines = session_messages(SessionReport(execution_id="e", events=tuple(events)))

    assert [(m["role"], m.get("content"), len(m.get("tool_calls", ()))) for m in lines] == messages


def test_a_result_without_a_call_is_no_message() -> None:
    report = SessionReport(execution_id="e", events=(ToolResultEvent(call_id="1", output="lost"),))

    assert session_messages(report) == []
