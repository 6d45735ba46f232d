"""Folders of sessions: the next sweep of any project ends what a killed one left there, then removes them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from eval_pipeline.executions.session_folders import SESSIONS_VARIABLE, claim_folder, release_folder, remove_abandoned
from eval_pipeline_tests.forks import start_python
from eval_pipeline_tests.sweeps.sample_project import make_project

KILLED = """
import asyncio, sys
from pathlib import Path
from eval_pipeline.executions import started_programs
from eval_pipeline.executions.process import run_program
from eval_pipeline.executions.session_folders import session_folder

started_programs._start_watcher = lambda mark: None
notes = sys.argv[1]
with session_folder() as folder:
    line = f"echo $$ {folder} > {notes}/part; mv {notes}/part {notes}/begun; while [ -d {folder} ]; do :; done"
    agent = ["sh", "-c", line + f"; touch {notes}/outlived"]
    asyncio.run(run_program(agent, folder=Path(notes, "out"), cwd=folder))
"""
"""A sweep that nobody watches; its agent would notice that its folder is gone."""


@pytest.fixture(autouse=True)
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(SESSIONS_VARIABLE, str(tmp_path))
    return tmp_path / f"sessions-{os.getuid()}"


def wait_until(happened: Callable[[], bool], patience_s: float = 20.0) -> None:
    deadline = time.monotonic() + patience_s
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def test_the_next_sweep_ends_the_agent_of_a_killed_one_before_it_removes_its_folder(
    tmp_path: Path, sessions: Path
) -> None:
    store = make_project(tmp_path / "another project").session().store
    with start_python(KILLED, str(tmp_path)) as sweep:
        wait_until((tmp_path / "begun").exists)
        os.kill(sweep.pid, signal.SIGKILL)
        sweep.wait()
    pid, folder = (tmp_path / "begun").read_text().split()
    assert is_running(int(pid))
    assert Path(folder).is_dir()

    with store.exclusive():
        wait_until(lambda: not is_running(int(pid)))

    assert not Path(folder).exists()
    assert not (tmp_path / "outlived").exists()
    assert list(sessions.iterdir()) == []


def test_folders_of_running_processes_and_those_being_made_stay(sessions: Path) -> None:
    folder = claim_folder()
    made = sessions / "being-made.owner"
    made.touch()

    remove_abandoned()

    assert folder.is_dir()
    assert made.exists()
    release_folder(folder)
    os.utime(made, (0, 0))
    remove_abandoned()
    assert list(sessions.iterdir()) == []


def test_write_protected_folders_of_sessions_are_removed(sessions: Path) -> None:
    folder = claim_folder()
    (folder / "cache" / "inner").mkdir(parents=True)
    (folder / "cache").chmod(0o500)

    release_folder(folder)

    assert list(sessions.iterdir()) == []
