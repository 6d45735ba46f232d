"""Logs of agents on disk: found, read, and told as transcript lines."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.agents.session_import import (
    AGENTS,
    Session,
    agents_of,
    find_logs,
    log_at,
    read_folder,
    read_head,
    read_session,
)
from eval_pipeline.executions.adapters.replay import Replay
from eval_pipeline.fingerprints import to_json
from eval_pipeline.formats.agentv.transcripts import transcript_line, transcript_messages
from eval_pipeline.reports.model import Event, MessageEvent, SessionReport, ToolCallEvent, ToolResultEvent
from eval_pipeline.reports.moments import milliseconds_between
from eval_pipeline.reports.normalizers.answer import answer_report
from eval_pipeline_tests.agents.recorded_sessions import WORKSPACE, printed
from eval_pipeline_tests.builders import a_call, a_case, a_plan, a_runner

ROLLOUT = "rollout-2026-11-22T00-02-05-01a2008f-5e61-7203-b743-08dfb9039ea9.jsonl"
LOGS = {
    "claude": ("claude", "files", "projects/-work/c4b57500.jsonl"),
    "codex": ("codex", "patch", f"sessions/2026/11/22/{ROLLOUT}"),
    "copilot": ("copilot", "files", "session-state/176fcf9f-237a-4867-85b7-57327e27d630/events.jsonl"),
}


def put(folder: Path, agent: str, name: str | None = None, age_s: int = 0) -> Path:
    """A recorded log where its agent would keep it, last changed so many seconds after 1970."""
    cli, scenario, where = LOGS[agent]
    path = folder / (name or where)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(printed(cli, scenario, "session.jsonl"), "utf-8")
    os.utime(path, (age_s, age_s))
    return path


def session(tmp_path: Path, agent: str) -> Session:
    return read_session(log_at(AGENTS[agent], put(tmp_path, agent)))


# Finding them


@pytest.mark.parametrize("agent", LOGS)
def test_logs_are_found_below_the_home_folder(tmp_path: Path, agent: str) -> None:
    path = put(tmp_path / AGENTS[agent].home, agent)

    assert [log.path for log in find_logs(AGENTS[agent], tmp_path, {})] == [path]


@pytest.mark.parametrize("agent", LOGS)
def test_the_environment_moves_where_logs_are_looked_for(tmp_path: Path, agent: str) -> None:
    path = put(tmp_path / "elsewhere", agent)

    found = find_logs(AGENTS[agent], tmp_path, {AGENTS[agent].variable: str(tmp_path / "elsewhere")})

    assert [log.path for log in found] == [path]


def test_the_newest_log_comes_first(tmp_path: Path) -> None:
    old = put(tmp_path / ".claude", "claude", "projects/a/old.jsonl", age_s=10)
    new = put(tmp_path / ".claude", "claude", "projects/b/new.jsonl", age_s=20)

    assert [log.path for log in find_logs(AGENTS["claude"], tmp_path, {})] == [new, old]


def test_logs_of_subagents_and_other_files_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path / ".claude", "claude", "projects/a/agent-1.jsonl")
    put(tmp_path / ".claude", "claude", "projects/a/notes.txt")

    assert find_logs(AGENTS["claude"], tmp_path, {}) == []


def test_a_log_that_is_gone_is_passed_over(tmp_path: Path) -> None:
    kept = put(tmp_path / ".claude", "claude")
    (kept.parent / "gone.jsonl").symlink_to(tmp_path / "nowhere")

    assert [log.path for log in find_logs(AGENTS["claude"], tmp_path, {})] == [kept]


@pytest.mark.parametrize(
    ("agent", "name", "id_"),
    [
        ("claude", "projects/a/c4b57500-43ae.jsonl", "c4b57500-43ae"),
        ("codex", LOGS["codex"][2], "01a2008f-5e61-7203-b743-08dfb9039ea9"),
        ("copilot", "session-state/176fcf9f-237a/events.jsonl", "176fcf9f-237a"),
        ("copilot", "session-state/176fcf9f-237a.jsonl", "176fcf9f-237a"),
    ],
    ids=["claude", "codex", "copilot", "older copilot"],
)
def test_a_log_is_named_by_its_sessions_id(tmp_path: Path, agent: str, name: str, id_: str) -> None:
    assert log_at(AGENTS[agent], put(tmp_path, agent, name)).file_id == id_


@pytest.mark.parametrize("agent", LOGS)
def test_whose_log_it_is_can_be_told_from_its_content(tmp_path: Path, agent: str) -> None:
    log = log_at(AGENTS["claude"], put(tmp_path, agent, "somewhere.jsonl"))

    assert agents_of(log) == [agent]


# Reading them


def test_the_head_of_a_log_tells_its_folder_and_first_words(tmp_path: Path) -> None:
    path = put(tmp_path, "claude")
    with path.open("a", encoding="utf-8") as file:
        file.write('{"type":"attachment","padding":"' + "x" * 1_000_000 + '"}\n')

    head = read_head(log_at(AGENTS["claude"], path))

    assert (head.cwd, head.prompt) == (WORKSPACE, "Please do the task. [[stub:files]]")


def test_the_folder_of_a_session_is_told_without_reading_it(tmp_path: Path) -> None:
    assert read_folder(log_at(AGENTS["codex"], put(tmp_path, "codex"))) == WORKSPACE


def test_a_log_without_a_line_of_its_own_is_named_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "abc.jsonl"
    path.write_text('{"type":"user","message":{"role":"user","content":"hi"}}\n', "utf-8")

    read = read_session(log_at(AGENTS["claude"], path))

    assert (read.session_id, read.prompt, read.cwd) == ("abc", "hi", None)


def test_a_session_lasted_from_its_first_record_to_its_last(tmp_path: Path) -> None:
    report = session(tmp_path, "copilot").report

    assert (report.started_at, report.ended_at) == ("2026-11-22T02:49:55.286Z", "2026-11-22T02:49:55.841Z")
    assert report.duration_ms == 555.0


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


@pytest.mark.parametrize("agent", LOGS)
def test_a_line_tells_where_the_session_came_from(tmp_path: Path, agent: str) -> None:
    source = transcript_line(session(tmp_path, agent))["source"]

    assert (source["provider"], source["cwd"]) == (agent, WORKSPACE)
    assert (source["model"], source["version"]) == VERSIONS[agent]
    assert set(source) >= {"session_id", "timestamp"}


@pytest.mark.parametrize("agent", LOGS)
def test_a_line_holds_the_question_the_answer_and_the_calls(tmp_path: Path, agent: str) -> None:
    line = transcript_line(session(tmp_path, agent))

    assert line["input"] == line["output"][0]["content"] == "Please do the task. [[stub:files]]"
    assert line["output"][-1]["content"] == "Done. STUB-FINAL-ANSWER for scenario files."
    calls = [call for message in line["output"] for call in message.get("tool_calls", ())]
    assert len(calls) == 4
    assert all(
        {"tool", "input", "output", "id", "start_time", "end_time", "duration_ms"} == set(call) for call in calls
    )


@pytest.mark.parametrize("agent", LOGS)
def test_a_line_counts_input_without_what_was_cached(tmp_path: Path, agent: str) -> None:
    usage = transcript_line(session(tmp_path, agent))["token_usage"]

    assert (usage["input"], usage["cached"], usage["output"]) == (6000 - 1024, 1024, 260)


@pytest.mark.parametrize("agent", LOGS)
def test_a_line_replayed_has_the_answer_the_calls_and_the_usage_of_the_session(tmp_path: Path, agent: str) -> None:
    original = session(tmp_path, agent).report

    replayed = answer_report(transcript_line(session(tmp_path, agent)), "again")

    assert replayed.final_output == original.final_output
    assert replayed.usage.input_tokens == original.usage.input_tokens
    assert replayed.duration_ms == original.duration_ms
    assert [(call.tool, call.arguments) for call in replayed.tool_calls] == [
        (call.tool, call.arguments) for call in original.tool_calls
    ]


def test_a_transcript_file_is_a_recording(tmp_path: Path) -> None:
    line = transcript_line(session(tmp_path, "codex"))
    (tmp_path / "recorded.jsonl").write_bytes(to_json(line) + b"\n")
    runner = a_runner(settings={"recording": "recorded.jsonl"}, folder=tmp_path)

    raw = asyncio.run(Replay(runner).execute(a_call(tmp_path, a_plan(a_case(text=line["input"]), runner))))

    assert answer_report(raw.payload, "again").final_output == "Done. STUB-FINAL-ANSWER for scenario files."


def test_what_a_session_does_not_tell_is_null(tmp_path: Path) -> None:
    path = tmp_path / "abc.jsonl"
    path.write_text('{"type":"user","message":{"role":"user","content":"hi"}}\n', "utf-8")

    line = transcript_line(read_session(log_at(AGENTS["claude"], path)))

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
    told = transcript_messages(SessionReport(execution_id="e", events=tuple(events)))

    assert [(m["role"], m.get("content"), len(m.get("tool_calls", ()))) for m in told] == messages


def test_a_result_without_a_call_is_no_message() -> None:
    report = SessionReport(execution_id="e", events=(ToolResultEvent(call_id="1", output="lost"),))

    assert transcript_messages(report) == []
