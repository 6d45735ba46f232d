"""Sweeps of the project file from the command line: started, compared and followed by their names."""

from __future__ import annotations

import json

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project

PROJECT = """\
suites: [suites]
sweeps:
  nightly: {suites: [greetings], runners: [greeter], refresh: all, tags: [short, rude]}
  smoke: {suites: [greetings], tags: [b]}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """Two nights, and a plain run of everything between them."""
    project = make_cli_project(tmp_path_factory.mktemp("named"))
    project.write("eval-pipeline.yaml", PROJECT)
    project("run", "--sweep", "nightly", "--quiet")
    project("run", "--quiet")
    project("run", "--sweep", "nightly", "--quiet")
    return project


def test_a_night_is_compared_with_the_night_before_and_not_with_what_was_run_between(project: CliProject) -> None:
    answer = project("compare", "nightly@previous", "nightly@latest", "--json")

    assert answer.document["summary"]["paired"] == 3
    assert [suite["suite"] for suite in answer.document["suites"]] == ["greetings"]


def test_the_trend_of_a_sweep_is_over_its_nights_only(project: CliProject) -> None:
    of_nights = project("trend", "--sweep", "nightly", "--json").document
    by_name = project("trend", "nightly@previous", "nightly@latest", "--json").document

    assert [run["matched_test_count"] for run in of_nights["runs"]] == [3, 3]
    assert of_nights["summary"]["slope"] == by_name["summary"]["slope"] == 0


def test_a_plan_of_a_sweep_has_its_pairs_and_its_options(project: CliProject) -> None:
    nightly, smoke = (json.loads(project("plan", "--sweep", name, "--json").out) for name in ("nightly", "smoke"))

    assert [(each["runner"], each["to_execute"]) for each in nightly] == [("greeter", 3)]
    assert sorted((each["runner"], each["planned"]) for each in smoke) == [("greeter", 1), ("parrot", 1)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--sweep", "nightli"), "no sweep 'nightli'; there are: nightly, smoke"),
        (("compare", "smoke@latest", "nightly@latest"), "none of this name has finished"),
        (("trend", "--sweep", "smoke"), "no sweep 'smoke' has finished"),
    ],
)
def test_a_sweep_that_there_is_not_is_said(project: CliProject, arguments: tuple[str, ...], message: str) -> None:
    answer = project(*arguments)

    assert answer.code == 2
    assert message in answer.err
