"""What the pages show is so: commands and options exist, files can be loaded, links lead to files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from eval_pipeline.cli.main import COMMANDS, cli
from eval_pipeline.executions.runners import load_runners
from eval_pipeline.orchestration.config import SweepConfig
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.model import Subject
from eval_pipeline.suites.load import load_suite
from eval_pipeline.sweeps.project import load_project
from eval_pipeline_tests.builders import a_case, make_repository
from eval_pipeline_tests.console_blocks import ROOT, Block, blocks, read_page

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
WITH_README = ["README.md", "CONTRIBUTING.md", *PAGES]
COMMAND_LINE = re.compile(r"eval-pipeline ([a-z]+)((?: [^`|\n]*)?)")


def commands() -> dict[str, click.Command]:
    context = click.Context(cli)
    return {name: command for name in COMMANDS if (command := cli.get_command(context, name)) is not None}


def options_of(command: click.Command) -> set[str]:
    own = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    subcommands = command.commands.values() if isinstance(command, click.Group) else ()
    return own.union(*map(options_of, subcommands))


@pytest.mark.parametrize("page", WITH_README)
def test_command_lines_use_commands_and_options_that_exist(page: str) -> None:
    known = commands()

    wrong = [
        f"{name} {option}"
        for name, rest in COMMAND_LINE.findall(read_page(page))
        for option in ["", *re.findall(r"(?<!\S)--[a-z-]+", rest)]
        if name not in known or (option and option not in options_of(known[name]))
    ]

    assert wrong == []


def test_every_command_is_used_on_some_page() -> None:
    used = {name for page in WITH_README for name, _ in COMMAND_LINE.findall(read_page(page))}

    assert used >= set(COMMANDS)


@pytest.mark.parametrize("page", WITH_README)
def test_links_lead_to_files(page: str) -> None:
    folder = (ROOT / page).parent
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", read_page(page))

    assert [link for link in links if not (folder / link).exists()] == []


def titled(pattern: str) -> list[Any]:
    """The blocks of all pages whose title matches, with their page as id."""
    return [
        pytest.param(block, id=f"{page}-{block.title}")
        for page in WITH_README
        for block in blocks(read_page(page))
        if re.fullmatch(pattern, block.title)
    ]


@pytest.mark.parametrize("block", titled(r"suites/[\w-]+\.yaml"))
def test_a_suite_that_a_page_shows_can_be_loaded(block: Block, tmp_path: Path) -> None:
    file = tmp_path / block.title
    file.parent.mkdir()
    (tmp_path / "workspaces" / "notes-app").mkdir(parents=True)
    make_repository(tmp_path)  # names in a suite may lead up to the root of its repository
    file.write_text(block.text, encoding="utf-8")

    suite = load_suite(file)

    assert suite.cases
    assert suite.errors == ()


@pytest.mark.parametrize("block", titled(r"runners\.yaml"))
def test_the_runners_that_a_page_shows_can_be_loaded(block: Block, tmp_path: Path) -> None:
    file = tmp_path / block.title
    file.write_text(block.text, encoding="utf-8")

    runners = load_runners(file, {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"})

    assert [runner.problem for runner in runners if hasattr(runner, "problem")] == []


@pytest.mark.parametrize("block", titled(r"eval-pipeline\.yaml"))
def test_the_project_file_that_a_page_shows_can_be_loaded(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVAL_PIPELINE_PROJECT", raising=False)
    (tmp_path / "eval-pipeline.yaml").write_text(block.text, encoding="utf-8")

    assert load_project(tmp_path).data == tmp_path / "data"


def test_the_launchpad_config_is_accepted() -> None:
    (block,) = [block for block in blocks(read_page("docs/explanation/dagster.md"), "yaml") if "ops:" in block.text]

    config = SweepConfig(**yaml.safe_load(block.text)["ops"]["evaluate"]["config"])

    assert config.refresh == "failed"


def test_the_evaluator_of_the_plug_in_guide_scores() -> None:
    page = read_page("docs/how-to/write-a-plugin.md")
    module: dict[str, Any] = {}
    exec(blocks(page, "python")[0].text, module)
    ((group, names),) = tomllib.loads(blocks(page, "toml")[0].text)["project"]["entry-points"].items()
    word_count = module[names["word-count"].split(":")[1]]

    assert group == "eval_pipeline.evaluators"
    assert word_count(most=2).evaluate(a_subject("one two three")).value == 0.0
    assert word_count(most=3).evaluate(a_subject("one two three")).reason == "3 words"


def a_subject(output: str) -> Subject:
    return Subject(a_case(), SessionReport(execution_id="e", final_output=output))
