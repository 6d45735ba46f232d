"""`examples/skills`: a Python suite and its YAML twin give the same verdicts, offline, with two arms and a snapshot."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject

EXAMPLE = Path(__file__).parent.parent / "examples" / "skills"


def test_the_python_suite_and_its_twin_give_equal_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAGSTER_HOME", "EVAL_PIPELINE_PROJECT", "EVAL_PIPELINE_DATA"):
        monkeypatch.delenv(name, raising=False)
    shutil.copytree(EXAMPLE, tmp_path / "skills")
    project = CliProject(tmp_path / "skills")

    answer = project("run", "--json")

    rows = project.ask("SELECT suite, case_id, runner, status, failure_class FROM current_verdicts ORDER BY ALL")
    python, yaml = ([row[1:] for row in rows if row[0] == suite] for suite in ("cases", "twin"))
    assert (answer.code, python) == (1, yaml)
    assert {(case, runner): status for case, runner, status, _ in python} == {
        (case, runner): status
        for runner in ("agent-with", "agent-without")
        for case, status in (
            ("always-passes", "passed"),
            ("find-skill", "passed" if runner == "agent-with" else "failed"),
            ("install-skill", "passed" if runner == "agent-with" else "failed"),
            ("known-gap", "expected-failed"),
            ("stale-expectation", "unexpected-passed"),
        )
    }
    shown = json.loads(project("arms", "cases", "--json").out)
    of_arm = {row["runner"]: row for row in shown["skill_activation"]}
    assert (of_arm["agent-with"]["recall"], of_arm["agent-without"]["recall"]) == (1.0, 0.0)
    compared = project.ask("SELECT passed, count(*) FROM token_snapshots WHERE measured IS NOT NULL GROUP BY ALL")
    assert dict(compared)[True] == 6
    baselines = json.loads((EXAMPLE / "cases.snapshots.json").read_text())["entries"]
    assert baselines["find-skill::agent-with"]["value"] == 1240
