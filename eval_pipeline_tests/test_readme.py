"""The README is short, its commands run in a fresh folder and print what it shows, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eval_pipeline_tests.cli.sample_project import Answer, CliProject
from eval_pipeline_tests.console_blocks import ROOT, blocks, missing_lines, read_page, run_command, shown_commands

README = read_page("README.md")
SHOWN = shown_commands(README)
FAILED_CASES = 1


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    """The output of the README's commands, run in order in a folder with the files that it shows."""
    cli_project = CliProject(tmp_path_factory.mktemp("empty"))
    for block in blocks(README):
        if block.title:
            cli_project.write(block.title, block.text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "120")
        for name in ("DAGSTER_HOME", "EVAL_PIPELINE_PROJECT", "EVAL_PIPELINE_DATA", "OPENAI_API_KEY"):
            patch.delenv(name, raising=False)
        return [run_command(cli_project, shown.command) for shown in SHOWN]


@pytest.mark.parametrize("number", range(len(SHOWN)), ids=[shown.command for shown in SHOWN])
def test_a_command_prints_what_the_readme_shows(answers: list[Answer], number: int) -> None:
    assert missing_lines(SHOWN[number], answers[number]) == []


def test_the_run_that_the_readme_shows_reports_failed_cases_in_its_exit_code(answers: list[Answer]) -> None:
    assert SHOWN[0].command.startswith("eval-pipeline run")
    assert [answer.code for answer in answers] == [FAILED_CASES, 0, 0]


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("heading", ["Run it", "Test it"])
def test_ci_finds_one_command_under_the_heading(heading: str) -> None:
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]

    (block,) = blocks(section, "sh")

    assert block.text.startswith("python3 -m venv .venv && .venv/bin/pip install")
    assert "--no-compile" not in block.text


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)", README))))
def test_a_link_of_the_readme_leads_to_a_file(link: str) -> None:
    assert link.startswith("https://") or Path(ROOT, link).exists()
