"""What a user writes as a command → the words to run: a list of arguments or a shell line, with placeholders.

Nothing is run here. How values get into a shell line unharmed is in `shell_line.py`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation, did_you_mean
from eval_pipeline.executions.shell_line import fill, fill_shell_line, placeholders

PLACEHOLDERS = (
    "PROMPT", "PROMPT_FILE", "CASES_FILE", "FILES", "CASE_ID", "EVAL_ID", "SUITE", "REPETITION", "ATTEMPT", "RETRY",
    "OUTPUT_FILE",
)  # fmt: skip
"""`CASE_ID` and `EVAL_ID` are one; `ATTEMPT` counts from 1, `RETRY` from 0 (the first attempt is no retry)."""
_FILE_PART = re.compile(r"\{(path|basename)\}")
_FILES = re.compile(r"(?<!\$)\{FILES\}")
_INSTALLED = (("usr",), ("bin",), ("opt",))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """A program with its arguments (a tuple), or a line for the shell (a text).

    `files_format` is what stands for one attached file where the command says {FILES}: `{path}` and `{basename}` in
    it are filled in.
    """

    written: str | tuple[str, ...]
    files_format: str = "{path}"

    @property
    def names(self) -> frozenset[str]:
        """The placeholders that it uses."""
        return frozenset(placeholders(self.written if isinstance(self.written, str) else "\n".join(self.written)))

    def with_last(self, name: str) -> CommandLine:
        """The same with a placeholder as its last argument."""
        last = f"{{{name}}}"
        if isinstance(self.written, str):
            return replace(self, written=f"{self.written} {last}")
        return replace(self, written=(*self.written, last))

    def program_files(self, folder: Path) -> dict[str, Path]:
        """The files below `folder` that its words name: programs of the project, not those installed elsewhere."""
        words = _shell_words(self.written) if isinstance(self.written, str) else self.written
        return {word: folder / word for word in words if "{" not in word and _is_content(folder / word)}

    def words(
        self, values: Mapping[str, str], files: Sequence[str], moved: Mapping[str, Path]
    ) -> tuple[list[str], dict[str, str]]:
        """The words to run, and the environment variables that a shell line reads its values from.

        `moved` are words that name a file which is elsewhere, seen from where the program runs.
        """
        if isinstance(self.written, str):
            line, variables = self._shell_line(values, files, moved)
            return ["sh", "-c", line], variables
        return [part for word in self.written for part in self._argument(word, values, files, moved)], {}

    def _argument(
        self, word: str, values: Mapping[str, str], files: Sequence[str], moved: Mapping[str, Path]
    ) -> Iterable[str]:
        if word in moved:
            return [str(moved[word])]
        if word == "{FILES}":
            return [_file_text(part, path) for path in files for part in shlex.split(self.files_format)]
        return [fill(word, {**values, "FILES": " ".join(_file_text(self.files_format, path) for path in files)})]

    def _shell_line(
        self, values: Mapping[str, str], files: Sequence[str], moved: Mapping[str, Path]
    ) -> tuple[str, dict[str, str]]:
        line = str(self.written)
        own = {f"PROGRAM_{number}": str(path) for number, path in enumerate(moved.values(), start=1)}
        for name, word in zip(own, moved, strict=True):
            line = re.sub(rf"(?<![^\s;|&()<>='\"]){re.escape(word)}(?![^\s;|&()<>'\"])", f"{{{name}}}", line)
        for number, path in enumerate(files, start=1):
            own |= {f"FILE_PATH_{number}": path, f"FILE_BASENAME_{number}": Path(path).name}
        shown = " ".join(
            _FILE_PART.sub(lambda part, n=number: f"{{FILE_{part[1].upper()}_{n}}}", self.files_format)  # type: ignore[misc]
            for number in range(1, len(files) + 1)
        )
        return fill_shell_line(_FILES.sub(lambda _: shown, line), {**values, **own})


def read_command_line(given: Mapping[str, Any], key: str = "command", files_format: str = "{path}") -> CommandLine:
    """The command under a key of some settings. Raises InputError for what is none, and for unknown placeholders."""
    command = given.get(key)
    if isinstance(command, str) and command.strip():
        line = CommandLine(written=command, files_format=files_format)
    elif isinstance(command, list) and command and all(isinstance(word, (str, int, float)) for word in command):
        line = CommandLine(written=tuple(map(str, command)), files_format=files_format)
    else:
        raise InputError("expected a program with its arguments (a list), or a shell line", SourceLocation(field=key))
    for name in sorted(line.names.difference(PLACEHOLDERS)):
        known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
        hint = did_you_mean(name, PLACEHOLDERS)
        raise InputError(f"unknown placeholder {{{name}}}; there are: {known}{hint}", SourceLocation(field=key))
    return line


def _file_text(template: str, path: str) -> str:
    values = {"path": path, "basename": Path(path).name}
    return _FILE_PART.sub(lambda part: values[part[1]], template)


def _shell_words(line: str) -> list[str]:
    """The words of a shell line, roughly when it holds what only a shell can read."""
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)
    reader.whitespace_split, reader.commenters = True, ""
    try:
        return list(reader)
    except ValueError:
        return line.split()


def _is_content(path: Path) -> bool:
    """Whether a word names a file of the project; programs outside (python, node) are known by their path already."""
    if path.parts[1:2] in _INSTALLED:
        return False
    try:
        return path.is_file()
    except (OSError, ValueError):  # a word that can be no name: a script on the command line
        return False
