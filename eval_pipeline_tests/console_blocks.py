"""Reads the fenced blocks of a Markdown page and runs the commands that it shows.

Every line that a page shows must come in a command's output, in that order; times and dates are not compared.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from eval_pipeline_tests.cli.sample_project import Answer, CliProject

SWEEP = "eval-pipeline run --quiet"
"""The first command of the tutorial."""
ROOT = Path(__file__).parent.parent
_FENCE = re.compile(r"^( *)```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_TIME = re.compile(r"[\d,.]+ (ms|s|min|h)\b")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d)?(?: to [\d:-]+)?")


class Block(NamedTuple):
    """A fenced block: language, title (a file's name) and text."""

    language: str
    title: str
    text: str


class Shown(NamedTuple):
    """A command of a page and the lines that the page shows below it."""

    command: str
    lines: list[str]


def read_page(name: str) -> str:
    """Return the text of a page of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(page: str, language: str = "") -> list[Block]:
    """Return the fenced blocks of a page (of a language), without their indentation."""
    all_blocks = [
        Block(kind, title, re.sub(f"^{indent}", "", text, flags=re.MULTILINE))
        for indent, kind, title, text in _FENCE.findall(page)
    ]
    return [block for block in all_blocks if language in ("", block.language)]


def shown_commands(page: str) -> list[Shown]:
    """Return each command of the `console` blocks of a page."""
    return [shown for block in blocks(page, "console") for shown in _commands_in(block.text)]


def _commands_in(text: str) -> Iterator[Shown]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        yield Shown(command, [plain(line) for line in lines if line.strip()])


def plain(line: str) -> str:
    """Return a line without what differs from run to run: times, dates, and the width of columns."""
    return " ".join(_DATE.sub("<date>", _TIME.sub(r"# \1", line)).split())


def missing_lines(shown: Shown, answer: Answer) -> list[str]:
    """Return the lines that a page shows and that do not come in the answer in this order."""
    printed = iter([plain(line) for line in answer.text.splitlines()])
    return [line for line in shown.lines if line not in printed]


def run_command(cli_project: CliProject, command: str) -> Answer:
    """Run a command of a page; `eval-pipeline` in this process, others by the shell."""
    words = subprocess.check_output(["sh", "-c", f'printf "%s\\0" {command}'], text=True, cwd=cli_project.root)
    program, *arguments = words.split("\0")[:-1]
    if program == "eval-pipeline":
        return cli_project(*arguments)
    completed = subprocess.run([program, *arguments], cwd=cli_project.root, capture_output=True, text=True, check=False)
    return Answer(completed.returncode, completed.stdout, completed.stderr)


def sweep_examples(root: Path) -> tuple[CliProject, Answer]:
    """Copy the examples and run the whole of them; return the project and what the command answered."""
    shutil.copytree(ROOT / "examples", root / "examples")
    shutil.copy(ROOT / ".env", root)
    project = CliProject(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "120")
        for name in ("DAGSTER_HOME", "EVAL_PIPELINE_PROJECT", "EVAL_PIPELINE_DATA"):
            patch.delenv(name, raising=False)
        return project, run_command(project, SWEEP)
