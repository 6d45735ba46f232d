"""Commands of a suite's author: their arguments, folder and files, and their execution.

A program that cannot be started or exceeds its time limit yields no score: a GraderFailure.
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.executions.output_guard import OutputLimitExceeded
from eval_pipeline.executions.process import run_program
from eval_pipeline.parsing.file_search import NotFound, is_file, search_roots
from eval_pipeline.parsing.imports import cached_fingerprint, import_fingerprints
from eval_pipeline.parsing.interpolation import read_environment
from eval_pipeline.scores.grader_client import GraderFailure

DEFAULT_TIMEOUT_S = 300.0
STDERR_CHARS = 2_000
_SHELL = ("sh", "-lc")
_INTERPRETERS = ("python", "node", "bun", "deno", "sh", "bash", "ruby", "perl", "tsx")
_SCRIPTS = frozenset({".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".sh", ".rb", ".pl"})
_STAND_INS = ((("python3",), sys.executable), (("bun", "run"), "node"))


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A program that ended: its exit code, standard output, and the end of its standard error."""

    exit_code: int
    stdout: str
    stderr: str


def argv_of(command: Any) -> tuple[str, ...]:
    """Return the arguments of a command: a list as it is, a text through the shell.

    Raises ValueError for other types.
    """
    if isinstance(command, str) and command.strip():
        return (*_SHELL, command)
    if isinstance(command, (list, tuple)) and command and all(isinstance(word, str) for word in command):
        return tuple(command)
    raise ValueError("command: expected a command line (a text) or a list of its arguments (texts)")


def program_folder(cwd: str | None, folder: Path) -> Path:
    """Return a program's working directory: the suite's folder, or `cwd` along its search roots. Raises InputError."""
    if cwd is None:
        return folder.absolute()
    try:
        path = search_roots(folder).file_or_folder(cwd)
    except NotFound as error:
        raise InputError(str(error), SourceLocation(field="cwd")) from None
    if not path.is_dir():
        raise InputError(f"'{cwd}' is not a folder", SourceLocation(field="cwd"))
    return path


def command_content(argv: Sequence[str], cwd: Path, roots: Sequence[Path] = ()) -> Mapping[str, str]:
    """Return fingerprints of the files that a command names, by the naming word, and of what they import from the
    working directory and `roots`, by path; a module of `python -m` is a file that it names.

    Raises InputError when the script for an interpreter does not exist.
    """
    script = _script(argv)
    if script is not None and not is_file(cwd / script):
        raise InputError(f"no file '{script}' in {cwd}", SourceLocation(field="command"))
    named = {**dict(_named_files(argv, cwd)), **dict(_named_modules(argv, cwd))}
    imported = import_fingerprints(named.values(), (cwd, *roots))
    return {**imported, **{word: cached_fingerprint(path) for word, path in named.items()}}


def _script(argv: Sequence[str]) -> str | None:
    """Return the script in a command that consists of an interpreter (`bun`, `bun run`) and a script, else None."""
    if not argv or not Path(argv[0]).name.startswith(_INTERPRETERS):
        return None
    word = next((word for index, word in enumerate(argv[1:]) if index or word != "run"), "")
    return word if Path(word).suffix in _SCRIPTS and not word.startswith("-") else None


def _named_files(argv: Sequence[str], cwd: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files among the words of a command or command line; a binary program is skipped."""
    for index, word in enumerate(_words(argv)):
        try:
            path = cwd / word
            if path.is_file() and not (index == 0 and _is_binary(path)):
                yield word, path
        except (OSError, ValueError):
            continue  # not a valid file name


def _named_modules(argv: Sequence[str], cwd: Path) -> Iterator[tuple[str, Path]]:
    """Yield the modules of the working directory that a command runs by `-m`."""
    words = list(_words(argv))
    for option, word in pairwise(words):
        file = cwd.joinpath(*word.split("."))
        for path in (file.with_suffix(".py"), file / "__main__.py") if option == "-m" else ():
            if is_file(path):
                yield f"-m {word}", path


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
    inherited: Mapping[str, str] | None = None,
) -> CommandResult:
    """Run a command to its end; `env` extends the environment, with the nearest `.env`, or `inherited` in their place.
    Raises GraderFailure.

    `scratch` is the folder for its output. If a script's `python3` or `bun` is not installed, our own Python or node
    runs it. At the time limit the program and its child processes are killed.
    """
    limit = DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s
    try:
        async with asyncio.timeout(limit):
            completed = await run_program(
                _with_installed_interpreter(argv),
                folder=scratch,
                cwd=cwd,
                env={**(read_environment(cwd) if inherited is None else inherited), **env},
                stdin=stdin,
            )
    except TimeoutError:
        raise GraderFailure(f"{command_text(argv)} took longer than {limit:g} s and was ended") from None
    except OutputLimitExceeded as error:
        raise GraderFailure(f"{command_text(argv)}: {error}") from None
    except (OSError, ValueError) as error:
        raise GraderFailure(f"{command_text(argv)} cannot be started: {error}") from error
    stdout = completed.stdout.read_bytes().decode("utf-8", "replace")
    return CommandResult(completed.exit_code, stdout, _end(completed.stderr)[-STDERR_CHARS:])


def _end(path: Path) -> str:
    """Return the end of a file as text."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4 * STDERR_CHARS))
        return file.read().decode("utf-8", "replace")


def _with_installed_interpreter(argv: Sequence[str]) -> Sequence[str]:
    """Replace a script's interpreter if it is not installed."""
    for words, substitute in _STAND_INS:
        rest = argv[len(words) :]
        if tuple(argv[: len(words)]) == words and rest and Path(rest[0]).suffix in _SCRIPTS:
            return argv if shutil.which(words[0]) else (substitute, *rest)
    return argv


def command_text(argv: Sequence[str]) -> str:
    """Return a command as shown in messages."""
    text = argv[2] if tuple(argv[:2]) == _SHELL else shlex.join(argv)
    return f"`{text if len(text) <= 100 else text[:99] + '…'}`"
