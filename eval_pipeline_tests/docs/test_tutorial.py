"""The tutorial's commands run on a copy of the examples and print what the page shows."""

from __future__ import annotations

import re
import shutil

import duckdb
import pytest

from eval_pipeline_tests.cli.sample_project import Answer, CliProject
from eval_pipeline_tests.console_blocks import SWEEP, blocks, missing_lines, read_page, run_command, shown_commands

SHOWN = shown_commands(read_page("docs/tutorial.md"))


@pytest.fixture(scope="module")
def cli_project(swept_examples: tuple[CliProject, Answer], tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """The root of the repository as far as the tutorial needs it, after its first command."""
    root = tmp_path_factory.mktemp("repository") / "root"
    shutil.copytree(swept_examples[0].root, root)
    return CliProject(root)


@pytest.fixture(scope="module")
def answers(cli_project: CliProject, swept_examples: tuple[CliProject, Answer]) -> list[Answer]:
    """The output of the tutorial's commands, run in order."""
    first, *others = SHOWN
    assert first.command == SWEEP
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "120")
        for name in ("DAGSTER_HOME", "EVAL_PIPELINE_PROJECT", "EVAL_PIPELINE_DATA"):
            patch.delenv(name, raising=False)
        return [swept_examples[1], *(run_command(cli_project, shown.command) for shown in others)]


@pytest.mark.parametrize("number", range(len(SHOWN)), ids=[shown.command for shown in SHOWN])
def test_a_command_prints_what_the_tutorial_shows(answers: list[Answer], number: int) -> None:
    assert answers[number].code == 0
    assert missing_lines(SHOWN[number], answers[number]) == []


def test_the_questions_in_sql_have_answers(cli_project: CliProject, answers: list[Answer]) -> None:
    (block,) = blocks(read_page("docs/how-to/ask-in-sql.md"), "sql")
    questions = [question for question in block.text.split(";") if question.strip()]

    with duckdb.connect(str(cli_project.root / "data" / "results.duckdb"), read_only=True) as connection:
        ((newest,),) = connection.execute("SELECT max(sweep_id) FROM sweeps").fetchall()
        named = [re.sub("SWEEP-[12]", newest, question) for question in questions]
        rows = [connection.execute(question).fetchall() for question in named]

    *answered, regressions, changes = rows
    assert len(answered) == 3
    assert all(answered)
    assert (regressions, {change for _, _, change, _ in changes}) == ([], {"same"})  # a sweep beside itself
