"""Install the coding-agent CLIs that tests drive: `python -m eval_pipeline_tests.real_clis.install [FOLDER] [NAME …]`.

Each goes into a folder of its own below FOLDER (default: `$AGENT_CLIS`, else `~/.cache/agent-clis`), at the version of
the recordings. One that cannot be installed is reported, and the others are installed. Needs npm; 1.7 GB in all.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

FOLDER = "AGENT_CLIS"
"""Names the folder of the installed CLIs; the tests that drive them are skipped without it."""
PACKAGES: Mapping[str, tuple[str, str]] = {
    "codex": ("@openai/codex", "0.169.0"),
    "claude": ("@anthropic-ai/claude-code", "2.1.330"),
    "copilot": ("@github/copilot", "1.0.102"),
    "gemini": ("@google/gemini-cli", "0.61.0"),
    "opencode": ("opencode-ai", "1.18.33"),
    "pi": ("@mariozechner/pi-coding-agent", "0.73.1"),
    "qwen": ("@qwen-code/qwen-code", "0.15.10"),
}
_TIME_LIMIT_S = 600.0


def program_of(name: str, folder: Path) -> Path:
    """Return where the program of a CLI is once it is installed."""
    return folder / name / "node_modules" / ".bin" / name


def installed_version(name: str, folder: Path) -> str | None:
    """Return the version of an installed CLI; None for one that is not there."""
    manifest = folder / name / "node_modules" / PACKAGES[name][0] / "package.json"
    if not program_of(name, folder).exists() or not manifest.is_file():
        return None
    return str(json.loads(manifest.read_text("utf-8"))["version"])


def install(name: str, folder: Path) -> str | None:
    """Install one CLI; return the problem, None when it is there."""
    package, version = PACKAGES[name]
    if installed_version(name, folder) == version:
        return None
    if shutil.which("npm") is None:
        return "npm is not on the PATH"
    (folder / name).mkdir(parents=True, exist_ok=True)
    command = ["npm", "install", "--prefix", ".", "--no-audit", "--no-fund", "--loglevel=error", f"{package}@{version}"]
    try:
        done = subprocess.run(
            command, cwd=folder / name, capture_output=True, text=True, timeout=_TIME_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"npm did not end within {_TIME_LIMIT_S:g} s"
    if done.returncode or installed_version(name, folder) != version:
        return (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}")[-500:]
    return None


def main(arguments: list[str]) -> int:
    """Install all CLIs, or those named; return how many could not be."""
    named = [argument for argument in arguments if argument in PACKAGES]
    folders = [argument for argument in arguments if argument not in PACKAGES]
    folder = Path(folders[0] if folders else os.environ.get(FOLDER) or "~/.cache/agent-clis").expanduser().absolute()
    problems = 0
    for name in named or PACKAGES:
        problem = install(name, folder)
        problems += problem is not None
        print(f"{name} {PACKAGES[name][1]}: {problem or 'installed'}", flush=True)
    return problems


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
