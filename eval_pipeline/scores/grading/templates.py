"""What a grader is told in the suite author's words: inline, from a file, or printed by a program of the author's.

`{{ name }}` is replaced once, by what `material` tells; a name that is not known stays as it is. What is judged comes
between fences wherever a template puts it; criteria and metadata are the author's own words and stand bare. A program
is given the texts bare and fenced and puts in what it likes.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.file_search import NotFound, search_roots
from eval_pipeline.scores.grader_client import GraderFailure
from eval_pipeline.scores.grading.context import TEXTS, GraderContext, metadata_value
from eval_pipeline.scores.programs.command import program_folder, run_command, shown
from eval_pipeline.scores.programs.payload import grading_payload

FILE_PREFIX = "file://"
_PROMPT = SourceLocation(field="prompt")
_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_][\w.-]*)\s*\}\}")
_OLD_NAMES = {"input_text": "input", "output_text": "output", "expected_output_text": "expected_output"}
_ANSWER_NAMES = frozenset(TEXTS) - {"input"}
_FILE_NAME = re.compile(r"\S+\.(?:md|markdown|txt|prompt|j2|jinja2?|njk)\Z")


def filled(template: str, material: GraderContext, criteria: str = "") -> str:
    """A template with its variables replaced in one pass, so that nothing inside a value is taken for one."""

    def value(match: re.Match[str]) -> str:
        name = _OLD_NAMES.get(match[1], match[1])
        if name == "criteria":
            return criteria
        if name in material.texts:
            return material.fences.around(name, material.texts[name])
        if name == "workspace_path":
            return str(material.subject.workspace or "")
        first, _, path = name.partition(".")
        found = metadata_value(material.subject.case.metadata, path) if first == "metadata" else None
        return match[0] if found is None else found

    return _VARIABLE.sub(value, template)


def names_in(template: str) -> set[str]:
    """The variables that a template mentions, by their present names."""
    return {_OLD_NAMES.get(name, name) for name in _VARIABLE.findall(template)}


def shows_the_answer(template: str) -> bool:
    """Whether a template has a place for anything that the system under test brought forth, or the reference."""
    return not _ANSWER_NAMES.isdisjoint(names_in(template))


def names_a_file(prompt: str) -> bool:
    """Whether a prompt is the name of a file: with `file://`, or one word that ends as prompt files do."""
    return prompt.startswith(FILE_PREFIX) or _FILE_NAME.match(prompt) is not None


def template_file(prompt: str, folder: Path) -> Path:
    """The file that a prompt names: beside the suite, or in a folder above it up to the repository's root."""
    try:
        return search_roots(folder).file(prompt.removeprefix(FILE_PREFIX))
    except NotFound as error:
        raise InputError(str(error), _PROMPT) from None


def read_template(path: Path) -> str:
    """A template file's text. Raises InputError when it cannot be read or shows a grader nothing to judge."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}", _PROMPT) from None
    if not shows_the_answer(text):
        wanted = ", ".join(f"{{{{ {name} }}}}" for name in sorted(_ANSWER_NAMES))
        raise InputError(f"{path} shows the grader nothing of the answer; it needs one of {wanted}", _PROMPT)
    return text


async def printed(
    argv: Sequence[str], material: GraderContext, config: Mapping[str, Any], timeout_s: float | None
) -> str:
    """What a program prints that is given a subject as grading programs are, and the judged texts fenced (`fenced`).

    It runs in the suite's folder. Raises GraderFailure when it ends with an error or prints nothing.
    """
    subject, fences = material.subject, material.fences
    fenced = {name: fences.around(name, text) for name, text in material.texts.items()}
    with tempfile.TemporaryDirectory(prefix="eval-pipeline-prompt-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        given = {**grading_payload(subject, config, "messages", folder / "files"), "fenced": fenced}
        ran = await run_command(
            argv, cwd=program_folder(None, subject.folder), scratch=folder, stdin=to_json(given), env={},
            timeout_s=timeout_s,
        )  # fmt: skip
    if ran.exit_code != 0:
        raise GraderFailure(f"{shown(argv)}, which prints the prompt, ended with {ran.exit_code}: {ran.stderr.strip()}")
    if not ran.stdout.strip():
        raise GraderFailure(f"{shown(argv)} printed no prompt")
    return ran.stdout
