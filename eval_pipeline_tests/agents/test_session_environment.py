"""What a session of a coding agent sees of this machine, and what is left of it."""

from __future__ import annotations

import asyncio
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.agents.adapter import Agent
from eval_pipeline.executions import session_folders
from eval_pipeline.executions.identity import runner_revision
from eval_pipeline.executions.model import RawExecution, TargetFailure
from eval_pipeline.parsing.redaction import KNOWN, redact_text
from eval_pipeline.processes import this_process
from eval_pipeline_tests.agents.test_agent_adapter import an_agent, program
from eval_pipeline_tests.builders import a_call, a_case, a_plan

LOOKS = """#!/bin/sh
cat > /dev/null
env
ls -A "$HOME" "$HOME/.codex" "$TMPDIR"
cat "$HOME/.codex/auth.json"
echo kept > "$HOME/.codex/history"
echo kept > "$TMPDIR/scratch"
git config user.name || true
"""


@pytest.fixture(autouse=True)
def users_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with a login, notes and variables; temporary files are in a folder of the test."""
    home = tmp_path / "users-home"
    (home / ".codex").mkdir(parents=True)
    (home / ".codex" / "auth.json").write_text("the login\n")
    (home / ".codex" / "notes.md").write_text("the user's own")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("DATABASE_CANARY", "postgres canary")
    monkeypatch.setenv("TEAM_NUMBER", "team-4711-x")
    monkeypatch.delenv(session_folders.SESSIONS_VARIABLE)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(session_folders, "_remove_abandoned_once", session_folders._remove_abandoned_once.__wrapped__)
    return home


def session(folder: Path, **settings: Any) -> RawExecution:
    runner = an_agent(folder, **{"agent": "codex", "executable": program(folder, LOOKS), **settings})
    return asyncio.run(Agent(runner).execute(a_call(folder / "files", a_plan(a_case(), runner))))


def printed(folder: Path, **settings: Any) -> str:
    return session(folder, **settings).files["stdout"].read_text()


def test_a_session_sees_its_login_and_its_provider_and_nothing_else_of_the_user(tmp_path: Path) -> None:
    seen = printed(tmp_path)

    assert "the login" in seen
    assert "OPENAI_BASE_URL=http://127.0.0.1:1/v1" in seen
    assert f"PATH={os.environ['PATH']}" in seen
    for canary in ("canary", "TEAM_NUMBER", "notes.md", "users-home"):
        assert canary not in seen


def test_nothing_is_left_of_the_home_and_what_a_session_wrote_there(tmp_path: Path, users_machine: Path) -> None:
    first, second = printed(tmp_path), printed(tmp_path)

    assert "history" not in second
    assert "scratch" not in second
    assert [line for line in first.splitlines() if line.startswith("HOME=")] != [
        line for line in second.splitlines() if line.startswith("HOME=")
    ]
    assert [path for path in (tmp_path / "temporary").rglob("*") if not path.name.startswith("sessions-")] == []
    assert sorted(path.name for path in (users_machine / ".codex").iterdir()) == ["auth.json", "notes.md"]


def test_a_session_of_root_has_what_its_cli_needs_for_that(tmp_path: Path) -> None:
    seen = printed(tmp_path, agent="claude")

    assert ("IS_SANDBOX=1" in seen) is (os.geteuid() == 0)


def test_a_session_can_commit(tmp_path: Path) -> None:
    assert printed(tmp_path).splitlines()[-1] == "agent"


def test_variables_that_a_runner_passes_on_reach_the_session_and_are_secret(tmp_path: Path) -> None:
    seen = printed(tmp_path, pass_env=["TEAM_*"], env={"GIVEN": "by the runner"})

    assert "TEAM_NUMBER=team-4711-x" in seen
    assert "GIVEN=by the runner" in seen
    assert redact_text("it is team-4711-x") == "it is ***"


def test_a_session_in_the_users_home_still_gets_no_other_variables(tmp_path: Path, users_machine: Path) -> None:
    seen = printed(tmp_path, home="user")

    assert f"HOME={users_machine}" in seen
    assert "notes.md" in seen
    assert "canary" not in seen


def test_the_home_of_a_killed_process_is_removed_by_the_next(tmp_path: Path) -> None:
    base = tmp_path / "temporary" / f"sessions-{os.getuid()}"
    for name, mark in (("dead", replace(this_process(), pid=999_999_999)), ("alive", this_process())):
        (base / name).mkdir(parents=True)
        (base / f"{name}.owner").write_text(str(mark))

    session(tmp_path)

    assert sorted(path.name for path in base.iterdir()) == ["alive", "alive.owner"]


def test_the_users_home_is_part_of_the_identity_and_the_usual_one_is_not(tmp_path: Path) -> None:
    revisions = {
        str(settings): runner_revision(an_agent(tmp_path, agent="codex", **settings))
        for settings in ({}, {"home": "isolated"}, {"home": "user"}, {"pass_env": ["TEAM_*"]})
    }

    assert revisions["{}"] == revisions["{'home': 'isolated'}"]
    assert len(set(revisions.values())) == 3


def teardown_module() -> None:
    KNOWN.clear()


def test_without_a_key_and_a_login_no_session_is_started(
    tmp_path: Path, users_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cursor-agent").write_text("#!/bin/sh\ntouch started\n")
    (tmp_path / "bin" / "cursor-agent").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.delenv("CURSOR_API_KEY", raising=False)
    runner = an_agent(tmp_path, agent="cursor-agent")

    with pytest.raises(TargetFailure, match="no key and no login") as stopped:
        asyncio.run(Agent(runner).execute(a_call(tmp_path / "files", a_plan(a_case(), runner))))

    failure = stopped.value
    assert (failure.failure.id, failure.closes_runner) == ("authentication", True)
    assert f"none of CURSOR_* is set, and there is no {users_machine}/.cursor/cli-config.json" in str(failure)
    assert not list(tmp_path.rglob("started"))
