"""Programs end with the process that started them, even when it is killed; no other program does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eval_pipeline.executions.program_watcher import all_processes, environment_of
from eval_pipeline.executions.started_programs import OWNER, end_orphans, end_own, marked, owner_variables
from eval_pipeline.processes import ProcessMark, this_process

PIPELINE = """
import asyncio, os, sys, threading
from pathlib import Path
from eval_pipeline.executions import started_programs
from eval_pipeline.executions.process import run_program

if sys.argv[2] == "without a watcher":
    started_programs._start_watcher = lambda mark: None

def sweep():
    with started_programs.marked(Path("data")):
        asyncio.run(run_program(["sh", "-c", GRANDCHILDREN], folder=Path("out"), cwd=Path()))

GRANDCHILDREN = "setsid sleep 300 & sleep 300 & env -i sleep 300 & echo $$ > begun.part; mv begun.part begun; wait"
threading.Thread(target=sweep).start()
"""
"""A pipeline whose program, started in a thread, has three children: in a session of its own, in its group, and one
without an environment."""


@pytest.fixture
def pipeline(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """A pipeline in a process of its own whose program runs."""
    trace = {**os.environ, "TRACE": str(tmp_path)}
    command = [sys.executable, "-c", PIPELINE, "", getattr(request, "param", "")]
    with subprocess.Popen(command, cwd=tmp_path, env=trace) as process:
        try:
            wait_until((tmp_path / "begun").exists)
            yield process
        finally:
            process.kill()
            for pid in left_of(tmp_path):
                os.kill(pid, signal.SIGKILL)


def wait_until(happened: Callable[[], bool], patience_s: float = 20.0) -> None:
    deadline = time.monotonic() + patience_s
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def left_of(folder: Path) -> list[int]:
    """Return the processes of a pipeline in a folder: by its trace, and those that work there."""
    trace = f"TRACE={folder}".encode()
    return [pid for pid in all_processes() if trace in environment_of(pid) or _works_in(pid, folder)]


def _works_in(pid: int, folder: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == folder
    except OSError:
        return False


def test_programs_and_theirs_end_with_a_killed_process(pipeline: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert len(left_of(tmp_path)) >= 5

    pipeline.kill()
    pipeline.wait()

    wait_until(lambda: not left_of(tmp_path))


@pytest.mark.parametrize("pipeline", ["without a watcher"], indirect=True)
def test_what_nobody_watched_ends_with_the_next_sweep_of_its_data_folder(
    pipeline: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    assert end_orphans(tmp_path / "data") == 0  # its pipeline is there
    pipeline.kill()
    pipeline.wait()

    assert end_orphans(tmp_path / "other") == 0
    assert len(left_of(tmp_path)) >= 4
    assert end_orphans(tmp_path / "data") >= 3
    wait_until(lambda: not left_of(tmp_path))


def test_programs_of_this_process_end_on_request_and_no_others() -> None:
    other = ProcessMark(host="elsewhere", boot="", namespace="", pid=1, start="1")
    environments = [owner_variables(), {OWNER: f"{other}|"}]
    own, foreign = [subprocess.Popen(["sleep", "60"], env=environment) for environment in environments]

    end_own()

    assert own.wait(10) == -signal.SIGKILL
    assert foreign.poll() is None
    foreign.kill()
    foreign.wait()


def test_the_environment_is_marked_for_a_data_folder_and_then_as_before(tmp_path: Path) -> None:
    with marked(tmp_path):
        assert os.environ[OWNER].startswith(f"{this_process()}|")
        assert owner_variables() == {OWNER: os.environ[OWNER]}
    assert OWNER not in os.environ
