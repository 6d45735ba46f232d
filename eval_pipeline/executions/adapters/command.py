"""`command`: a local program, the prompt given by argument, file or standard input."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from eval_pipeline.errors import InputError, Place
from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters import ADAPTERS, Call
from eval_pipeline.executions.model import RawExecution, Runner, TargetFailure
from eval_pipeline.executions.process import Finished, run_program
from eval_pipeline.executions.prompt import prompt_text
from eval_pipeline.executions.shell_line import fill, fill_shell_line, placeholders
from eval_pipeline.failures import OUTPUT_MISSING, TARGET_CRASH
from eval_pipeline.fingerprints import file_fingerprint

PROMPT_WAYS = ("argument", "stdin", "file")
_PLACEHOLDERS = ("PROMPT", "PROMPT_FILE", "EVAL_ID", "CASE_ID", "SUITE", "ATTEMPT", "REPETITION", "OUTPUT_FILE")
_STDERR_TAIL = 2_000


@ADAPTERS.register("command")
class Command:
    """Runs a program once per case and brings back what it wrote.

    Settings: `command` (a list of arguments, or a shell line), `prompt` (`argument`, `stdin` or `file`; default: the
    placeholder the command uses, else `stdin`), `cwd`, `env`, `format` (the normalizer of its output, default
    `command`), `ok_exit_codes` (default [0]). Placeholders in the command: {PROMPT} {PROMPT_FILE} {CASE_ID} {EVAL_ID}
    {SUITE} {ATTEMPT} {REPETITION} {OUTPUT_FILE}; in a shell line each is one argument, with or without quotes around
    it. When the command names {OUTPUT_FILE}, the answer is read from that file, else from standard output.
    """

    version: ClassVar[str] = "1"
    settings: ClassVar[frozenset[str]] = frozenset(
        {"command", "prompt", "cwd", "env", "format", "ok_exit_codes", "model"}
    )
    default_timeout_s: ClassVar[float] = 600.0
    retries_timeouts: ClassVar[bool] = False

    def __init__(self, runner: Runner) -> None:
        given = runner.settings
        command = _command(given)
        self._cwd = (runner.folder / (settings.optional_text(given, "cwd") or ".")).resolve()
        self._env = settings.texts(given, "env")
        self._format = settings.optional_text(given, "format") or "command"
        self._ok = _exit_codes(given)
        named = placeholders(command if isinstance(command, str) else "\n".join(command))
        implied = "argument" if "PROMPT" in named else "file" if "PROMPT_FILE" in named else "stdin"
        self._prompt = settings.choice(given, "prompt", PROMPT_WAYS, implied)
        if self._prompt == "file" and "PROMPT_FILE" not in named:
            raise InputError("the command does not say {PROMPT_FILE}, where the prompt would be", Place(field="prompt"))
        self._reads_file = "PROMPT_FILE" in named
        self._writes_file = "OUTPUT_FILE" in named
        if self._prompt == "argument" and "PROMPT" not in named:
            command = f"{command} {{PROMPT}}" if isinstance(command, str) else [*command, "{PROMPT}"]
        self._command = command

    def content(self) -> Mapping[str, str]:
        """The program files that the command names: editing one makes its answers new."""
        words = _shell_words(self._command) if isinstance(self._command, str) else self._command
        files = {word: self._cwd / word for word in words if "{" not in word}
        return {word: file_fingerprint(path) for word, path in files.items() if _is_content(path)}

    async def execute(self, call: Call) -> RawExecution:
        folder = call.folder
        folder.mkdir(parents=True, exist_ok=True)
        prompt = prompt_text(call.plan.case)
        if self._reads_file:
            (folder / "prompt.txt").write_text(prompt, encoding="utf-8", errors="replace")
        (folder / "output").unlink(missing_ok=True)  # what an interrupted run of this sweep left is no answer
        words, variables = self._arguments(call, prompt)
        stdin = prompt.encode(errors="replace") if self._prompt == "stdin" else None
        try:
            finished = await run_program(
                words,
                folder=folder,
                cwd=self._cwd,
                env={**os.environ, **self._env, **variables},
                stdin=stdin,
            )
        except (OSError, ValueError) as error:
            too_long = isinstance(error, OSError) and error.errno == errno.E2BIG
            cure = "; give the prompt by stdin or file" if too_long else ""
            raise TargetFailure(TARGET_CRASH, f"cannot be started: {error}{cure}") from error
        raw = self._raw(finished, folder)
        self._check(finished, raw)
        return raw

    async def close(self) -> None:
        return None

    def _arguments(self, call: Call, prompt: str) -> tuple[list[str], dict[str, str]]:
        """The words of the command, and the environment variables that a shell line reads its values from."""
        plan = call.plan
        values = {
            "PROMPT": prompt,
            "PROMPT_FILE": str(call.folder / "prompt.txt"),
            "EVAL_ID": plan.case.id,
            "CASE_ID": plan.case.id,
            "SUITE": plan.suite,
            "ATTEMPT": str(call.attempt),
            "REPETITION": str(plan.repetition),
            "OUTPUT_FILE": str(call.folder / "output"),
        }
        if isinstance(self._command, str):
            line, variables = fill_shell_line(self._command, values)
            return ["sh", "-c", line], variables
        return [fill(word, values) for word in self._command], {}

    def _raw(self, finished: Finished, folder: Path) -> RawExecution:
        files = {"stdout": finished.stdout, "stderr": finished.stderr}
        if self._writes_file and (folder / "output").is_file():
            files["output"] = folder / "output"
        return RawExecution(format=self._format, files=files, exit_code=finished.exit_code)

    def _check(self, finished: Finished, raw: RawExecution) -> None:
        if finished.exit_code not in self._ok:
            tail = _tail(finished.stderr)
            ended = f"exit code {finished.exit_code}" if finished.exit_code >= 0 else f"signal {-finished.exit_code}"
            raise TargetFailure(TARGET_CRASH, f"{ended}{': ' + tail if tail else ''}", raw=raw)
        if self._writes_file and "output" not in raw.files:
            raise TargetFailure(OUTPUT_MISSING, "the program ended without writing {OUTPUT_FILE}", raw=raw)


def _command(given: Mapping[str, Any]) -> str | list[str]:
    command = given.get("command")
    if isinstance(command, str) and command.strip():
        _check_placeholders(command)
        return command
    if isinstance(command, list) and command and all(isinstance(word, (str, int, float)) for word in command):
        words = [str(word) for word in command]
        for word in words:
            _check_placeholders(word)
        return words
    raise InputError("expected a program with its arguments (a list), or a shell line", Place(field="command"))


def _check_placeholders(text: str) -> None:
    for name in placeholders(text):
        if name not in _PLACEHOLDERS:
            known = ", ".join(f"{{{known}}}" for known in _PLACEHOLDERS)
            raise InputError(f"unknown placeholder {{{name}}}; there are: {known}", Place(field="command"))


def _shell_words(line: str) -> list[str]:
    """The words of a shell line, roughly when it holds what only a shell can read."""
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _tail(path: Path) -> str:
    """The end of a file as text, however large the file."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _STDERR_TAIL))
        return file.read().decode(errors="replace").strip()


def _exit_codes(given: Mapping[str, Any]) -> frozenset[int]:
    codes = given.get("ok_exit_codes", [0])
    if not isinstance(codes, list) or not all(isinstance(code, int) for code in codes):
        raise InputError("expected a list of exit codes", Place(field="ok_exit_codes"))
    return frozenset(codes)


def _is_content(path: Path) -> bool:
    """Whether a word names a file of the project; programs outside (python, node) are known by their path already."""
    if path.parts[1:2] in (("usr",), ("bin",), ("opt",)):
        return False
    try:
        return path.is_file()
    except (OSError, ValueError):  # a word that can be no name: a script on the command line
        return False
