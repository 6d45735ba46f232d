"""How a run ends: 0 nothing failed, 1 something did, 2 invalid input, 3 nothing could be graded; and what it shows."""

from __future__ import annotations

import pytest

from eval_pipeline_tests.cli.sample_project import GREETINGS, Answer, CliProject, make_cli_project

ONE_BAD_CASE = GREETINGS + "  - {id: eve, input: 7, criteria: x}\n"
UNUSABLE_CASES = "name: greetings\ntests: [{id: eve, input: 7, criteria: x}]\n"


@pytest.fixture(scope="module")
def all_well(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    cli_project = make_cli_project(tmp_path_factory.mktemp("well"))
    return cli_project("run", "suites/greetings.yaml", "--tag", "short", "--data", "elsewhere")


def test_a_run_in_which_everything_passes_exits_0(all_well: Answer) -> None:
    assert all_well.code == 0


def test_the_leaderboard_goes_to_stdout_and_the_rest_to_stderr(all_well: Answer) -> None:
    assert "pass rate" in all_well.out
    assert "greeter" in all_well.out
    assert "4 executed, 0 reused, 0 scored again" in all_well.err


def test_a_run_says_where_to_look_next(all_well: Answer) -> None:
    assert "elsewhere/results.duckdb" in all_well.err
    assert "eval-pipeline sql --data elsewhere" in all_well.err
    assert "eval-pipeline view --data elsewhere" in all_well.err


def test_without_a_terminal_progress_is_a_line_per_suite_and_runner(all_well: Answer) -> None:
    assert "greetings × greeter: 2/2, passed 2, failed 0, errors 0" in all_well.err


def test_a_run_in_which_nothing_could_be_graded_exits_3(cli_project: CliProject) -> None:
    answer = cli_project("run", "suites/greetings.yaml", "--runner", "broken", "--json")

    assert answer.code == 3
    assert answer.document["exit_code"] == 3
    assert answer.counts["errored"] == 3


def test_a_bad_case_is_shown_and_counted_and_the_others_are_carried_out(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    cli_project = make_cli_project(tmp_path_factory.mktemp("bad"), {"suites/greetings.yaml": ONE_BAD_CASE})

    answer = cli_project("run", "suites/greetings.yaml", "--quiet")

    assert answer.code == 2
    assert "suites/greetings.yaml:9: tests[3].input: expected a text" in answer.err
    assert "6 executed" in answer.err
    assert "1 invalid case" in answer.err


def test_a_suite_without_any_usable_case_exits_2_and_names_its_cases(cli_project: CliProject) -> None:
    cli_project.write("suites/greetings.yaml", UNUSABLE_CASES)

    answer = cli_project("run", "suites/greetings.yaml", "--quiet")

    assert answer.code == 2
    assert "suites/greetings.yaml:2: tests[0].input" in answer.err
    assert "no case can be carried out" in answer.err


def test_a_run_that_cannot_publish_shows_its_board_and_says_why(cli_project: CliProject) -> None:
    cli_project.once("run", "suites/more/sums.jsonl", "--quiet")
    results = cli_project.root / "data" / "results.duckdb"
    results.unlink()
    results.mkdir()

    answer = cli_project("run", "suites/more/sums.jsonl")

    assert "sums × parrot" in answer.err
    assert "pass rate" in answer.out
    assert "problem: " in answer.err
    assert "results.duckdb" in answer.err.partition("problem: ")[2].partition("\n")[0]
    assert (answer.code, "the run did not succeed (see the problem above)" in answer.err) == (1, True)
