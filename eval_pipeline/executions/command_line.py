"""A command setting → the words to run: a list of arguments or a shell line, with placeholders.

This module runs nothing. `shell_line.py` inserts values into a shell line safely.
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
"""`CASE_ID` and `EVAL_ID` are synonyms; `ATTEMPT` counts from 1, `RETRY` from 0 (the first attempt is no retry)."""
_FILE_PART = re.compile(r"\{(path|basename)\}")
_FILES = re.compile(r"(?<!\$)\{FILES\}")
_INSTALLED = (("usr",), ("bin",), ("opt",))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """A program with its arguments (a tuple), or a shell line (a text).

    `files_format` is the form of one attached file in {FILES}, with placeholders `{path}` and `{basename}`.
    """

    command: str | tuple[str, ...]
    files_format: str = "{path}"

    @property
    def names(self) -> frozenset[str]:
        """The placeholders in the command."""
        return frozenset(placeholders(self.command if isinstance(self.command, str) else "\n".join(self.command)))

    def with_last(self, name: str) -> CommandLine:
        """Return the command with a placeholder as its last argument."""
        last = f"{{{name}}}"
        if isinstance(self.command, str):
            return replace(self, command=f"{self.command} {last}")
        return replace(self, command=(*self.command, last))

    def program_files(self, folder: Path) -> dict[str, Path]:
        """Return the files below `folder` that the command names: programs of the project, not installed ones."""
        return {word: folder / word for word in self.shell_words if "{" not in word and _is_content(folder / word)}

    @property
    def shell_words(self) -> Sequence[str]:
        """The words of the command; those of a shell line, its operators among them, as far as they can be told."""
        return _shell_words(self.command) if isinstance(self.command, str) else self.command

    def words(
        self, values: Mapping[str, str], files: Sequence[str], moved: Mapping[str, Path]
    ) -> tuple[list[str], dict[str, str]]:
        """Return the words to run, and the environment variables that a shell line reads its values from.

        `moved` maps words that name a program file to its absolute path, for a run in another folder.
        """
        if isinstance(self.command, str):
            line, variables = self._shell_line(values, files, moved)
            return ["sh", "-c", line], variables
        return [part for word in self.command for part in self._argument(word, values, files, moved)], {}

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
        line = str(self.command)
        variables = {f"PROGRAM_{number}": str(path) for number, path in enumerate(moved.values(), start=1)}
        for name, word in zip(variables, moved, strict=True):
            line = re.sub(rf"(?<![^\s;|&()<>='\"]){re.escape(word)}(?![^\s;|&()<>'\"])", f"{{{name}}}", line)
        for number, path in enumerate(files, start=1):
            variables |= {f"FILE_PATH_{number}": path, f"FILE_BASENAME_{number}": Path(path).name}
        file_list = " ".join(
            _FILE_PART.sub(lambda part, n=number: f"{{FILE_{part[1].upper()}_{n}}}", self.files_format)  # type: ignore[misc]
            for number in range(1, len(files) + 1)
        )
        return fill_shell_line(_FILES.sub(lambda _: file_list, line), {**values, **variables})


def read_command_line(config: Mapping[str, Any], key: str = "command", files_format: str = "{path}") -> CommandLine:
    """Read the command under a key. Raises InputError for another type and for unknown placeholders."""
    command = config.get(key)
    if isinstance(command, str) and command.strip():
        line = CommandLine(command=command, files_format=files_format)
    elif isinstance(command, list) and command and all(isinstance(word, (str, int, float)) for word in command):
        line = CommandLine(command=tuple(map(str, command)), files_format=files_format)
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
    """Split a shell line into words; approximate for lines with complex shell syntax."""
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)
    reader.whitespace_split, reader.commenters = True, ""
    try:
        return list(reader)
    except ValueError:
        return line.split()


def _is_content(path: Path) -> bool:
    """Return whether a word names a file of the project.

    Installed programs (python, node) are identified by their path.
    """
    if path.parts[1:2] in _INSTALLED:
        return False
    try:
        return path.is_file()
    except (OSError, ValueError):  # not a valid file name: an inline script
        return False
