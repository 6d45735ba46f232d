"""`convert`: a suite in another format, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject

SUITE = """\
# greetings of all kinds
name: greetings
input:
  - {role: system, content: be kind}
tests:
  - id: ann
    input: |
      Ann,
      and Bob
    criteria: a greeting
"""


@pytest.fixture
def cli_project(tmp_path: Path) -> CliProject:
    """A folder with one suite in it."""
    cli_project = CliProject(tmp_path)
    cli_project.write("greetings.yaml", SUITE)
    return cli_project


def text(cli_project: CliProject, name: str) -> str:
    return (cli_project.root / name).read_text("utf-8")


def test_yaml_becomes_jsonl_with_a_file_beside_it(cli_project: CliProject) -> None:
    answer = cli_project("convert", "greetings.yaml")

    assert answer.code == 0
    assert json.loads(text(cli_project, "greetings.jsonl")) == {
        "id": "ann", "input": "Ann,\nand Bob\n", "criteria": "a greeting"
    }  # fmt: skip
    assert text(cli_project, "greetings.eval.yaml").startswith("name: greetings\n")
    assert "not carried over: 1 line of comments" in answer.err
    assert "keep one of the two" in answer.err


def test_jsonl_becomes_yaml_with_blocks(cli_project: CliProject) -> None:
    cli_project.write("more.jsonl", json.dumps({"id": "a", "input": "one\ntwo", "criteria": "c"}) + "\n")

    answer = cli_project("convert", "more.jsonl")

    assert answer.code == 0
    assert text(cli_project, "more.yaml") == "tests:\n  - id: a\n    input: |-\n      one\n      two\n    criteria: c\n"


def test_a_file_beside_a_jsonl_file_is_not_written_over(cli_project: CliProject) -> None:
    cli_project.write("more.jsonl", json.dumps({"id": "a", "input": "x", "criteria": "c"}) + "\n")
    cli_project.write("more.yaml", "description: mine\n")

    answer = cli_project("convert", "more.jsonl")

    assert answer.code == 0
    assert text(cli_project, "more.yaml") == "description: mine\n"
    assert text(cli_project, "more.eval.yaml").startswith("description: mine\ntests:")


@pytest.mark.parametrize(
    ("arguments", "begin"),
    [
        (["--to", "json"], "{"),
        (["--to", "agent-skills"], '{\n  "skill_name": "greetings"'),
        (["--to", "jsonl"], '{"id":"ann"'),
        (["--to", "yaml"], "name: greetings\n"),
    ],
    ids=["json", "agent-skills", "jsonl", "yaml"],
)
def test_any_format_can_be_printed(cli_project: CliProject, arguments: list[str], begin: str) -> None:
    answer = cli_project("convert", "greetings.yaml", *arguments, "-o", "-")

    assert answer.code == 0
    assert answer.out.startswith(begin)
    assert [path.name for path in cli_project.root.iterdir()] == ["greetings.yaml"]


def test_the_format_is_that_of_the_outputs_name(cli_project: CliProject) -> None:
    answer = cli_project("convert", "greetings.yaml", "-o", "new/all.json")

    assert answer.code == 0
    assert list(json.loads(text(cli_project, "new/all.json"))) == ["name", "input", "tests"]


def test_what_another_format_cannot_say_is_told(cli_project: CliProject) -> None:
    answer = cli_project("convert", "greetings.yaml", "--to", "agent-skills", "-o", "evals.json")

    assert answer.code == 0
    assert "not carried over: 'input' of the suite" in answer.err
    assert "not carried over: ids that are no numbers (they are counted instead) (ann)" in answer.err


def test_a_suite_that_reads_differently_elsewhere_is_told_and_exits_1(cli_project: CliProject) -> None:
    cli_project.write("files/here/note.txt", "hello")
    cli_project.write("files/here/a.yaml", "tests: [{id: a, input: x, input_files: [note.txt], criteria: c}]\n")

    answer = cli_project("convert", "files/here/a.yaml", "-o", "files/there/a.jsonl")

    assert answer.code == 1
    assert "case 'a' reads differently: it is refused now" in answer.err
    assert (cli_project.root / "files/there/a.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.yaml"], "nowhere.yaml"),
        (["greetings.yaml", "-o", "x.toml"], "--output: no suite format for '.toml' files"),
        (["greetings.yaml", "-o", "greetings.yaml"], "would be written over itself"),
        (["greetings.yaml", "-o", "taken.jsonl"], "taken.jsonl exists; --force overwrites it"),
        (["broken.jsonl"], "broken.jsonl:1: not valid JSON"),
        (["greetings.yaml", "--to", "toml"], "'toml'"),
    ],
    ids=["no such file", "no such format", "itself", "taken", "broken", "no such choice"],
)
def test_what_cannot_be_done_is_said_and_exits_2(cli_project: CliProject, arguments: list[str], message: str) -> None:
    cli_project.write("taken.jsonl", "mine")
    cli_project.write("broken.jsonl", "{")
    before = sorted(cli_project.root.iterdir())

    answer = cli_project("convert", *arguments)

    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.text
    assert sorted(cli_project.root.iterdir()) == before
    assert (text(cli_project, "taken.jsonl"), text(cli_project, "greetings.yaml")) == ("mine", SUITE)


def test_force_overwrites(cli_project: CliProject) -> None:
    cli_project.write("greetings.jsonl", "old")

    assert cli_project("convert", "greetings.yaml", "--force").code == 0
    assert json.loads(text(cli_project, "greetings.jsonl"))["id"] == "ann"


PROJECT = {
    "runners.yaml": "runners: [{name: parrot, adapter: command, command: [cat]}]\n",
    "suites/greetings.yaml": SUITE.replace("criteria: a greeting", "assertions: [{type: contains, value: Ann}]"),
    "suites/more.jsonl": '{"id": "a", "input": "x", "assertions": [{"type": "contains", "value": "x"}]}\n',
    "suites/more.yaml": "description: mine\n",
}


@pytest.fixture
def project(tmp_path: Path) -> CliProject:
    """A project without a project file: two suites below `suites/`, and runners."""
    project = CliProject(tmp_path)
    for name, content in PROJECT.items():
        project.write(name, content)
    return project


def suites_of(project: CliProject) -> set[str]:
    """The suites that validate and plan find; both must end well."""
    validated, planned = project("validate"), project("plan", "--json")
    assert (validated.code, planned.code) == (0, 0), validated.text + planned.text
    return {row["suite"] for row in planned.document}


@pytest.mark.parametrize(
    "arguments",
    [
        ["suites/greetings.yaml"],
        ["suites/more.jsonl"],
        ["suites/greetings.yaml", "--to", "json"],
        ["suites/greetings.yaml", "-o", "suites/other/new.jsonl"],
    ],
    ids=["yaml to jsonl", "jsonl to yaml", "json", "another folder"],
)
def test_a_conversion_never_leaves_two_suites_of_one_name_in_a_project(
    project: CliProject, arguments: list[str]
) -> None:
    before = suites_of(project)
    files = sorted(path for path in project.root.rglob("*") if path.is_file() and "data" not in path.parts)

    refused = project("convert", *arguments)

    assert refused.code == 2
    assert "--replace deletes suites/" in refused.err
    assert sorted(path for path in project.root.rglob("*") if path.is_file() and "data" not in path.parts) == files
    assert suites_of(project) == before

    replaced = project("convert", *arguments, "--replace")

    assert replaced.code == 0
    assert f"deleted {arguments[0]}" in replaced.err
    assert suites_of(project) == before


def test_a_conversion_to_a_place_outside_the_suites_keeps_both(project: CliProject) -> None:
    answer = project("convert", "suites/greetings.yaml", "-o", "shared/greetings.jsonl")

    assert answer.code == 0
    assert suites_of(project) == {"greetings", "more"}


def test_a_suite_that_would_read_differently_is_not_replaced(project: CliProject) -> None:
    project.write("suites/note.txt", "hello")
    project.write("suites/a.yaml", "tests: [{id: a, input: x, input_files: [note.txt], criteria: c}]\n")

    answer = project("convert", "suites/a.yaml", "-o", "suites/deeper/a.jsonl", "--replace")

    assert answer.code == 1
    assert (project.root / "suites/a.yaml").exists()
    assert not (project.root / "suites/deeper/a.jsonl").exists()
