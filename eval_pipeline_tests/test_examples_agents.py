"""examples/agents: agents that work in sealed folders, with hidden tests, skills and a recorded wire, all offline."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from eval_pipeline_tests.cli.sample_project import Answer, CliProject
from eval_pipeline_tests.console_blocks import missing_lines, read_page, run_command, shown_commands

EXAMPLE = Path(__file__).parent.parent / "examples" / "agents"
AGE = re.compile(r" +answered(?= )| +\d{4}-\d\d-\d\d \d\d:\d\d(?= )")
"""The column that a board has where its answers are of different minutes."""
SHOWN = shown_commands(read_page("examples/agents/README.md"))


@pytest.fixture(scope="module")
def cli_project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliProject]:
    """A repository with the example in it; `python3` is this one."""
    root = tmp_path_factory.mktemp("repository")
    shutil.copytree(EXAMPLE, root / "examples" / "agents", ignore=shutil.ignore_patterns("data"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "120")
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
        for name in ("DAGSTER_HOME", "EVAL_PIPELINE_PROJECT", "EVAL_PIPELINE_DATA"):
            patch.delenv(name, raising=False)
        yield CliProject(root)


@pytest.fixture(scope="module")
def answers(cli_project: CliProject) -> list[Answer]:
    """What the commands of the README say, in order."""
    return [run_command(cli_project, shown.command) for shown in SHOWN]


def test_the_commands_of_the_readme_answer_as_it_shows(answers: list[Answer]) -> None:
    without_age = [replace(answer, out=AGE.sub("", answer.out)) for answer in answers]

    missing = [missing_lines(shown, answer) for shown, answer in zip(SHOWN, without_age, strict=True)]

    assert missing == [[]] * len(SHOWN)
    assert [answer.code for answer in answers] == [1, 0, 0, 0]


def test_every_call_of_the_models_is_kept_and_none_was_missing(cli_project: CliProject, answers: list[Answer]) -> None:
    kept = sorted((cli_project.root / "examples/agents/data/artifacts").rglob("wire.jsonl"))

    calls = [json.loads(line) for path in kept for line in path.read_text().splitlines()]

    assert (len(kept), len(calls)) == (4, 11)
    assert {call["status"] for call in calls} == {200}
    assert not any("sk-" in path.read_text() for path in EXAMPLE.rglob("*.jsonl"))


def test_trajectories_are_written_for_every_session(cli_project: CliProject, answers: list[Answer]) -> None:
    paths = (cli_project.root / "trajectories").rglob("*.json")

    assert {json.loads(path.read_text())["schema_version"] for path in paths} == {"ATIF-v1.7"}
