"""Coding agents in suites without a workspace: `validate`, `plan` and `run` warn of them, once, before any is paid."""

from __future__ import annotations

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject

COMMANDS = pytest.mark.parametrize(
    "command", [("validate",), ("plan",), ("run", "--quiet")], ids=lambda words: words[0]
)
RUNNERS = """\
runners:
  - {name: one, adapter: agent, agent: codex, executable: ./agent.sh}
  - {name: two, adapter: agent, agent: claude, executable: ./agent.sh}
  - {name: placed, adapter: agent, agent: codex, executable: ../agent.sh, cwd: elsewhere}
  - {name: parrot, adapter: python, function: "parrot:say", isolation: in-process}
"""
CASE = "{id: %s, input: hi, assertions: [{type: contains, value: hi}]%s}"
WARNING = "coding agents 'one', 'two' work in . for cases without `workspace` (in 'bare', 'mixed'): they can read"


@pytest.fixture
def agents(cli_project: CliProject) -> CliProject:
    """A project of agents: the suite `sealed` has a workspace, one of two cases of `mixed`, and none of `bare`."""
    for name in ("suites/greetings.yaml", "suites/more/sums.jsonl"):
        (cli_project.root / name).unlink()
    cli_project.write("runners.yaml", RUNNERS)
    cli_project.write("agent.sh", "#!/bin/sh\nexit 1\n")
    (cli_project.root / "agent.sh").chmod(0o755)
    (cli_project.root / "elsewhere").mkdir()
    cli_project.write("suites/bare.yaml", f"tests: [{CASE % ('a', '')}, {CASE % ('b', '')}]\n")
    cli_project.write("suites/mixed.yaml", f"tests: [{CASE % ('a', '')}, {CASE % ('b', ', workspace: {}')}]\n")
    cli_project.write("suites/sealed.yaml", f"workspace: {{}}\ntests: [{CASE % ('a', '')}]\n")
    return cli_project


@COMMANDS
def test_one_warning_names_the_agents_the_suites_and_the_cure(agents: CliProject, command: tuple[str, ...]) -> None:
    text = " ".join(agents(*command).text.split())

    assert text.count("without `workspace`") == 1
    assert WARNING in text
    assert "`workspace: {}` of a suite is an empty folder elsewhere" in text


@pytest.mark.parametrize("command", ["validate", "plan"])
@pytest.mark.parametrize("suite", ["bare", "sealed"])
def test_workspaces_a_named_folder_and_other_runners_are_no_reason_to_warn(
    agents: CliProject, command: str, suite: str
) -> None:
    runners = "execution: {targets: [%s]}\n" % ("placed, parrot" if suite == "bare" else "one, parrot")
    agents.edit(f"suites/{suite}.yaml", "tests:", runners + "tests:")

    assert "without `workspace`" not in agents(command, f"suites/{suite}.yaml").text


@pytest.mark.parametrize("case", ["a", "b"])
def test_only_selected_cases_count(agents: CliProject, case: str) -> None:
    text = agents("plan", "suites/mixed.yaml", "--case", case).text

    assert ("without `workspace`" in text) is (case == "a")


def test_with_strict_nothing_is_carried_out(agents: CliProject) -> None:
    answer = agents("run", "--strict", "--quiet", "suites/bare.yaml")

    assert answer.code == 2
    assert "without `workspace` (in 'bare')" in answer.err
