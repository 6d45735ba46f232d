"""The real `agentv` command: found on the PATH or named by `AGENTV_COMMAND`, and what it says of a project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

RELEASE = "4.42"


def agentv_command() -> str:
    """Return the command. Skips the test where none, or one of another release, is installed."""
    command = os.environ.get("AGENTV_COMMAND") or shutil.which("agentv")
    if command is None:
        pytest.skip(f"no agentv {RELEASE} on the PATH (npm install agentv@{RELEASE}.4), and AGENTV_COMMAND is not set")
    version = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=60).stdout.strip()
    if not version.startswith(f"{RELEASE}."):
        pytest.skip(f"agentv {version} is not {RELEASE}")
    return command


def agentv_rows(command: str, project: Path, suite: str) -> list[dict[str, Any]]:
    """Return the rows of `index.jsonl` of one run."""
    home = project / ".agentv-home"
    environment = {**os.environ, "AGENTV_HOME": str(home), "NO_COLOR": "1"}
    arguments = [command, "eval", "run", suite, "--workers", "4", "--output", "agentv-run"]
    ran = subprocess.run(arguments, cwd=project, env=environment, capture_output=True, text=True, timeout=300)
    index = project / "agentv-run" / "index.jsonl"
    assert index.is_file(), ran.stdout + ran.stderr
    return [json.loads(line) for line in index.read_text().splitlines()]
