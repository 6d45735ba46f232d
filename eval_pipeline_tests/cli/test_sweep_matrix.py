"""A sweep whose `matrix` varies settings of its runners."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval_pipeline.sweeps.project import load_project
from eval_pipeline.sweeps.project_contents import read_project
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.selection import pairs_of_sweep
from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project

PROJECT = """\
suites: [suites]
sweeps:
  tuned: {suites: [greetings], runners: [parrot], matrix: {arguments.loud: [true, false], timeout_s: [5]}}
"""
LOUD = """\
def say(prompt, loud=False):
    return f"hello {prompt.upper() if loud else prompt}"
"""
VARIANTS = ["parrot.loud-false.timeout_s-5", "parrot.loud-true.timeout_s-5"]


@pytest.fixture
def project(tmp_path: Path) -> CliProject:
    project = make_cli_project(tmp_path)
    project.write("eval-pipeline.yaml", PROJECT)
    project.write("parrot.py", LOUD)
    return project


def runners(project: CliProject, *arguments: str) -> list[str]:
    return sorted({pair["runner"] for pair in json.loads(project("plan", "--json", *arguments).out)})


def test_each_combination_is_a_runner_with_its_settings(project: CliProject) -> None:
    run = project("run", "--sweep", "tuned", "--quiet")

    assert run.code == 0, run.text
    assert project.ask("SELECT runner, final_output FROM session_reports WHERE case_id = 'ann' ORDER BY 1") == [
        (VARIANTS[0], "hello Ann"),
        (VARIANTS[1], "hello ANN"),
    ]
    assert "parrot.loud-true" in project("leaderboard").out


def test_they_take_part_in_their_sweep_and_in_what_names_them(project: CliProject) -> None:
    assert runners(project, "--sweep", "tuned") == VARIANTS
    assert runners(project, "--sweep", "tuned", "--runner", "parrot") == VARIANTS
    assert runners(project) == ["greeter", "parrot"]
    assert runners(project, "--runner", VARIANTS[1]) == VARIANTS[1:]
    assert runners(project, "--runner-tag", "local") == ["greeter", "parrot"]


def test_they_stay_current_when_the_whole_project_is_run(project: CliProject) -> None:
    project("run", "--sweep", "tuned", "--quiet")
    project("run", "--quiet")

    assert [runner for (runner,) in project.ask("SELECT DISTINCT runner FROM current_pairs ORDER BY 1")] == [
        "greeter",
        "parrot",
        *VARIANTS,
    ]


def test_they_are_partitions_of_the_suites_of_their_sweep(project: CliProject) -> None:
    session = ProjectSession(load_project(project.root))
    pairs = read_project(session).pairs()

    assert sorted(pair.runner for pair in pairs if pair.suite == "greetings") == ["greeter", "parrot", *VARIANTS]
    assert {pair.runner for pair in pairs if pair.suite == "sums"} == {"parrot"}
    assert sorted(pair.runner for pair in pairs_of_sweep(session, pairs, "tuned")) == VARIANTS
    assert not {pair.runner for pair in pairs_of_sweep(session, pairs, None)} & set(VARIANTS)


@pytest.mark.parametrize(
    ("matrix", "problem"),
    [
        ("{argument: [1]}", "runners[1].argument: with sweeps.tuned.matrix of the project file: unknown setting"),
        ("{name: [a]}", "sweeps.tuned.matrix: expected settings of runners, without their name"),
        ("{timeout_s: []}", "sweeps.tuned.matrix: expected at least one value of each setting"),
        ("{timeout_s: 5}", "sweeps.tuned.matrix.timeout_s: expected"),
        ("{arguments.loud: [a b, a_b]}", "would be one runner 'parrot.loud-a_b'"),
    ],
)
def test_a_matrix_that_cannot_be_used_is_named(project: CliProject, matrix: str, problem: str) -> None:
    project.write("eval-pipeline.yaml", f"sweeps: {{tuned: {{runners: [parrot], matrix: {matrix}}}}}\n")

    answer = project("run", "--sweep", "tuned", "--quiet")

    assert answer.code == 2
    assert problem in answer.err
