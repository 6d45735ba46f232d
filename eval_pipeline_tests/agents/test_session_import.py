"""Logs of agents on disk: found, and read as sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline.agents.agent_cli import AGENTS
from eval_pipeline.agents.session_import import agents_of, read_folder, read_head, read_session
from eval_pipeline.agents.session_store import JsonlSessions
from eval_pipeline_tests.agents.recorded_sessions import KEPT_LOGS, WORKSPACE, keep_log, log_of, recorded_session


def store(agent: str) -> JsonlSessions:
    sessions = AGENTS.get(agent).sessions
    assert isinstance(sessions, JsonlSessions)
    return sessions


# Finding them


@pytest.mark.parametrize("agent", KEPT_LOGS)
def test_logs_are_found_below_the_home_folder(tmp_path: Path, agent: str) -> None:
    path = keep_log(tmp_path / store(agent).default_folder, agent)

    assert [log.path for log in store(agent).logs(tmp_path, {})] == [path]


@pytest.mark.parametrize("agent", KEPT_LOGS)
def test_the_environment_moves_where_logs_are_looked_for(tmp_path: Path, agent: str) -> None:
    path = keep_log(tmp_path / "elsewhere", agent)

    logs = store(agent).logs(tmp_path, {store(agent).variable: str(tmp_path / "elsewhere")})

    assert [log.path for log in logs] == [path]


def test_the_newest_log_comes_first(tmp_path: Path) -> None:
    old = keep_log(tmp_path / ".claude", "claude", "projects/a/old.jsonl", age_s=10)
    new = keep_log(tmp_path / ".claude", "claude", "projects/b/new.jsonl", age_s=20)

    assert [log.path for log in store("claude").logs(tmp_path, {})] == [new, old]


def test_logs_of_subagents_and_other_files_are_passed_over(tmp_path: Path) -> None:
    keep_log(tmp_path / ".claude", "claude", "projects/a/agent-1.jsonl")
    keep_log(tmp_path / ".claude", "claude", "projects/a/notes.txt")

    assert store("claude").logs(tmp_path, {}) == []


def test_a_log_that_is_gone_is_passed_over(tmp_path: Path) -> None:
    kept = keep_log(tmp_path / ".claude", "claude")
    (kept.parent / "gone.jsonl").symlink_to(tmp_path / "nowhere")

    assert [log.path for log in store("claude").logs(tmp_path, {})] == [kept]


@pytest.mark.parametrize(
    ("agent", "name", "id_"),
    [
        ("claude", "projects/a/c4b57500-43ae.jsonl", "c4b57500-43ae"),
        ("codex", KEPT_LOGS["codex"][2], "01a2008f-5e61-7203-b743-08dfb9039ea9"),
        ("copilot", "session-state/176fcf9f-237a/events.jsonl", "176fcf9f-237a"),
        ("copilot", "session-state/176fcf9f-237a.jsonl", "176fcf9f-237a"),
    ],
    ids=["claude", "codex", "copilot", "older copilot"],
)
def test_a_log_is_named_by_its_sessions_id(tmp_path: Path, agent: str, name: str, id_: str) -> None:
    assert log_of(agent, keep_log(tmp_path, agent, name)).session_id == id_


@pytest.mark.parametrize("agent", KEPT_LOGS)
def test_the_owner_of_a_log_is_known_by_its_content(tmp_path: Path, agent: str) -> None:
    log = log_of("claude", keep_log(tmp_path, agent, "somewhere.jsonl"))

    assert agents_of(AGENTS.get("claude"), log) == [agent]


# Reading them


def test_the_head_of_a_log_has_its_folder_and_first_message(tmp_path: Path) -> None:
    path = keep_log(tmp_path, "claude")
    with path.open("a", encoding="utf-8") as file:
        file.write('{"type":"attachment","padding":"' + "x" * 1_000_000 + '"}\n')

    head = read_head(AGENTS.get("claude"), log_of("claude", path))

    assert (head.cwd, head.prompt) == (WORKSPACE, "Please do the task. [[stub:files]]")


def test_the_folder_of_a_session_is_read_without_its_report(tmp_path: Path) -> None:
    assert read_folder(AGENTS.get("codex"), log_of("codex", keep_log(tmp_path, "codex"))) == WORKSPACE


def test_a_log_without_a_line_of_its_own_is_named_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "abc.jsonl"
    path.write_text('{"type":"user","message":{"role":"user","content":"hi"}}\n', "utf-8")

    read = read_session(AGENTS.get("claude"), log_of("claude", path))

    assert (read.session_id, read.prompt, read.cwd) == ("abc", "hi", None)


def test_a_session_lasted_from_its_first_record_to_its_last(tmp_path: Path) -> None:
    report = recorded_session(tmp_path, "copilot").report

    assert (report.started_at, report.ended_at) == ("2026-11-22T02:49:55.286Z", "2026-11-22T02:49:55.841Z")
    assert report.duration_ms == 555.0
