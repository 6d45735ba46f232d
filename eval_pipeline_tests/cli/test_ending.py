"""The end of a run: which cases failed and why, the command that shows more, and why the exit code is not 0."""

from __future__ import annotations

import shlex
from unittest.mock import patch

import pytest

from eval_pipeline.warehouse import queries
from eval_pipeline_tests.cli.sample_project import Answer, CliProject, make_cli_project

MANY = "name: greetings\ntests:\n" + "".join(
    f"  - {{id: c{number:02}, input: Ann, assertions: [{{type: equals, value: no}}]}}\n" for number in range(12)
)
REPEATED = """\
name: greetings
execution: {targets: [greeter], trials: {count: 2, strategy: pass_at_k}}
assertions: [{name: polite, type: icontains, value: hello}]
tests: [{id: ann, input: Ann}, {id: nobody, input: nobody}]
"""

UNPREPARED = """\
name: greetings
execution: {targets: [greeter]}
workspace: {isolation: per_test, hooks: {before_each: {command: [sh, -c, "cd $0; touch begun; echo no network; \
echo no disk; exit 3", "{{workspace_path}}"]}}}
tests: [{id: ann, input: Ann, assertions: [{type: equals, value: no}]}]
"""


@pytest.fixture(scope="module")
def one_failed(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """A run of which one case of one runner fails."""
    return make_cli_project(tmp_path_factory.mktemp("failed"))("run", "suites/greetings.yaml", "--quiet")


def test_a_run_ends_with_the_cases_that_failed_and_why(one_failed: Answer) -> None:
    lines = one_failed.err.splitlines()

    at = lines.index("not passed: 1")
    assert lines[at + 1].split() == ["greetings/nobody", "greeter", "Assertion", "failure"]
    assert lines[at + 2].strip().startswith("score 0 is below 0.8; polite: ")
    assert lines[at + 3] == "more: eval-pipeline show greetings/nobody --runner greeter"


def test_a_run_says_why_it_exits_1(one_failed: Answer) -> None:
    assert one_failed.code == 1
    assert one_failed.err.splitlines()[-1] == "exit 1: greetings × greeter: 1 failed of 3 cases"


def test_a_failed_bootstrap_ends_with_its_folder_and_show_prints_its_output(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    cli_project = make_cli_project(tmp_path_factory.mktemp("bootstrap"), {"suites/greetings.yaml": UNPREPARED})

    answer = cli_project("run", "suites/greetings.yaml", "--quiet")

    lines = answer.err.splitlines()
    assert lines[lines.index("not passed: 1") + 1].split()[-2:] == ["Workspace", "bootstrap"]
    (place,) = (line.split(": ", 1)[1] for line in lines if line.startswith("    workspace: "))
    assert (cli_project.root / place / "begun").exists()
    shown = cli_project("show", "greetings/ann").out
    assert "output of before_each\n  no network\n  no disk\n" in shown
    assert place in shown


def test_a_run_in_which_everything_passes_ends_quietly(cli_project: CliProject) -> None:
    answer = cli_project("run", "suites/greetings.yaml", "--tag", "short", "--quiet")

    assert answer.code == 0
    assert "not passed" not in answer.err
    assert "exit" not in answer.err


def test_the_suggested_command_shows_the_case(cli_project: CliProject) -> None:
    answer = cli_project("run", "suites/greetings.yaml", "--quiet", "--data", "else where")
    more = next(line for line in answer.err.splitlines() if line.startswith("more: "))

    shown = cli_project(*shlex.split(more)[2:])

    assert shown.code == 0
    assert "go away" in shown.out


def test_a_long_list_of_failures_is_cut_and_says_how_to_see_all(tmp_path_factory: pytest.TempPathFactory) -> None:
    cli_project = make_cli_project(tmp_path_factory.mktemp("many"), {"suites/greetings.yaml": MANY})

    answer = cli_project("run", "suites/greetings.yaml", "--runner", "parrot", "--quiet")

    assert "not passed: 10 of 12" in answer.err
    assert "greetings/c09" in answer.err
    assert "greetings/c10" not in answer.err
    assert "all of them: eval-pipeline show --failed" in answer.err


def test_reasons_and_failed_cases_are_fields_of_the_json_outcome(cli_project: CliProject) -> None:
    with patch.object(queries, "failed_cases", wraps=queries.failed_cases) as read:
        outcome = cli_project("run", "suites/greetings.yaml", "--json").document

    assert read.call_count == 1, "the page of the run has them already"
    assert outcome["exit_reasons"] == ["greetings × greeter: 1 failed of 3 cases"]
    assert outcome["failed_cases"]["total"] == 1
    (case,) = outcome["failed_cases"]["cases"]
    assert (case["suite"], case["case_id"], case["runner"]) == ("greetings", "nobody", "greeter")
    assert (case["status"], case["failure_class"], case["label"]) == ("failed", "assertion", "Assertion failure")
    assert case["command"] == "eval-pipeline show greetings/nobody --runner greeter"


def test_a_pass_rate_is_missed_where_the_cases_show_it_and_open_where_they_do_not(cli_project: CliProject) -> None:
    run = ("run", "suites/greetings.yaml", "--runner", "greeter", "--quiet")
    by_flag, open_ = cli_project(*run, "--min-pass-rate", "0.99"), cli_project(*run, "--min-pass-rate", "0.9")
    required = cli_project(*run, "--min-pass-rate", "0.9", "--require-go")
    met = cli_project(*run, "--min-pass-rate", "0.01", "--require-go")
    no_rate = cli_project(*run, "--require-go")
    cli_project.edit("eval-pipeline.yaml", "suites:", "defaults: {min_pass_rate: 0.99}\nsuites:")
    by_file = cli_project(*run)

    rate = "greetings × greeter: pass rate 66.7 % (11.8–98.3)"
    assert f"exit 1: {rate} is below 99.0 % (--min-pass-rate)" in by_flag.err
    assert f"exit 1: {rate} is below 99.0 % (defaults.min_pass_rate of the project file)" in by_file.err
    undecided = f"{rate} may be below 90.0 %, or not (--min-pass-rate)"
    assert f"INCONCLUSIVE {undecided}" in open_.err
    assert f"exit 4: {undecided}" in required.err
    assert [answer.code for answer in (by_flag, by_file, open_, required, met, no_rate)] == [1, 1, 0, 4, 0, 2]
    assert "not passed: 1" in met.err
    assert "INCONCLUSIVE" not in met.err


def test_a_run_in_which_nothing_is_graded_says_so(cli_project: CliProject) -> None:
    answer = cli_project("run", "suites/greetings.yaml", "--runner", "broken", "--quiet")

    assert answer.code == 3
    assert "exit 3: nothing could be graded" in answer.err
    assert "greetings/ann  broken  Target crashed" in answer.err


def test_repetitions_that_a_strategy_makes_one_result_are_counted_by_case(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    cli_project = make_cli_project(tmp_path_factory.mktemp("repeated"), {"suites/greetings.yaml": REPEATED})

    answer = cli_project("run", "suites/greetings.yaml", "--quiet")
    gated = cli_project("run", "suites/greetings.yaml", "--quiet", "--min-pass-rate", "0.9")

    assert "greetings/nobody  greeter  Assertion failure  (2 of 2 repetitions)" in answer.err
    assert "exit 1: greetings × greeter: 1 failed of 2 cases" in answer.err
    assert "pass rate 50.0 % (2.6–97.4; cases by pass_at_k) may be below 90.0 %" in gated.err
