"""Whatever a person writes wrongly is one message that names it, exit code 2, and never a stack trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline_tests.cli.sample_project import FILES, CliProject

RUN = ["run", "--quiet"]
ARGUMENTS = {
    "no such command": (["rnu"], "rnu"),
    "no such option": ([*RUN, "--runer", "greeter"], "--runer"),
    "no such suite": ([*RUN, "suites/greeting.yaml"], "no suite at"),
    "a glob that matches nothing": ([*RUN, "suites/*.toml"], "no suite at"),
    "no such runner": (
        [*RUN, "--runner", "greter"],
        "no runner 'greter'; there are: broken, greeter, parrot; did you mean 'greeter'?",
    ),
    "no such case": ([*RUN, "--case", "anne"], "no case 'anne'"),
    "a runner that no case is for": (
        ["run", "suites/more", "--runner", "greeter"],
        "no case is for greeter: each names the runners it is for (parrot)",
    ),
    "a tag that no case has": ([*RUN, "--tag", "nowhere"], "no case matches the selection: no tag 'nowhere'"),
    "a runner tag that no runner has": ([*RUN, "--runner-tag", "nowhere"], "nowhere"),
    "an empty name": ([*RUN, "--tag", "short,"], "a name is empty"),
    "no repetition": ([*RUN, "--repeat", "0"], "--repeat"),
    "a threshold above one": ([*RUN, "--threshold", "1.5"], "--threshold"),
    "no concurrency": ([*RUN, "--concurrency", "0"], "--concurrency"),
    "no such policy": ([*RUN, "--refresh", "always"], "'always'"),
    "no such project": ([*RUN, "--project", "nowhere.yaml"], "nowhere.yaml"),
    "no such runners file": ([*RUN, "--runners", "nowhere.yaml"], "nowhere.yaml"),
    "a data folder that is a file": ([*RUN, "--data", "greet.sh"], "greet.sh"),
    "SQL before any run": (["sql", "SELECT 1"], "no results at"),
    "a leaderboard before any run": (["leaderboard"], "no results at"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_a_wrong_argument_is_said_and_exits_2(cli_project: CliProject, arguments: list[str], message: str) -> None:
    answer = cli_project(*arguments)

    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.text


GREETINGS = FILES["suites/greetings.yaml"]
PARROT = '\n- {name: parrot, adapter: python, function: "parrot:say"}'
CONTENT = {
    "a suite that is not YAML": ("suites/greetings.yaml", "tests: [", "suites/greetings.yaml:"),
    "a suite without tests": ("suites/broken.json", '{"name": "x", "tests": {}}', "expected a list of tests"),
    "an unknown suite-level type": ("suites/greetings.yaml", "threshold: []\nexecution: 7\ntests: []", "execution"),
    "runners that are no list": ("runners.yaml", "runners: {a: b}", "expected a list under 'runners'"),
    "an unknown adapter": (
        "runners.yaml",
        "runners:\n- {name: greeter, adapter: comand}" + PARROT,
        "no adapter 'comand'",
    ),
    "a runner's unknown setting": (
        "runners.yaml",
        "runners:\n- {name: greeter, adapter: command, comand: [ls]}" + PARROT,
        "runners.yaml:2: runners[0].comand: unknown setting",
    ),
    "a function that is not there": (
        "runners.yaml",
        'runners:\n- {name: greeter, adapter: python, function: "parrot:sing"}' + PARROT,
        "cannot import 'parrot:sing'",
    ),
    "a recording that is not there": (
        "runners.yaml",
        "runners:\n- {name: greeter, adapter: replay, recording: gone.jsonl}" + PARROT,
        "no recording at gone.jsonl",
    ),
    "a runner whose environment is not set": (
        "runners.yaml",
        "runners:\n"
        "- {name: greeter, adapter: chat, base_url: 'http://127.0.0.1:9', model: m, api_key: '${{ DESK_NO_KEY }}'}\n"
        '- {name: parrot, adapter: python, function: "parrot:say"}',
        "needs the environment variable DESK_NO_KEY",
    ),
    "a runner that a suite names and nobody has": (
        "runners.yaml",
        'runners:\n- {name: parrot, adapter: python, function: "parrot:say"}',
        "no runner 'greeter'",
    ),
    "an unknown project field": ("eval-pipeline.yaml", "suite: [suites]", "did you mean 'suites'?"),
    "a project value of another type": ("eval-pipeline.yaml", "defaults: {repeat: many}", "eval-pipeline.yaml:1"),
    "a project that names no runners": ("eval-pipeline.yaml", "runners: gone.yaml", "gone.yaml"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "message"), CONTENT.values(), ids=CONTENT.keys())
def test_a_wrong_file_is_said_and_exits_2(cli_project: CliProject, name: str, text: str, message: str) -> None:
    cli_project.write(name, text)

    answer = cli_project("run", "--quiet")

    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.text


def test_runners_that_cannot_be_used_are_named_and_the_others_run(cli_project: CliProject) -> None:
    chat = "adapter: chat, base_url: 'http://127.0.0.1:9', model: m"
    file = cli_project.root / "runners.yaml"
    keyed = f"- {{name: keyed, {chat}, api_key: '${{{{ DESK_NO_KEY }}}}'}}"
    file.write_text(
        file.read_text().replace("runners:", f"runners:\n  {keyed}\n  - {{name: wrong, adapter: chat, modle: m}}")
    )

    suite, names = "suites/greetings.yaml", ("--runner", "greeter", "--runner", "keyed", "--runner", "wrong")
    answer = cli_project("run", suite, *names, "--quiet")
    alone = cli_project("run", suite, *names[2:], "--quiet")

    assert (answer.code, alone.code) == (2, 2)
    assert "2 unusable runners were left out" in answer.err
    assert "invalid: runner 'keyed' needs the environment variable DESK_NO_KEY; export it" in answer.err
    assert all("unknown setting" in each.err and "DESK_NO_KEY" in each.err for each in (answer, alone))
    assert {name for (name,) in cli_project.ask("SELECT DISTINCT runner FROM current_verdicts")} == {"greeter"}


_MISSPELLED = """name: misspelled
tests:
  - id: anna
    input: Anna
    assertions:
      - {type: contains, value: Anna}
      - type: not-icontain
        value: Bert
  - id: bert
    input: Bert
"""


def test_run_plan_and_validate_name_the_line_of_the_same_argument(cli_project: CliProject) -> None:
    cli_project.write("suites/misspelled.yaml", _MISSPELLED)

    answers = [cli_project(command, "suites/misspelled.yaml") for command in ("validate", "plan", "run")]

    assert ["suites/misspelled.yaml:7:" in answer.text for answer in answers] == [True, True, True]


def test_a_folder_without_anything_says_what_to_do(tmp_path: Path) -> None:
    answer = CliProject(tmp_path)("run")

    assert answer.code == 2
    assert "no suites: name files, folders or globs" in answer.err


def test_every_bad_file_is_named_at_once(cli_project: CliProject) -> None:
    cli_project.write("suites/one.yaml", "tests: 1")
    cli_project.write("suites/two.yaml", "tests: 2")

    answer = cli_project("run", "--quiet")

    assert "suites/one.yaml" in answer.err
    assert "suites/two.yaml" in answer.err


def test_a_results_file_that_is_no_database_is_said(cli_project: CliProject) -> None:
    cli_project.write("data/results.duckdb", "not a database")

    answer = cli_project("sql", "SELECT 1")

    assert answer.code == 2
    assert "results.duckdb cannot be read" in answer.err
    assert "Traceback" not in answer.text


def test_a_warehouse_that_is_no_database_is_said(cli_project: CliProject) -> None:
    cli_project.write("data/warehouse.duckdb", "not a database")

    answer = cli_project("plan")

    assert answer.code == 2
    assert "warehouse.duckdb cannot be opened" in answer.err
    assert "Traceback" not in answer.text


def test_validate_refuses_the_settings_of_token_baselines_that_a_run_refuses(cli_project: CliProject) -> None:
    file = cli_project.root / "eval-pipeline.yaml"
    file.write_text(file.read_text() + "snapshots: {tolerance: {percnt: 10}}\n")

    found, refused = cli_project("validate"), cli_project(*RUN)

    problem = "snapshots.tolerance.percnt: unknown field; there are: absolute, percent; did you mean 'percent'?"
    assert (found.code, refused.code) == (2, 2)
    assert problem in found.out
    assert problem in refused.err
