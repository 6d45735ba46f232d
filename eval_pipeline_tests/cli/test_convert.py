"""`convert`: a suite in another format, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval_pipeline_tests.cli.command_desk import Desk

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
def desk(tmp_path: Path) -> Desk:
    """A folder with one suite in it."""
    desk = Desk(tmp_path)
    desk.write("greetings.yaml", SUITE)
    return desk


def text(desk: Desk, name: str) -> str:
    return (desk.root / name).read_text("utf-8")


def test_yaml_becomes_jsonl_with_a_file_beside_it(desk: Desk) -> None:
    answer = desk("convert", "greetings.yaml")

    assert answer.code == 0
    assert json.loads(text(desk, "greetings.jsonl")) == {
        "id": "ann", "input": "Ann,\nand Bob\n", "criteria": "a greeting"
    }  # fmt: skip
    assert text(desk, "greetings.eval.yaml").startswith("name: greetings\n")
    assert "not carried over: 1 lines of comments" in answer.err
    assert "keep one of the two" in answer.err


def test_jsonl_becomes_yaml_with_blocks(desk: Desk) -> None:
    desk.write("more.jsonl", json.dumps({"id": "a", "input": "one\ntwo", "criteria": "c"}) + "\n")

    answer = desk("convert", "more.jsonl")

    assert answer.code == 0
    assert text(desk, "more.yaml") == "tests:\n  - id: a\n    input: |-\n      one\n      two\n    criteria: c\n"


def test_a_file_beside_a_jsonl_file_is_not_written_over(desk: Desk) -> None:
    desk.write("more.jsonl", json.dumps({"id": "a", "input": "x", "criteria": "c"}) + "\n")
    desk.write("more.yaml", "description: mine\n")

    answer = desk("convert", "more.jsonl")

    assert answer.code == 0
    assert text(desk, "more.yaml") == "description: mine\n"
    assert text(desk, "more.eval.yaml").startswith("description: mine\ntests:")


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
def test_any_format_can_be_printed(desk: Desk, arguments: list[str], begin: str) -> None:
    answer = desk("convert", "greetings.yaml", *arguments, "-o", "-")

    assert answer.code == 0
    assert answer.out.startswith(begin)
    assert [path.name for path in desk.root.iterdir()] == ["greetings.yaml"]


def test_the_format_is_that_of_the_outputs_name(desk: Desk) -> None:
    answer = desk("convert", "greetings.yaml", "-o", "new/all.json")

    assert answer.code == 0
    assert list(json.loads(text(desk, "new/all.json"))) == ["name", "input", "tests"]


def test_what_another_format_cannot_say_is_told(desk: Desk) -> None:
    answer = desk("convert", "greetings.yaml", "--to", "agent-skills", "-o", "evals.json")

    assert answer.code == 0
    assert "not carried over: 'input' of the suite" in answer.err
    assert "not carried over: ids that are no numbers (they are counted instead) (ann)" in answer.err


def test_a_suite_that_reads_differently_elsewhere_is_told_and_exits_1(desk: Desk) -> None:
    desk.write("files/here/note.txt", "hello")
    desk.write("files/here/a.yaml", "tests: [{id: a, input: x, input_files: [note.txt], criteria: c}]\n")

    answer = desk("convert", "files/here/a.yaml", "-o", "files/there/a.jsonl")

    assert answer.code == 1
    assert "case 'a' reads differently: it is refused now" in answer.err
    assert (desk.root / "files/there/a.jsonl").exists()


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
def test_what_cannot_be_done_is_said_and_exits_2(desk: Desk, arguments: list[str], message: str) -> None:
    desk.write("taken.jsonl", "mine")
    desk.write("broken.jsonl", "{")
    before = sorted(desk.root.iterdir())

    answer = desk("convert", *arguments)

    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.said
    assert (sorted(desk.root.iterdir()), text(desk, "taken.jsonl"), text(desk, "greetings.yaml")) == (
        before, "mine", SUITE
    )  # fmt: skip


def test_force_overwrites(desk: Desk) -> None:
    desk.write("greetings.jsonl", "old")

    assert desk("convert", "greetings.yaml", "--force").code == 0
    assert json.loads(text(desk, "greetings.jsonl"))["id"] == "ann"
