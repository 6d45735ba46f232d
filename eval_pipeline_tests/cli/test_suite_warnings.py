"""`run` and `plan` show what suites warn of; with --strict nothing is carried out."""

from __future__ import annotations

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject

MISSPELT = """\
execution: {targets: [parrot]}
asertions: [{type: contains, value: nowhere}]
tests:
  - {id: a, input: Ann, notes: x, assertions: [{type: contains, value: Ann}]}
  - {id: b, input: Bob, notes: x, criteria: greets, assertions: [{type: contains, value: Bob}]}
  - {id: c, input: Cid, notes: x, assertions: [{type: contains, value: Cid}]}
"""


@pytest.mark.parametrize("command", [("run", "--quiet"), ("plan",)])
def test_run_and_plan_show_the_warnings_of_suites_grouped_and_counted(
    cli_project: CliProject, command: tuple[str, ...]
) -> None:
    cli_project.write("suites/typo.yaml", MISSPELT)

    answer = cli_project(*command, "suites/typo.yaml")

    assert answer.code == 0
    shown = [line for line in answer.err.splitlines() if line.startswith("warning:")]
    assert len(shown) == 3
    assert "suites/typo.yaml:2: asertions: unknown suite field, ignored; did you mean 'assertions'?" in shown[0]
    assert "suites/typo.yaml:4: tests[0].notes: unknown test field, ignored" in shown[1]
    assert shown[1].endswith("(and 2 more like this)")
    assert "tests[1].criteria: nothing that evaluates this test reads its criteria" in shown[2]


@pytest.mark.parametrize("command", [("run", "--quiet"), ("plan",)])
def test_with_strict_warnings_are_errors_and_nothing_is_carried_out(
    cli_project: CliProject, command: tuple[str, ...]
) -> None:
    cli_project.write("suites/typo.yaml", MISSPELT)

    answer = cli_project(*command, "--strict", "suites/typo.yaml")

    assert answer.code == 2
    assert "suites/typo.yaml:2: asertions: unknown suite field" in answer.err
    assert answer.err.count("unknown test field") == 3
    assert cli_project("plan", "suites/greetings.yaml", "--strict").code == 2  # criteria that nothing reads


def test_a_suite_without_warnings_is_carried_out_with_strict(cli_project: CliProject) -> None:
    cli_project.write("suites/typo.yaml", MISSPELT.replace("asertions", "assertions").replace(" notes: x,", ""))
    cli_project.edit("suites/typo.yaml", "criteria: greets, ", "")

    answer = cli_project("plan", "--strict", "suites/typo.yaml")

    assert answer.code == 0
    assert "warning" not in answer.err
