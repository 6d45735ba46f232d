"""What a machine must have before a workspace is prepared: commands on the PATH, Python modules."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator

from eval_pipeline.suites.workspace import Requirements

_IMPORT_S = 60.0


def missing(requirements: Requirements) -> tuple[str, ...]:
    """Return what this machine lacks, each with its kind. Blocks while `python3` imports the modules."""
    return tuple(_missing(requirements))


def _missing(requirements: Requirements) -> Iterator[str]:
    yield from (f"command '{name}'" for name in requirements.commands if shutil.which(name) is None)
    python = shutil.which("python3") or sys.executable
    for module in requirements.python_modules:
        if not _imports(python, module):
            yield f"Python module '{module}'"


def _imports(python: str, module: str) -> bool:
    command = [python, "-c", "import importlib, sys; importlib.import_module(sys.argv[1])", module]
    try:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_IMPORT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0
