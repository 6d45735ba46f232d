"""A warehouse that is gone beside its published results: nothing is executed again without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """A project with results, and without their warehouse."""
    project = make_cli_project(tmp_path_factory.mktemp("swept"))
    project("run", "--quiet", "--runner", "greeter")
    (project.root / "data" / "warehouse.duckdb").unlink()
    return project


@pytest.mark.parametrize("command", ["run", "plan"])
def test_without_a_terminal_a_command_refuses_and_names_the_cure(swept: CliProject, command: str) -> None:
    answer = swept(command, "--runner", "greeter")

    assert answer.code == 2
    assert "is missing" in answer.err
    assert {"run": "--missing-warehouse restore", "plan": "cp "}[command] in answer.err
    assert "executed again" in answer.err
    assert len(swept.calls) == 3


def test_it_is_restored_from_the_results_or_begun_anew(swept: CliProject) -> None:
    restored = swept("run", "--json", "--runner", "greeter", "--missing-warehouse", "restore")
    (swept.root / "data" / "warehouse.duckdb").unlink()
    anew = swept("run", "--json", "--runner", "greeter", "--missing-warehouse", "new")

    assert (restored.counts["reused"], restored.counts["executed"]) == (3, 0)
    assert (anew.counts["reused"], anew.counts["executed"]) == (0, 3)
    assert len(list(Path(swept.root / "data").glob("results-until-*.duckdb"))) == 1
