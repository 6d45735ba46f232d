"""Prompts in the suite author's words: inline, from a file, or printed by a program of the author.

`{{ name }}` is replaced once, by the texts of the context; an unknown name stays unchanged. Judged texts are fenced
wherever a template puts them; criteria and metadata are the author's own words and are not fenced. A program receives
the texts plain and fenced and chooses.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.file_search import NotFound, is_file, search_roots
from eval_pipeline.scores.grader_client import GraderFailure
from eval_pipeline.scores.grading.context import TEXTS, GraderContext, metadata_value
from eval_pipeline.scores.programs.command import argv_of, command_text, program_folder, run_command
from eval_pipeline.scores.programs.payload import Shape, grading_payload

FILE_PREFIX = "file://"
_PROMPT = SourceLocation(field="prompt")
_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_][\w.-]*)\s*\}\}")
_OLD_NAMES = {"input_text": "input", "output_text": "output", "expected_output_text": "expected_output"}
_ANSWER_NAMES = frozenset(TEXTS) - {"input"}
_FILE_NAME = re.compile(r"\S+\.(?:md|markdown|txt|prompt|j2|jinja2?|njk)\Z")


def with_prompt(arguments: Any) -> Any:
    """Return arguments with `prompt` in place of its other name, `prompt_template`, and `command` of its `script`.

    Raises ValueError when both names of one of them are given.
    """
    if not isinstance(arguments, Mapping):
        return arguments
    named = _renamed(arguments, "prompt_template", "prompt", "")
    if isinstance(named.get("prompt"), Mapping):
        named = {**named, "prompt": _renamed(named["prompt"], "script", "command", "prompt: ")}
    return named


def _renamed(arguments: Mapping[str, Any], other: str, name: str, where: str) -> Mapping[str, Any]:
    if other not in arguments:
        return arguments
    if name in arguments:
        raise ValueError(f"{where}{name} and {other} have the same meaning; use one of them")
    return {name if key == other else key: value for key, value in arguments.items()}


def fill_template(template: str, material: GraderContext, criteria: str = "") -> str:
    """Replace the variables of a template in one pass, so that text inside a value is never replaced."""

    def value(match: re.Match[str]) -> str:
        name = _OLD_NAMES.get(match[1], match[1])
        if name == "criteria":
            return criteria
        if name in material.texts:
            return material.fences.around(name, material.texts[name])
        if name == "workspace_path":
            return str(material.subject.workspace or "")
        first, _, path = name.partition(".")
        value_ = metadata_value(material.subject.case.metadata, path) if first == "metadata" else None
        return match[0] if value_ is None else value_

    return _VARIABLE.sub(value, template)


def names_in(template: str) -> set[str]:
    """Return the variables of a template, by their current names."""
    return {_OLD_NAMES.get(name, name) for name in _VARIABLE.findall(template)}


def shows_answer(template: str) -> bool:
    """Return whether a template has a variable for the target's output or the reference."""
    return not _ANSWER_NAMES.isdisjoint(names_in(template))


def is_file_name(prompt: str) -> bool:
    """Return whether a prompt is a file name: it starts with `file://`, or is one word with the suffix of a prompt
    file."""
    return prompt.startswith(FILE_PREFIX) or _FILE_NAME.match(prompt) is not None


def template_file(prompt: str, folder: Path) -> Path:
    """Return the file that a prompt names: beside the suite, or in a parent folder up to the repository's root."""
    try:
        return search_roots(folder).file(prompt.removeprefix(FILE_PREFIX))
    except NotFound as error:
        raise InputError(str(error), _PROMPT) from None


def read_template(path: Path) -> str:
    """Read a template file. Raises InputError when it is unreadable."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}", _PROMPT) from None


def prompt_program(command: Any, folder: Path) -> tuple[tuple[str, ...], Path]:
    """Return the arguments of a program that prints a prompt, and its working directory.

    As AgentV has it, a script that ends the list of arguments is searched from the suite's folder upward and runs in
    its own folder. Any other command runs in the suite's folder. Raises ValueError for an invalid command.
    """
    argv = argv_of(command)
    start = program_folder(None, folder)
    if isinstance(command, str) or len(argv) < 2 or any(is_file(start / word) for word in argv[1:-1]):
        return argv, start
    try:
        script = search_roots(folder).file(argv[-1])
    except NotFound:
        return argv, start
    return (*argv[:-1], script.name), script.parent


async def run_prompt_program(
    prompt: Mapping[str, Any], material: GraderContext, config: Mapping[str, Any], timeout_s: float | None
) -> str:
    """Run a program and return the prompt that it prints. Its input is that of grading programs, plus `fenced`.

    `fenced` holds the judged texts between fences. Raises GraderFailure when it fails or prints nothing.
    """
    argv, cwd = prompt_program(prompt.get("command"), material.subject.folder)
    shape: Shape = "text" if prompt.get("payload", prompt.get("usual_payload")) == "text" else "messages"
    subject, fences = material.subject, material.fences
    fenced = {name: fences.around(name, text) for name, text in material.texts.items()}
    with tempfile.TemporaryDirectory(prefix="eval-pipeline-prompt-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        payload = {**grading_payload(subject, config, shape, folder / "files"), "fenced": fenced}
        result = await run_command(
            argv, cwd=cwd, scratch=folder, stdin=to_json(payload), env={},
            timeout_s=timeout_s,
        )  # fmt: skip
    if result.exit_code != 0:
        raise GraderFailure(
            f"{command_text(argv)}, which prints the prompt, ended with {result.exit_code}: {result.stderr.strip()}"
        )
    if not result.stdout.strip():
        raise GraderFailure(f"{command_text(argv)} printed no prompt")
    return result.stdout
