"""Which suites, runners and cases a command means. Asked of `plan --json`, which selects as `run` does."""

from __future__ import annotations

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject

GREETER, PARROT = ("greetings", "greeter"), ("greetings", "parrot")
SUMS = ("sums", "parrot")
EVERYTHING = {GREETER: 3, PARROT: 3, SUMS: 2}

SELECTIONS = {
    "nothing named: the project's suites": ([], EVERYTHING),
    "a suite's path": (["suites/greetings.yaml"], {GREETER: 3, PARROT: 3}),
    "a JSONL suite's path": (["suites/more/sums.jsonl"], {SUMS: 2}),
    "a folder, with the folders in it": (["suites"], EVERYTHING),
    "a folder below": (["suites/more"], {SUMS: 2}),
    "a glob": (["suites/*.yaml"], {GREETER: 3, PARROT: 3}),
    "a recursive glob": (["suites/**/*.jsonl"], {SUMS: 2}),
    "two suites": (["suites/greetings.yaml", "suites/more"], EVERYTHING),
    "one suite named twice": (["suites/more", "suites/more/sums.jsonl"], {SUMS: 2}),
    "a runner": (["suites/greetings.yaml", "--runner", "greeter"], {GREETER: 3}),
    "two runners": (["suites/greetings.yaml", "--runner", "greeter", "--runner", "parrot"], {GREETER: 3, PARROT: 3}),
    "runners separated by commas": (["suites/greetings.yaml", "--runner", "greeter,parrot"], {GREETER: 3, PARROT: 3}),
    "a runner's tag": (["--runner-tag", "slow"], {GREETER: 3}),
    "a case": (["--case", "ann"], {GREETER: 1, PARROT: 1}),
    "cases of two suites": (["--case", "ann", "--case", "one"], {GREETER: 1, PARROT: 1, SUMS: 1}),
    "cases separated by commas": (["--case", "ann,bob"], {GREETER: 2, PARROT: 2}),
    "a tag": (["--tag", "rude"], {GREETER: 1, PARROT: 1}),
    "two tags: either will do": (["--tag", "rude", "--tag", "even"], {GREETER: 1, PARROT: 1, SUMS: 1}),
    "tags separated by commas": (["--tag", "rude, even"], {GREETER: 1, PARROT: 1, SUMS: 1}),
    "a tag and a case: both must hold": (["--tag", "short", "--case", "ann,nobody"], {GREETER: 1, PARROT: 1}),
    "repetitions": (["suites/more", "--repeat", "3"], {SUMS: 6}),
}


@pytest.mark.parametrize(("arguments", "cells"), SELECTIONS.values(), ids=SELECTIONS.keys())
def test_a_selection_means_these_cells(
    cli_project: CliProject, arguments: list[str], cells: dict[tuple[str, str], int]
) -> None:
    answer = cli_project("plan", "--json", *arguments)

    assert answer.code == 0
    assert {(row["suite"], row["runner"]): row["planned"] for row in answer.document if row["planned"]} == cells


def test_paths_are_taken_from_the_current_folder_and_the_project_is_found_upward(cli_project: CliProject) -> None:
    below = CliProject(cli_project.root / "suites" / "more")

    answer = below("plan", "--json", "sums.jsonl")

    assert [row["suite"] for row in answer.document] == ["sums"]


def test_a_named_project_is_used_wherever_one_stands(
    cli_project: CliProject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = CliProject(tmp_path_factory.mktemp("elsewhere"))

    answer = elsewhere("plan", "--json", "--project", str(cli_project.root))

    assert {row["suite"] for row in answer.document} == {"greetings", "sums"}


def test_another_runners_file_is_read_instead(cli_project: CliProject) -> None:
    cli_project.write("others.yaml", 'runners:\n- {name: greeter, adapter: python, function: "parrot:say"}\n')

    answer = cli_project("plan", "--json", "suites/greetings.yaml", "--runners", "others.yaml", "--runner", "greeter")

    assert [row["runner"] for row in answer.document] == ["greeter"]


def test_a_project_without_a_project_file_takes_the_runners_beside_it(cli_project: CliProject) -> None:
    (cli_project.root / "eval-pipeline.yaml").unlink()

    answer = cli_project("plan", "--json", "suites/more")

    assert {(row["suite"], row["runner"]): row["planned"] for row in answer.document if row["planned"]} == {SUMS: 2}


def test_the_folder_of_suites_is_found_without_a_project_file(cli_project: CliProject) -> None:
    (cli_project.root / "eval-pipeline.yaml").unlink()

    answer = cli_project("plan", "--json")

    assert answer.code == 0
    assert {row["suite"] for row in answer.document} == {"greetings", "sums"}
