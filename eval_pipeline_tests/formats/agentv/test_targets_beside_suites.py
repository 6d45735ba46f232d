"""Projects of AgentV keep targets, `.env` and programs beside their eval files: each suite of a run finds its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project

SUITE = """
tests:
  - {id: a, criteria: says it, input: hello, assertions: [{type: contains, value: SAID}]}
"""


def targets(command: str, **fields: str) -> str:
    more = "".join(f", {name}: {value}" for name, value in fields.items())
    return f"targets:\n  - {{name: default, provider: cli, command: '{command}'{more}}}\n"


@pytest.fixture
def projects(tmp_path: Path) -> CliProject:
    """Two projects of one repository, each with its own target of the same name."""
    cli_project = make_cli_project(tmp_path)
    cli_project.write("repository/.git/HEAD", "")
    for project, folder in (("one", ".agentv/"), ("two", "")):
        cli_project.write(f"repository/{project}/evals/dataset.eval.yaml", SUITE.replace("SAID", project))
        cli_project.write(f"repository/{project}/{folder}targets.yaml", targets("cat answer.txt"))
        cli_project.write(f"repository/{project}/evals/answer.txt", f"from {project}")
    return cli_project


def test_suites_of_one_run_use_the_targets_beside_them_and_programs_run_in_their_folder(projects: CliProject) -> None:
    answer = projects("run", "repository", "--json")

    assert answer.code == 0
    assert projects.ask("SELECT suite, runner, status FROM current_verdicts ORDER BY suite") == [
        ("one.evals.dataset", "default", "passed"),
        ("two.evals.dataset", "default", "passed"),
    ]


def test_a_second_run_executes_nothing_and_a_changed_program_just_its_own_suite(projects: CliProject) -> None:
    projects.write("repository/one/evals/program.sh", "cat answer.txt")
    projects.write("repository/one/.agentv/targets.yaml", targets("sh program.sh"))
    projects("run", "repository")

    again = projects("plan", "repository", "--json")
    projects.write("repository/one/evals/program.sh", "cat answer.txt #")
    edited = projects("plan", "repository", "--json")

    assert [(row["suite"], row["to_execute"]) for row in again.document if row["to_execute"]] == []
    assert [row["suite"] for row in edited.document if row["to_execute"]] == ["one.evals.dataset"]


def test_variables_come_from_the_nearest_env_file(projects: CliProject) -> None:
    projects.write(".env", "ANSWER=far\nTOOL=cat\n")
    projects.write("repository/one/.env", "ANSWER=answer.txt\n")
    projects.write("repository/one/.agentv/targets.yaml", targets("${{ TOOL }} ${{ ANSWER }}"))

    assert projects("run", "repository/one").code == 0


def test_runners_named_on_the_command_line_replace_those_beside_suites(projects: CliProject) -> None:
    projects.write("mine.yaml", "runners: [{name: mine, adapter: command, command: 'echo one two'}]")

    answer = projects("run", "repository", "--runners", "mine.yaml", "--runner", "mine")

    assert answer.code == 0


def test_the_grader_of_a_suite_is_looked_up_beside_it(projects: CliProject) -> None:
    projects.write(
        "repository/one/.agentv/targets.yaml",
        targets("cat answer.txt", grader_target="judge")
        + '  - {name: judge, provider: mock, response: \'{"score": 1, "assertions": []}\'}\n',
    )
    projects.write(
        "repository/one/evals/dataset.eval.yaml",
        SUITE.replace("{type: contains, value: SAID}", "{type: llm-grader, name: quality, prompt: is it good}"),
    )

    assert projects("run", "repository/one").code == 0


def test_validate_finds_the_targets_beside_a_suite_and_leaves_unused_ones_alone(projects: CliProject) -> None:
    projects.write(
        "repository/one/.agentv/targets.yaml",
        targets("cat answer.txt") + "  - {name: editor, provider: vscode}\n",
    )
    projects.write("repository/two/evals/dataset.eval.yaml", f"execution: {{target: defalt}}{SUITE}")

    answer = projects("validate", "repository", "--json")

    assert [(each["file"], each["message"]) for each in answer.document if each["severity"] == "error"] == [
        (
            str(Path("repository/two/evals/dataset.eval.yaml")),
            "no runner 'defalt'; there are: broken, default, greeter, parrot; did you mean 'default'?",
        )
    ]


def test_an_unusable_target_of_the_project_is_an_error_where_a_suite_names_it_else_a_warning(tmp_path: Path) -> None:
    project = CliProject(tmp_path)
    project.write(".agentv/targets.yaml", targets("cat") + "  - {name: editor, provider: vscode}\n")
    project.write("evals/one.eval.yaml", SUITE)

    unused = project("validate", "evals", "--json")
    project.write("evals/one.eval.yaml", f"execution: {{target: editor}}{SUITE}")
    used = project("validate", "evals", "--json")

    problem = "provider 'vscode' is not supported yet"
    assert {each["severity"] for each in unused.document if problem in each["message"]} == {"warning"}
    assert {each["severity"] for each in used.document if problem in each["message"]} == {"error"}


def test_files_of_one_name_that_run_one_at_a_time_keep_their_own_results(projects: CliProject) -> None:
    one, two = (f"repository/{name}/evals/dataset.eval.yaml" for name in ("one", "two"))
    projects("run", one)

    first = projects("run", two)
    again = projects("plan", one, two, "--json")

    assert (
        f"{two}: called 'two.evals.dataset': 'dataset' is the name of results of {one}; give it a 'name:' of its own"
        in first.err
    )
    assert [(row["suite"], row["to_execute"]) for row in again.document] == [("dataset", 0), ("two.evals.dataset", 0)]
    assert projects.ask("SELECT suite, status FROM current_verdicts ORDER BY suite") == [
        ("dataset", "passed"),
        ("two.evals.dataset", "passed"),
    ]


def test_a_file_that_is_moved_keeps_its_results(projects: CliProject) -> None:
    projects("run", "repository/one/evals/dataset.eval.yaml")
    projects.root.joinpath("repository/one").rename(projects.root / "repository/three")

    moved = projects("plan", "repository/three/evals/dataset.eval.yaml", "--json")

    assert [row["suite"] for row in moved.document] == ["dataset"]
