"""Token snapshots in Dagster runs: compared, stored and written as by the command line; a check that warns."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.conformance.public_verbs import command
from eval_pipeline_tests.orchestration.test_dagster_runs import FinishedRun, run_job
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder

EXAMPLE = Path(__file__).parents[2] / "examples" / "skills"
KEY = "find-skill::agent-with"


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    """The example with a Python suite, sessions and baselines."""
    shutil.copytree(EXAMPLE, tmp_path / "skills", ignore=shutil.ignore_patterns("data"))
    return ProjectFolder(tmp_path / "skills")


def swept(project: ProjectFolder, **config: Any) -> FinishedRun:
    return run_job(project, "sweep", suites=["cases"], runners=["agent-with"], config=config)


def baselines(project: ProjectFolder, **values: int) -> dict[str, Any]:
    """The entries of the file, after some values of it are replaced."""
    file = project.root / "cases.snapshots.json"
    document: dict[str, Any] = json.loads(file.read_text())
    for name, value in values.items():
        document["entries"][name]["value"] = value
    if values:
        file.write_text(json.dumps(document))
    entries: dict[str, Any] = document["entries"]
    return entries


def test_tokens_above_a_baseline_are_a_check_that_warns_and_a_row_of_the_sweep(project: ProjectFolder) -> None:
    before = baselines(project, **{KEY: 10})

    run = swept(project)

    check = run.checks("token_snapshots")["cases@agent-with"]
    assert (run.success, check.passed, check.metadata["above"].value) == (True, False, 1)
    assert "find-skill: Snapshot mismatch for totalTokens: 1,240" in str(check.metadata["reasons"].value)
    assert any("cases × agent-with: 1 token snapshot above the baseline" in line for line in run.log)
    rows = project.ask(
        "SELECT case_id, sweep_id IN (SELECT sweep_id FROM sweeps) FROM token_snapshots WHERE NOT passed"
    )
    assert rows == [("find-skill", True)]
    assert baselines(project) == before


def test_the_command_line_fails_for_tokens_above_a_baseline_and_shows_them(project: ProjectFolder) -> None:
    baselines(project, **{KEY: 10})

    options = ("--project", project.root, "--runner", "agent-with", "--case", "find-skill", "--json")
    ended = command("run", project.root / "cases.py", *options)

    (snapshot,) = ended.json["snapshots"]
    assert (ended.code, snapshot["case_id"], snapshot["passed"]) == (1, "find-skill", False)
    assert "1 token snapshot above the baseline" in ended.out


def test_the_launchpad_takes_new_baselines(project: ProjectFolder) -> None:
    baselines(project, **{KEY: 10})

    run = swept(project, update_snapshots=True)

    assert run.checks("token_snapshots")["cases@agent-with"].passed is True
    assert baselines(project)[KEY]["value"] == 1240


def test_a_file_that_is_no_baseline_fails_the_run_before_anything_is_executed(project: ProjectFolder) -> None:
    (project.root / "cases.snapshots.json").write_text("{")

    run = swept(project)

    assert "cases.snapshots.json: is no file of snapshots" in run.failure
    assert not project.data.joinpath("results.duckdb").exists()
