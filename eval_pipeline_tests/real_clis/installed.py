"""Which CLIs are installed here, and which of the programs that a test started still run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from eval_pipeline.executions.program_watcher import all_processes, environment_of
from eval_pipeline_tests.real_clis.install import FOLDER, installed_version


def installed(name: str) -> Path:
    """Return the folder of the installed CLIs; skip the test where this one is not there."""
    folder = os.environ.get(FOLDER)
    if not folder:
        pytest.skip(f"{FOLDER} names no folder of installed CLIs")
    if installed_version(name, Path(folder)) is None:
        pytest.skip(f"{name} is not installed in {folder}")
    return Path(folder)


def left_running(environment: Mapping[str, str]) -> list[str]:
    """Return the command lines of processes with homes below the folder for sessions of a test."""
    mark = f"HOME={environment['EVAL_PIPELINE_SESSIONS']}/".encode()
    return [_command_line(pid) for pid in all_processes() if any(
        variable.startswith(mark) for variable in environment_of(pid).split(b"\0"))]  # fmt: skip


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return str(pid)
