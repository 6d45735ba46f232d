"""`validate`: everything that is wrong or odd, each with its place, without carrying anything out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.cli.sample_project import RUNNERS, Answer, CliProject, make_cli_project

SUITE = """\
name: plain
tests:
  - id: ann
    input: Ann
    assertions: [{type: contains, value: hello}]
"""
WRONG = """\
name: wrong
execution: {target: gretter}
tests:
  - {id: one, input: 7, criteria: x}
  - {id: two, input: hi, assertions: [{type: contians, value: x}, {type: contains}]}
  - {id: three, input: hi, criteria: x, execution: {target: nobody}}
"""


@pytest.fixture
def cli_project(tmp_path: Path) -> CliProject:
    """A project with one suite that is all right."""
    empty = dict.fromkeys(("suites/greetings.yaml", "suites/more/sums.jsonl"), "")
    cli_project = make_cli_project(tmp_path, {**empty, "suites/plain.yaml": SUITE})
    for name in empty:
        (tmp_path / name).unlink()
    return cli_project


def findings(answer: Answer) -> set[tuple[Any, ...]]:
    """Severity, file, line and field of what was found."""
    return {(each["severity"], each["file"], each["line"], each["field"]) for each in answer.document}


def messages(answer: Answer) -> str:
    return "\n".join(each["message"] for each in answer.document)


def test_valid_suites_are_counted(cli_project: CliProject) -> None:
    cli_project.write(
        "suites/sums.jsonl", '{"id": "one", "input": "1", "assertions": [{"type": "contains", "value": "1"}]}\n'
    )

    answer = cli_project("validate")

    assert answer.code == 0
    assert answer.out.splitlines() == ["plain: 1 case", "sums: 1 case", "0 errors, 0 warnings"]


def test_everything_that_is_wrong_is_found_at_once(cli_project: CliProject) -> None:
    cli_project.write("suites/wrong.yaml", WRONG)
    cli_project.write("suites/none.yaml", "tests: 1")
    cli_project.write("runners.yaml", RUNNERS + "  - {name: a, adapter: comand}\n  - {name: b}\n")

    answer = cli_project("validate", "--json")

    assert answer.code == 2
    assert findings(answer) == {
        ("error", "suites/none.yaml", 1, "tests"),
        ("error", "suites/wrong.yaml", 2, "execution.target"),
        ("error", "suites/wrong.yaml", 4, "tests[0].input"),
        ("error", "suites/wrong.yaml", 5, "tests[1].assertions[0].type"),
        ("error", "suites/wrong.yaml", 5, "tests[1].assertions[1].value"),
        ("error", "suites/wrong.yaml", 6, "case 'three' execution.target"),
        ("error", "runners.yaml", 5, "runners[3].adapter"),
        ("error", "runners.yaml", 6, "runners[4].adapter"),
    }


def test_findings_are_shown_with_their_places(cli_project: CliProject) -> None:
    cli_project.write("suites/wrong.yaml", WRONG)

    answer = cli_project("validate")

    assert "error   suites/wrong.yaml:2: execution.target: no runner 'gretter'; there are:" in answer.out
    assert "did you mean 'greeter'?" in answer.out
    assert answer.out.splitlines()[-1] == "5 errors, 0 warnings"


def test_a_suite_may_name_a_runner_whose_entry_is_broken(cli_project: CliProject) -> None:
    cli_project.write(
        "runners.yaml", "runners:\n  - {name: mine, adapter: comand}\n  - {adapter: command, command: [ls]}\n"
    )
    cli_project.edit("suites/plain.yaml", "tests:", "execution: {target: mine}\ntests:")

    answer = cli_project("validate", "--json")

    assert {each["file"] for each in answer.document} == {"runners.yaml"}


def test_runners_that_suites_name_are_not_asked_for_where_no_runners_are_known(tmp_path: Path) -> None:
    cli_project = CliProject(tmp_path)
    cli_project.write("plain.yaml", SUITE.replace("tests:", "execution: {target: mine}\ntests:"))

    assert cli_project("validate", "plain.yaml").code == 0


def test_an_evaluator_that_a_suite_gives_to_all_its_tests_is_said_once(cli_project: CliProject) -> None:
    tests = "".join(f"  - {{id: t{number}, input: x, criteria: y}}\n" for number in range(9))
    cli_project.write("suites/plain.yaml", f"assertions: [{{type: regex, value: '('}}]\ntests:\n{tests}")

    answer = cli_project("validate", "--json")

    errors = [(each["line"], each["field"]) for each in answer.document if each["severity"] == "error"]
    assert errors == [(1, "assertions[0]")]


def test_a_wrong_evaluator_of_a_jsonl_file_stands_in_its_line(cli_project: CliProject) -> None:
    rows = (
        '{"id": "a", "input": "x", "assertions": [{"type": "contains", "value": "1"}]}',
        '{"id": "b", "input": "x", "assertions": [{"type": "contains", "worth": "1"}]}',
    )
    cli_project.write("suites/rows.jsonl", "\n".join(rows))

    answer = cli_project("validate", "suites/rows.jsonl", "--json")

    assert findings(answer) == {("error", "suites/rows.jsonl", 2, "assertions[0].worth")}


# Warnings


ODD = {
    "an unknown field": ("colour: red\n" + SUITE, 1, "colour", "unknown suite field"),
    "a role marker": (SUITE.replace("input: Ann", "input: '@[User]: Ann'"), 4, "tests[0].input", "'@[User]:' inside"),
    "a role marker in a message": (
        SUITE.replace("input: Ann", "input: [{role: user, content: '@[Assistant]: x'}]"),
        4,
        "tests[0].input[0].content",
        "'@[Assistant]:' inside",
    ),
    "an empty list of evaluators": (
        SUITE.replace("assertions: [{type: contains, value: hello}]", "assertions: []\n    criteria: polite"),
        5,
        "tests[0].assertions",
        "the list is empty",
    ),
    "an older spelling": (SUITE.replace("tests:", "eval_cases:"), 2, "eval_cases", "older spelling"),
    "an attached file that is empty": (
        SUITE.replace("input: Ann", "input: Ann\n    input_files: [empty.txt]"),
        3,
        "case 'ann'",
        "empty.txt is empty",
    ),
}


@pytest.mark.parametrize(("text", "line", "field", "message"), ODD.values(), ids=ODD.keys())
def test_what_is_odd_is_a_warning(cli_project: CliProject, text: str, line: int, field: str, message: str) -> None:
    cli_project.write("suites/plain.yaml", text)
    cli_project.write("suites/empty.txt", "")

    answer = cli_project("validate", "--json")

    assert answer.code == 0
    assert ("warning", "suites/plain.yaml", line, field) in findings(answer)
    assert message in messages(answer)


def test_more_warnings_than_are_allowed_exit_1(cli_project: CliProject) -> None:
    cli_project.edit("suites/plain.yaml", "tests:", "colour: red\ntests:")

    assert cli_project("validate").code == 0
    assert cli_project("validate", "--max-warnings", "1").code == 0
    assert cli_project("validate", "--max-warnings", "0").code == 1


def test_errors_weigh_more_than_too_many_warnings(cli_project: CliProject) -> None:
    cli_project.edit("suites/plain.yaml", "tests:", "colour: red\nexecution: {target: nobody}\ntests:")

    assert cli_project("validate", "--max-warnings", "0").code == 2


# Files of every kind


KINDS = {
    "runners by name": ("runners.yaml", "runners:\n  - {name: a, adapter: comand}\n", "runners[0].adapter"),
    "targets by name": (".agentv/targets.yaml", "targets:\n  - {name: a, provider: nobody}\n", "targets[0].provider"),
    "targets by schema": (
        "mine.yaml",
        "$schema: agentv-targets-v2.2\ntargets:\n  - {name: a, provider: nobody}\n",
        "targets[0].provider",
    ),
    "suite by schema": ("targets.yaml", "$schema: agentv-eval-v2\ntests:\n  - {id: a}\n", "tests[0].input"),
    "the project": ("eval-pipeline.yaml", "suite: [suites]\n", "suite"),
    "AgentV's configuration that is none": (".agentv/config.yaml", "[1, 2]\n", None),
}


@pytest.mark.parametrize(("name", "text", "field"), KINDS.values(), ids=KINDS.keys())
def test_files_are_checked_as_what_they_are(tmp_path: Path, name: str, text: str, field: str | None) -> None:
    cli_project = CliProject(tmp_path)
    cli_project.write(name, text)

    answer = cli_project("validate", name, "--json")

    assert answer.code == 2
    assert (name, field) in {(each["file"], each["field"]) for each in answer.document}


CONFIG = """\
required_version: 5
eval_patterns: evals
execution: {verbose: yes please, pool_slots: 51, workers: 3, keep_workspaces: true}
studio: [1]
"""


def test_what_is_wrong_in_agentvs_configuration_is_a_warning(tmp_path: Path) -> None:
    cli_project = CliProject(tmp_path)
    cli_project.write(".agentv/config.yaml", CONFIG)

    answer = cli_project("validate", ".agentv/config.yaml", "--json")

    assert answer.code == 0
    assert {(each["line"], each["field"]) for each in answer.document} == {
        (1, "required_version"), (2, "eval_patterns"), (3, "execution.verbose"), (3, "execution.pool_slots"),
        (3, "execution.workers"), (4, "studio"),
    }  # fmt: skip


def test_several_files_and_globs_are_checked_together(cli_project: CliProject) -> None:
    cli_project.write("more/a.yaml", SUITE.replace("plain", "a"))
    cli_project.write("more/b.yaml", "tests: 2")
    cli_project.write("more/targets.yaml", "targets:\n  - {name: a, provider: nobody}\n")

    answer = cli_project("validate", "suites/plain.yaml", "more/*.yaml", "--json")

    assert {each["file"] for each in answer.document} == {"more/b.yaml", "more/targets.yaml"}


def test_suites_of_one_name_are_warned_of_and_each_is_checked(cli_project: CliProject) -> None:
    cli_project.write("suites/again.yaml", SUITE)

    answer = cli_project("validate", "--json")

    assert [each["severity"] for each in answer.document] == ["warning", "warning"]
    assert {each["message"] for each in answer.document} == {
        "several suites are named 'plain': each is called by its path; give each a 'name:' of its own"
    }


@pytest.mark.parametrize("name", ["nowhere.yaml", "nowhere/*.yaml"], ids=["file", "glob"])
def test_a_file_that_is_not_there_is_said(cli_project: CliProject, name: str) -> None:
    answer = cli_project("validate", name)

    assert answer.code == 2
    assert "no suite at" in answer.err


def test_text_in_brackets_is_shown_as_it_is(cli_project: CliProject) -> None:
    cli_project.write("suites/plain.yaml", "tests: [{id: a, input: [{role: '[/red]', content: x}], criteria: x}]")

    answer = cli_project("validate")

    assert answer.code == 2
    assert "no role '[/red]'" in answer.out


def test_a_folder_with_brackets_in_its_name_is_no_glob(tmp_path: Path) -> None:
    (tmp_path / "[a] b").mkdir()
    cli_project = CliProject(tmp_path / "[a] b")
    cli_project.write("plain.yaml", SUITE)
    cli_project.write("targets.yaml", "targets:\n  - {name: a, provider: nobody}\n")

    answer = cli_project("validate", "tar*.yaml", "plain.yaml", "--json")

    assert {each["file"] for each in answer.document} == {"targets.yaml"}


def test_a_broken_project_file_is_a_finding(cli_project: CliProject) -> None:
    cli_project.write("eval-pipeline.yaml", "suite: [suites]\n")

    answer = cli_project("validate", "--json")

    assert (answer.code, findings(answer)) == (2, {("error", "eval-pipeline.yaml", 1, "suite")})


UNGRADED = "name: plain\ntests:\n  - {id: ann, input: Ann, criteria: a greeting}\n"
CHAT = "{name: model, adapter: chat, model: m, base_url: 'http://127.0.0.1:9', api_key: k}"
NAMED = "{type: llm-grader, prompt: a, target: parrot}"


def test_answers_that_no_model_grades_are_a_warning(cli_project: CliProject) -> None:
    cli_project.write("suites/plain.yaml", UNGRADED)

    answer = cli_project("validate", "--json")
    refused = cli_project("plan")

    (finding,) = answer.document
    assert (finding["severity"], finding["file"], finding["line"]) == ("warning", "suites/plain.yaml", 3)
    assert finding["message"].startswith("run refuses it: needs a grader for the answers of 'greeter'")
    assert finding["message"].endswith("(and 2 other runners in this suite)")
    assert refused.code == 2
    assert "needs a grader for the answers of 'greeter'" in refused.err


def test_the_simulator_of_the_project_plays_the_users_of_every_suite(cli_project: CliProject) -> None:
    cli_project.write("suites/plain.yaml", PLAYED)
    without = cli_project("validate", "--json")
    cli_project.write("eval-pipeline.yaml", "suites: [suites]\ndefaults: {simulator: parrot}\n")

    assert any("needs a simulator" in finding["message"] for finding in without.document)
    assert cli_project("validate", "--json").document == []


PLAYED = "name: plain\ntests:\n  - {id: ann, user: {persona: p}, assertions: [{type: contains, value: x}]}\n"


@pytest.mark.parametrize(
    "cure",
    [
        ("eval-pipeline.yaml", "suites: [suites]\ndefaults: {grader: parrot}\n"),
        ("suites/plain.yaml", UNGRADED.replace("criteria: a greeting", "assertions: [{type: contains, value: A}]")),
        ("suites/plain.yaml", UNGRADED.replace("criteria: a greeting", f"assertions: [{NAMED}]")),
    ],
    ids=["default", "no-grader-needed", "named"],
)  # fmt: skip
def test_a_suite_with_graders_has_no_warning(cli_project: CliProject, cure: tuple[str, str]) -> None:
    cli_project.write("suites/plain.yaml", UNGRADED)
    cli_project.write(*cure)

    assert cli_project("validate", "--json").document == []
    assert cli_project("plan").code == 0


def test_a_budget_that_cannot_hold_is_a_warning(cli_project: CliProject) -> None:
    cli_project.write("runners.yaml", f"runners: [{CHAT}]\n")
    cli_project.edit("suites/plain.yaml", "name: plain\n", "name: plain\nexecution: {budget_usd: 1}\n")

    answer = cli_project("validate")

    assert answer.code == 0
    assert "run refuses it: the budget of suite 'plain' (1 USD) cannot hold" in answer.out


def test_a_field_beside_execution_is_named_with_its_place(cli_project: CliProject) -> None:
    cli_project.edit("suites/plain.yaml", "name: plain\n", "name: plain\nbudget_usd: 1\nworkers: 1\n")

    answer = cli_project("validate")

    assert "suites/plain.yaml:2: budget_usd: unknown suite field, ignored; it belongs under 'execution'" in answer.out
    assert "suites/plain.yaml:3: workers: unknown suite field, ignored; it belongs under 'execution'" in answer.out


@pytest.mark.parametrize(
    ("defaults", "line", "field", "message"),
    [
        (
            "runners: [greeter, parot]",
            4,
            "defaults.runners[1]",
            "no runner 'parot'; there are: broken, greeter, parrot; did",
        ),
        ("grader: gretter", 4, "defaults.grader", "did you mean 'greeter'?"),
    ],
)
@pytest.mark.parametrize("names", [(), ("eval-pipeline.yaml",)], ids=["the project", "the file"])
def test_a_runner_that_the_defaults_name_and_that_does_not_exist_is_an_error(
    cli_project: CliProject, names: tuple[str, ...], defaults: str, line: int, field: str, message: str
) -> None:
    cli_project.write("eval-pipeline.yaml", f"suites: [suites]\n\ndefaults:\n  {defaults}\n")

    answer = cli_project("validate", "--json", *names)

    assert answer.code == 2
    assert findings(answer) == {("error", "eval-pipeline.yaml", line, field)}
    assert message in messages(answer)


def test_a_wrong_field_of_a_suite_hides_no_wrong_test(cli_project: CliProject) -> None:
    tests = "tests:\n  - {id: one, input: 7, criteria: x}\n  - {id: two}\n  - {id: three, input: hi}\n"
    cli_project.write("suites/plain.yaml", f"tags: 3\ninput: 4\nassertions: 5\n{tests}")

    answer = cli_project("validate", "--json")

    fields = {place[3] for place in findings(answer)}
    assert fields == {"tags", "input", "assertions", "tests[0].input", "tests[1].input"}


def test_wrong_variables_of_a_suite_are_reported_alone(cli_project: CliProject) -> None:
    cli_project.write("suites/plain.yaml", "vars: 3\ntests: [{id: a, input: hi, criteria: x, timeout_s: '{{ t }}'}]\n")

    assert {place[3] for place in findings(cli_project("validate", "--json"))} == {"vars"}


def test_of_many_wrong_tests_beside_a_wrong_suite_the_first_are_reported(cli_project: CliProject) -> None:
    tests = "".join(f"  - {{id: t{number}, input: 7, criteria: x}}\n" for number in range(50))
    cli_project.write("suites/plain.yaml", f"tags: 3\ntests:\n{tests}")

    assert len(cli_project("validate", "--json").document) == 21


WRONG_RUNNERS = """\
runners:
  - {name: one, adapter: mock, respons: "4", unknown: 1, timeout_s: -1, concurrency: 0, retries: many}
  - {name: two, adapter: mok}
  - {name: good, adapter: mock, response: "4"}
"""


def test_every_wrong_field_of_a_runner_is_reported(cli_project: CliProject) -> None:
    cli_project.write("runners.yaml", WRONG_RUNNERS)

    answer = cli_project("validate", "--json")

    assert findings(answer) == {
        *(("error", "runners.yaml", 2, f"runners[0].{name}") for name in FIELDS_OF_ONE),
        ("error", "runners.yaml", 3, "runners[1].adapter"),
    }
    assert cli_project("plan", "--runner", "good").code == 0


FIELDS_OF_ONE = ("respons", "unknown", "timeout_s", "concurrency", "retries")


def test_a_runner_without_a_name_hides_no_other_error(cli_project: CliProject) -> None:
    cli_project.write("runners.yaml", f"{WRONG_RUNNERS}  - {{adapter: mock, response: x}}\n  - 5\n")

    fields = {place[3] for place in findings(cli_project("validate", "--json"))}

    assert fields == {*(f"runners[0].{name}" for name in FIELDS_OF_ONE), "runners[1].adapter", "runners[3].name",
                      "runners[4]"}  # fmt: skip


def test_run_names_the_place_of_a_default_runner_that_does_not_exist(cli_project: CliProject) -> None:
    cli_project.write("eval-pipeline.yaml", "suites: [suites]\ndefaults: {runners: [parot]}\n")

    answer = cli_project("run")

    assert answer.code == 2
    assert "eval-pipeline.yaml:2: defaults.runners[0]: no runner 'parot'" in answer.err
    assert cli_project("run", "--runner", "parrot", "--quiet").code == 0


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_a_runners_file_without_runners_is_an_error(cli_project: CliProject, command: str) -> None:
    cli_project.write("runners.yaml", "\nrunners: []\n")

    answer = cli_project(command)

    assert answer.code == 2
    assert "runners.yaml:2: runners: expected at least one" in answer.out + answer.err


@pytest.mark.parametrize(
    ("file", "text", "place"),
    [
        ("none.yaml", "name: none\ntests: []\n", ("suites/none.yaml", 2, "tests")),
        ("none.jsonl", "\n\n", ("suites/none.jsonl", None, None)),
        ("none.eval.yaml", "tests: []\n", ("suites/none.eval.yaml", 1, "tests")),
    ],
)
def test_a_suite_without_tests_is_a_warning(
    cli_project: CliProject, file: str, text: str, place: tuple[Any, ...]
) -> None:
    cli_project.write(f"suites/{file}", text)

    answer = cli_project("validate", "--json", f"suites/{file}")
    plan = ("plan", "suites/plain.yaml", f"suites/{file}", "--runner", "parrot")

    assert answer.code == 0
    assert findings(answer) == {("warning", *place)}
    assert "the suite has no tests" in messages(answer)
    assert "the suite has no tests" in cli_project(*plan).err
    assert cli_project(*plan, "--strict").code == 2
