"""`eval-pipeline run`, told as one story on one project: each step runs once, the tests read what it said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline_tests.cli.sample_project import Answer, CliProject, make_cli_project


@dataclass(frozen=True, slots=True)
class Step:
    """What a run said, whom it asked the program about, and what the results held when it was done."""

    answer: Answer
    calls: list[str]
    scores: dict[str, int]
    verdicts: dict[tuple[str, str], str]

    @property
    def counts(self) -> dict[str, int]:
        return self.answer.counts


def step(cli_project: CliProject, *arguments: str) -> Step:
    before = len(cli_project.calls)
    answer = cli_project("run", "--json", *arguments)
    return Step(
        answer,
        cli_project.calls[before:],
        dict(cli_project.ask("SELECT evaluator, count(*) FROM evaluator_scores GROUP BY evaluator")),
        {(row[0], row[1]): row[2] for row in cli_project.ask("SELECT case_id, runner, status FROM current_verdicts")},
    )


@pytest.fixture(scope="module")
def cli_project(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    return make_cli_project(tmp_path_factory.mktemp("story"))


@pytest.fixture(scope="module")
def story(cli_project: CliProject) -> Mapping[str, Step]:
    steps = {"first": step(cli_project)}
    steps["second"] = step(cli_project, "--min-pass-rate", "0.5")
    cli_project.edit(
        "suites/greetings.yaml", "value: hello}", "value: hello}\n  - {name: short, type: regex, value: '^.{0,12}$'}"
    )
    steps["evaluator added"] = step(cli_project)
    cli_project.edit("suites/greetings.yaml", "'^.{0,12}$'", "'^.{0,9}$'")
    steps["evaluator edited"] = step(cli_project, "--min-pass-rate", "1")
    cli_project.edit("suites/greetings.yaml", "input: Bob", "input: Robert")
    steps["case edited"] = step(cli_project, "--runner", "greeter", "suites/greetings.yaml")
    cli_project.edit("greet.sh", '"go away"', '"oh, hello"')
    steps["program edited"] = step(cli_project, "--runner", "greeter", "suites/greetings.yaml")
    steps["failed again"] = step(cli_project, "--refresh", "failed", "--threshold", "0.4", "suites/greetings.yaml")
    steps["all again"] = step(cli_project, "--refresh", "all", "--repeat", "2", "--case", "ann", "--runner", "greeter")
    return steps


def test_the_first_run_executes_every_cell_once(story: Mapping[str, Step]) -> None:
    assert story["first"].counts == {
        "planned": 8, "reused": 0, "rescored": 0, "executed": 8, "passed": 7, "failed": 1, "errored": 0
    }  # fmt: skip
    assert sorted(story["first"].calls) == ["Ann", "Bob", "nobody"]


def test_a_run_with_a_failed_cell_exits_1(story: Mapping[str, Step]) -> None:
    assert story["first"].answer.code == 1


def test_the_leaderboard_of_a_run_ranks_by_pass_rate(story: Mapping[str, Step]) -> None:
    board = [row for row in story["first"].answer.document["leaderboard"] if row["suite"] == "greetings"]

    assert [(row["rank"], row["runner"], row["passed"], row["graded"]) for row in board] == [
        (1, "parrot", 3, 3),
        (2, "greeter", 2, 3),
    ]


def test_a_run_is_a_dagster_run_that_the_ui_shows(cli_project: CliProject, story: Mapping[str, Step]) -> None:
    with open_instance(cli_project.root / "data") as instance:
        run = instance.get_run_by_id(story["first"].answer.document["dagster_run_id"])

    assert run is not None
    assert (run.job_name, run.status.value) == ("sweep", "SUCCESS")


def test_a_second_run_calls_no_target(story: Mapping[str, Step]) -> None:
    assert story["second"].counts["reused"] == 8
    assert story["second"].calls == []


def test_a_pass_rate_that_is_high_enough_exits_0_though_a_cell_failed(story: Mapping[str, Step]) -> None:
    assert story["second"].answer.code == 0


def test_a_pass_rate_that_is_too_low_exits_1(story: Mapping[str, Step]) -> None:
    assert story["evaluator edited"].answer.code == 1


@pytest.mark.parametrize("edit", ["evaluator added", "evaluator edited"])
def test_an_edit_of_the_evaluators_scores_again_without_calling_any_target(
    story: Mapping[str, Step], edit: str
) -> None:
    assert story[edit].counts["rescored"] == 6
    assert story[edit].counts["executed"] == 0
    assert story[edit].calls == []


def test_only_the_evaluator_that_is_new_scores(story: Mapping[str, Step]) -> None:
    assert story["evaluator added"].scores == story["first"].scores | {"short": 6}
    assert story["evaluator edited"].scores == story["first"].scores | {"short": 12}


def test_an_edited_evaluator_changes_the_verdicts(story: Mapping[str, Step]) -> None:
    assert story["evaluator added"].verdicts["ann", "parrot"] == "passed"
    assert story["evaluator edited"].verdicts["ann", "parrot"] == "failed"


def test_an_edited_case_alone_is_executed_again(story: Mapping[str, Step]) -> None:
    assert story["case edited"].calls == ["Robert"]
    assert story["case edited"].counts["reused"] == 2


def test_an_edited_program_is_asked_everything_again(story: Mapping[str, Step]) -> None:
    assert sorted(story["program edited"].calls) == ["Ann", "Robert", "nobody"]


def test_refresh_failed_executes_only_what_does_not_pass_by_the_threshold_of_today(story: Mapping[str, Step]) -> None:
    failed_before = [cell for cell, status in story["program edited"].verdicts.items() if status == "failed"]

    again = story["failed again"].counts["executed"]

    assert 0 < again < len(failed_before) < 6


def test_a_lower_threshold_lets_more_pass(story: Mapping[str, Step]) -> None:
    assert story["program edited"].verdicts["ann", "parrot"] == "failed"
    assert story["failed again"].verdicts["ann", "parrot"] == "passed"


def test_refresh_all_executes_what_is_selected_as_often_as_it_is_repeated(story: Mapping[str, Step]) -> None:
    assert story["all again"].calls == ["Ann", "Ann"]


def test_every_execution_ever_made_is_kept(cli_project: CliProject, story: Mapping[str, Step]) -> None:
    made = sum(each.counts["executed"] for each in story.values())

    assert cli_project.ask("SELECT count(*), count(DISTINCT execution_id) FROM target_executions") == [(made, made)]


def test_the_sweeps_of_all_runs_are_written_down(cli_project: CliProject, story: Mapping[str, Step]) -> None:
    rows: list[tuple[Any, ...]] = cli_project.ask("SELECT status, refresh FROM sweeps ORDER BY sweep_id")

    assert rows == [("finished", "missing")] * 6 + [("finished", "failed"), ("finished", "all")]
