"""The command of a suite's author: which program, where it runs, which files it is made of, and running it.

A program that cannot be started, or takes too long, brought no score: that is a GraderFailure.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.executions.process import run_program
from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.parsing.file_search import NotFound, search_roots
from eval_pipeline.scores.grader_client import GraderFailure

DEFAULT_TIMEOUT_S = 300.0
STDERR_CHARS = 2_000
STDOUT_BYTES = 10_000_000
_SHELL = ("sh", "-lc")
_INTERPRETERS = ("python", "node", "bun", "deno", "sh", "bash", "ruby", "perl", "tsx")
_SCRIPTS = frozenset({".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".sh", ".rb", ".pl"})
_STAND_INS = ((("python3",), sys.executable), (("bun", "run"), "node"))


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A program that ended: its exit code, what it printed, and the end of what it complained of."""

    exit_code: int
    stdout: str
    stderr: str


def argv_of(command: Any) -> tuple[str, ...]:
    """The arguments of a command: a list of texts as it is, a text through the shell. Raises ValueError for others."""
    if isinstance(command, str) and command.strip():
        return (*_SHELL, command)
    if isinstance(command, (list, tuple)) and command and all(isinstance(word, str) for word in command):
        return tuple(command)
    raise ValueError("command: expected a command line (a text) or a list of its arguments (texts)")


def program_folder(cwd: str | None, folder: Path) -> Path:
    """Where a program runs: the suite's folder, or `cwd` along its search roots. Raises InputError."""
    if cwd is None:
        return folder.absolute()
    try:
        found = search_roots(folder).file_or_folder(cwd)
    except NotFound as error:
        raise InputError(str(error), SourceLocation(field="cwd")) from None
    if not found.is_dir():
        raise InputError(f"'{cwd}' is no folder", SourceLocation(field="cwd"))
    return found


def command_content(argv: Sequence[str], cwd: Path) -> Mapping[str, str]:
    """Fingerprints of the files that a command names, by the word that names them.

    Raises InputError when the script that an interpreter is to run is not there.
    """
    script = _script(argv)
    if script is not None and not (cwd / script).is_file():
        raise InputError(f"no file '{script}' in {cwd}", SourceLocation(field="command"))
    return {word: file_fingerprint(path) for word, path in _named_files(argv, cwd)}


def _script(argv: Sequence[str]) -> str | None:
    """The script that is plainly what an interpreter is given to run."""
    if len(argv) < 2 or not Path(argv[0]).name.startswith(_INTERPRETERS):
        return None
    return argv[1] if Path(argv[1]).suffix in _SCRIPTS and not argv[1].startswith("-") else None


def _named_files(argv: Sequence[str], cwd: Path) -> Iterator[tuple[str, Path]]:
    """The files among the words of a command, those of a command line too; a program that is no text is left out."""
    for index, word in enumerate(_words(argv)):
        try:
            path = cwd / word
            if path.is_file() and not (index == 0 and _is_binary(path)):
                yield word, path
        except (OSError, ValueError):
            continue  # what cannot be the name of a file is none


def _words(argv: Sequence[str]) -> Sequence[str]:
    if tuple(argv[:2]) != _SHELL:
        return argv
    try:
        return shlex.split(argv[2])
    except ValueError:
        return argv[2].split()


def _is_binary(path: Path) -> bool:
    with path.open("rb") as file:
        return b"\0" in file.read(1_024)


async def run_command(
    argv: Sequence[str],
    *,
    cwd: Path,
    scratch: Path,
    stdin: bytes,
    env: Mapping[str, str],
    timeout_s: float | None,
) -> CommandResult:
    """Runs a command to its end; `env` goes over the pipeline's own environment. Raises GraderFailure.

    `scratch` takes its output. A script whose `python3` or `bun` is not to be found here is run by our own Python or by
    node. When the time limit passes, the program and everything it started is ended.
    """
    limit = DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s
    try:
        async with asyncio.timeout(limit):
            finished = await run_program(
                _as_found_here(argv), folder=scratch, cwd=cwd, env={**os.environ, **env}, stdin=stdin
            )
    except TimeoutError:
        raise GraderFailure(f"{shown(argv)} took longer than {limit:g} s and was ended") from None
    except (OSError, ValueError) as error:
        raise GraderFailure(f"{shown(argv)} cannot be started: {error}") from error
    if finished.stdout.stat().st_size > STDOUT_BYTES:
        raise GraderFailure(f"{shown(argv)} printed more than {STDOUT_BYTES:,} bytes")
    stderr = finished.stderr.read_bytes()[-4 * STDERR_CHARS :].decode("utf-8", "replace")
    return CommandResult(
        finished.exit_code, finished.stdout.read_bytes().decode("utf-8", "replace"), stderr[-STDERR_CHARS:]
    )


def _as_found_here(argv: Sequence[str]) -> Sequence[str]:
    """A command with another interpreter for its script, where the one it names is not installed."""
    for words, instead in _STAND_INS:
        rest = argv[len(words) :]
        if tuple(argv[: len(words)]) == words and rest and Path(rest[0]).suffix in _SCRIPTS:
            return argv if shutil.which(words[0]) else (instead, *rest)
    return argv


def shown(argv: Sequence[str]) -> str:
    """A command as messages show it."""
    text = argv[2] if tuple(argv[:2]) == _SHELL else shlex.join(argv)
    return f"`{text if len(text) <= 100 else text[:99] + '…'}`"
