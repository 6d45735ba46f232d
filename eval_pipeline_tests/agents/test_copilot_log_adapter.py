"""Recorded sessions of GitHub Copilot CLI: which one is taken, and what is said when there is none."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from eval_pipeline.agents.copilot.log_adapter import CopilotLog
from eval_pipeline.errors import InputError
from eval_pipeline.executions.model import RawExecution, TargetFailure
from eval_pipeline.reports.normalize import normalize
from eval_pipeline_tests.builders import a_call, a_case, a_runner, an_execution


@pytest.fixture(autouse=True)
def _sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sessions, the newer one of another folder."""
    monkeypatch.setenv("COPILOT_HOME", str(tmp_path))
    for age, (name, cwd) in enumerate([("new", "/work/other"), ("old", "/work/mine")], start=1):
        record(tmp_path / "session-state" / name / "events.jsonl", cwd, f"answer of {name}", 1_000_000 - age)


def record(path: Path, cwd: str, answer: str, at_s: int) -> None:
    path.parent.mkdir(parents=True)
    rows = [
        {"type": "session.start", "data": {"sessionId": path.parent.name, "context": {"cwd": cwd}}},
        {"type": "assistant.message", "data": {"content": answer}},
        {"type": "session.shutdown", "data": {}},
    ]
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    os.utime(path, (at_s, at_s))


def answer(folder: Path, **settings: Any) -> RawExecution:
    adapter = CopilotLog(a_runner(adapter="copilot-log", settings=settings, folder=folder))
    return asyncio.run(adapter.execute(a_call(folder / "files")))


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        pytest.param({"discover": "latest"}, "new", id="latest"),
        pytest.param({"discover": "latest", "cwd": "/work/mine"}, "old", id="latest of a folder"),
        pytest.param({"session_id": "old"}, "old", id="id"),
        pytest.param({"session_dir": "session-state/old"}, "old", id="folder"),
        pytest.param({"session_dir": "session-state/old/events.jsonl"}, "old", id="file"),
        pytest.param({"discover": "latest", "session_state_dir": "session-state"}, "new", id="elsewhere"),
    ],
)
def test_a_session_is_named_or_the_newest(tmp_path: Path, settings: Any, name: str) -> None:
    report = normalize(an_execution(raw=answer(tmp_path, **settings)), a_case(), a_runner())

    assert (report.final_output, report.session_id, report.duration_ms) == (f"answer of {name}", name, None)


@pytest.mark.parametrize("settings", [{"cwd": "/work/nobody"}, {"session_state_dir": "gone"}])
def test_where_no_session_is_there_is_no_recording(tmp_path: Path, settings: Any) -> None:
    with pytest.raises(TargetFailure, match="no session") as raised:
        answer(tmp_path, discover="latest", **settings)

    assert raised.value.failure.id == "recording-missing"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "session_dir: expected one of: session_dir, session_id, discover"),
        ({"discover": "latest", "session_id": "old"}, "expected one of"),
        ({"discover": "newest"}, r"discover: expected one of latest; got a text \('newest'\)"),
        ({"session_id": "gone"}, "session_id: no session at"),
        ({"session_dir": "gone"}, "session_dir: no session at"),
    ],
)
def test_settings_that_name_no_session_are_an_input_error(tmp_path: Path, settings: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        answer(tmp_path, **settings)


def test_a_session_that_goes_on_is_another_answer(tmp_path: Path) -> None:
    adapter = CopilotLog(a_runner(settings={"discover": "latest"}, folder=tmp_path))
    before = adapter.content()
    with (tmp_path / "session-state" / "new" / "events.jsonl").open("ab") as file:
        file.write(b'{"type": "assistant.message", "data": {"content": "more"}}\n')

    assert before.keys() == adapter.content().keys() == {"new"}
    assert before != adapter.content()
