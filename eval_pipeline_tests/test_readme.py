"""What the README says is so: its commands run and answer as it shows, and it names every option, part and table.

The tour's blocks (```console) are run in order on a copy of the examples. Every line that the README shows must come in
what the command says, in that order; times are not compared.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import duckdb
import pytest
import yaml

from eval_pipeline.cli.main import COMMANDS, cli
from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.orchestration.assets import SweepConfig
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.model import Subject
from eval_pipeline.sweeps.project import load_project
from eval_pipeline.warehouse.tables import TABLES
from eval_pipeline.warehouse.views import VIEWS
from eval_pipeline_tests.builders import a_case
from eval_pipeline_tests.cli.command_desk import Answer, Desk

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
OWN_COMMAND = re.compile(r"eval-pipeline ([a-z]+)((?: [^`|\n]*)?)")
TIME = re.compile(r"[\d,.]+ (ms|s|min|h)\b")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def tour() -> Iterator[tuple[str, list[str]]]:
    """Each command of the tour with the lines that it is said to answer."""
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            yield command, [plain(line) for line in lines if line.strip()]


def plain(line: str) -> str:
    """A line without what differs from run to run: times, and how wide a column is."""
    return " ".join(TIME.sub(r"# \1", line).split())


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """The root of the repository as far as the tour needs it."""
    root = tmp_path_factory.mktemp("repository")
    shutil.copytree(ROOT / "examples", root / "examples")
    shutil.copy(ROOT / ".env", root)
    return Desk(root)


@pytest.fixture(scope="module")
def told(copy: Desk) -> list[Answer]:
    """What the commands of the tour say, in order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "120")
        for name in ("DAGSTER_HOME", "EVAL_PIPELINE_PROJECT", "EVAL_PIPELINE_DATA"):
            patch.delenv(name, raising=False)
        return [carry_out(copy, command) for command, _ in tour()]


def carry_out(copy: Desk, command: str) -> Answer:
    """A command of the tour; ours in this process, others by the shell."""
    words = subprocess.check_output(["sh", "-c", f'printf "%s\\0" {command}'], text=True, cwd=copy.root)
    program, *arguments = words.split("\0")[:-1]
    if program == "eval-pipeline":
        return copy(*arguments)
    finished = subprocess.run([program, *arguments], cwd=copy.root, capture_output=True, text=True, check=False)
    return Answer(finished.returncode, finished.stdout, finished.stderr)


@pytest.mark.parametrize("number", range(len(list(tour()))), ids=[command for command, _ in tour()])
def test_a_command_of_the_tour_answers_as_the_readme_shows(told: list[Answer], number: int) -> None:
    _, shown = list(tour())[number]

    said = iter([plain(line) for line in told[number].said.splitlines()])

    assert told[number].code == 0
    assert [line for line in shown if line not in said] == []


def test_the_questions_in_sql_can_be_answered(copy: Desk, told: list[Answer]) -> None:
    (block,) = blocks("sql")
    questions = [question for question in block.split(";") if question.strip()]

    with duckdb.connect(str(copy.root / "data" / "results.duckdb"), read_only=True) as connection:
        answers = [connection.execute(question).fetchall() for question in questions]

    assert len(answers) == 3
    assert all(answers)


def commands() -> dict[str, click.Command]:
    context = click.Context(cli)
    return {name: found for name in COMMANDS if (found := cli.get_command(context, name)) is not None}


def options_of(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


def test_every_command_line_in_the_readme_uses_commands_and_options_that_there_are() -> None:
    found = OWN_COMMAND.findall(README)

    wrong = [
        (name, option)
        for name, rest in found
        for option in re.findall(r"(?<!\S)--[a-z-]+", rest)
        if name not in commands() or option not in options_of(commands()[name])
    ]

    assert {name for name, _ in found} == set(COMMANDS)
    assert wrong == []


@pytest.mark.parametrize("name", ["run", "plan"])
def test_the_readme_explains_every_option_of(name: str) -> None:
    options = {option for option in options_of(commands()[name]) if option.startswith("--")}

    assert [option for option in sorted(options) if f"`{option}" not in README] == []


@pytest.mark.parametrize("name", sorted({table.name for table in TABLES} | {view.name for view in VIEWS}))
def test_the_readme_says_what_a_table_holds(name: str) -> None:
    assert f"`{name}`" in README


def rows_of(name: str) -> list[str]:
    """The table rows whose first cell names this."""
    return re.findall(rf"^\|[^|]*`{name}`[^|]*\|.*$", README, flags=re.MULTILINE)


OPPOSITES = [name for name in EVALUATORS.names() if EVALUATORS.find(name.removeprefix("not-")) and name[:4] == "not-"]


def test_the_readme_says_how_opposites_are_named() -> None:
    assert OPPOSITES
    assert "`not-` before a kind of text, measure or trajectory is its opposite: `not-contains`." in README


@pytest.mark.parametrize("name", sorted(set(EVALUATORS.names()) - set(OPPOSITES)))
def test_the_readme_names_every_argument_of_an_evaluator(name: str) -> None:
    arguments = {argument.name for argument in fields(EVALUATORS.get(name)) if argument.name != "on_missing"}  # type: ignore[arg-type]

    assert any(all(f"`{argument}" in row for argument in arguments) for row in rows_of(name))


@pytest.mark.parametrize("name", ADAPTERS.names())
def test_the_readme_names_every_setting_of_an_adapter(name: str) -> None:
    settings = ADAPTERS.get(name).settings

    assert any(all(f"`{setting}" in row for setting in settings) for row in rows_of(name))


def test_the_project_file_it_shows_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVAL_PIPELINE_PROJECT", raising=False)
    shown = next(block for block in blocks("yaml") if block.startswith("suites:"))
    (tmp_path / "eval-pipeline.yaml").write_text(shown, encoding="utf-8")

    project = load_project(tmp_path)

    assert project.defaults.min_pass_rate == 0.15
    assert project.data == tmp_path / "data"


def test_the_launchpad_config_it_shows_is_one() -> None:
    shown: Any = yaml.safe_load(next(block for block in blocks("yaml") if block.startswith("ops:")))

    config = SweepConfig(**shown["ops"]["evaluate"]["config"])

    assert config.refresh == "failed"


def test_the_evaluator_it_shows_scores() -> None:
    (entry_point,) = blocks("toml")
    (source,) = blocks("python")
    module: dict[str, Any] = {}
    exec(source, module)  # the README's own example
    ((group, names),) = tomllib.loads(entry_point)["project"]["entry-points"].items()
    word_count = module[names["word-count"].split(":")[1]]

    assert group == "eval_pipeline.evaluators"
    assert word_count(most=2).evaluate(a_subject("one two three")).value == 0.0
    assert word_count(most=3).evaluate(a_subject("one two three")).reason == "3 words"


def a_subject(output: str) -> Subject:
    return Subject(a_case(), SessionReport(execution_id="e", final_output=output))
