"""Sessions that a CLI keeps in a database of its own: its commands print one as text, and take it in again."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_pipeline.agents.agent_cli import AgentCli
from eval_pipeline.agents.launching import SESSION
from eval_pipeline.errors import InputError
from eval_pipeline.executions import settings
from eval_pipeline.executions.model import Runner

EXPORT = "exported-session.json"
"""The place of an exported session in the CLI's folder."""
FILE = "{FILE}"
"""In the words that take a session in: its file."""
_TIME_LIMIT_S = 60.0


def exported_session(
    cli: AgentCli, runner: Runner, session_id: str, environment: Mapping[str, str], cwd: Path
) -> bytes | None:
    """Return a session as its CLI prints it; None where the CLI cannot. `runner` is the one of the command."""
    words = [word.replace(SESSION, session_id) for word in cli.exports]
    done = _called(cli, runner, words, environment, cwd) if words else None
    return done.stdout if done is not None and done.returncode == 0 and done.stdout.strip() else None


def import_session(cli: AgentCli, runner: Runner, file: Path, environment: Mapping[str, str], cwd: Path) -> None:
    """Let a CLI take in an exported session. Raises InputError."""
    words = [word.replace(FILE, str(file)) for word in cli.imports]
    done = _called(cli, runner, words, environment, cwd)
    if done is None or done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip()[-200:] if done is not None else "it did not run"
        raise InputError(f"{cli.name} cannot take in the kept session: {why}")


def _called(
    cli: AgentCli, runner: Runner, words: Sequence[str], environment: Mapping[str, str], cwd: Path
) -> subprocess.CompletedProcess[bytes] | None:
    """Call the program of a command with other words; None where it cannot be called, or takes too long."""
    given, base = runner.settings, runner.folder / (settings.optional_text(runner.settings, "cwd") or ".")
    program = _program(cli, given, base.absolute())
    if program is None:
        return None
    variables = {**environment, **settings.texts(given, "env")}
    try:
        return subprocess.run(
            [*program, *words], cwd=cwd, env=variables, stdin=subprocess.DEVNULL, capture_output=True, check=False,
            timeout=_TIME_LIMIT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None


def _program(cli: AgentCli, given: Mapping[str, Any], base: Path) -> list[str] | None:
    """Return the words that start the program, with those that are put before it; None where they depend on a case.
    Relative paths begin at `base`."""
    command = [str(word) for word in given["command"]]
    at = next((at for at, word in enumerate(command) if Path(word).name == cli.executable), 0)
    words = command[: at + 1]
    if any("{" in word for word in words):
        return None
    return [str(base / word) if "/" in word else word for word in words]
