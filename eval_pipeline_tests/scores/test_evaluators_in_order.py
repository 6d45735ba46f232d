"""Evaluators of one case that share its workspace: one after another, in order; the others side by side."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.scores.evaluate import bind, evaluate_with
from eval_pipeline.scores.model import Score, Subject
from eval_pipeline.suites.model import EvaluatorSpec
from eval_pipeline_tests.builders import a_case, an_evaluator
from eval_pipeline_tests.scores.fake_grader import MembersDesk
from eval_pipeline_tests.scores.single_scores import a_report

SLOWLY_BUILDS = """
import json, os, pathlib, time
time.sleep(0.4)
pathlib.Path(os.environ["EVAL_PIPELINE_WORKSPACE"], "built").touch()
print(json.dumps({"score": 1}))
"""
LOOKS = """
import json, os, pathlib
print(json.dumps({"score": float(pathlib.Path(os.environ["EVAL_PIPELINE_WORKSPACE"], "built").exists())}))
"""
SEES_IT_OR_NOT = """
import json, pathlib
print(json.dumps({"score": float(pathlib.Path("workspace/built").exists())}))
"""


def scores(folder: Path, specs: list[EvaluatorSpec], workspace: Path | None) -> list[Score]:
    case = a_case()
    bound = [bind(spec, case, folder) for spec in specs]
    return asyncio.run(evaluate_with(MembersDesk(), Subject(case, a_report("x"), folder, workspace), bound))


def program(name: str) -> dict[str, Any]:
    return {"type": "code-grader", "name": name, "command": [sys.executable, f"{name}.py"]}


def evaluator(name: str) -> EvaluatorSpec:
    return an_evaluator("code-grader", command=program(name)["command"])


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name, text in {"builds": SLOWLY_BUILDS, "looks": LOOKS, "aside": SEES_IT_OR_NOT}.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def test_evaluators_that_share_the_workspace_run_one_after_another(workspace: Path) -> None:
    specs = [evaluator("builds"), evaluator("looks")]

    assert [score.value for score in scores(workspace.parent, specs, workspace)] == [1.0, 1.0]
    (workspace / "built").unlink()
    assert [score.value for score in scores(workspace.parent, specs[::-1], workspace)] == [0.0, 1.0]


@pytest.mark.parametrize("nested", ["assert-set", "composite"])
def test_members_that_share_the_workspace_run_one_after_another(workspace: Path, nested: str) -> None:
    aggregator = {"aggregator": {"type": "weighted_average"}} if nested == "composite" else {}
    outer = an_evaluator(nested, assertions=[program("builds"), program("looks")], **aggregator)
    after = evaluator("looks")

    group, alone = scores(workspace.parent, [outer, after], workspace)

    assert [member.value for member in group.members] == [1.0, 1.0]
    assert alone.value == 1.0


def test_evaluators_without_a_workspace_run_side_by_side(workspace: Path) -> None:
    in_the_suite = SLOWLY_BUILDS.replace('os.environ["EVAL_PIPELINE_WORKSPACE"]', "'workspace'")
    (workspace.parent / "builds.py").write_text(in_the_suite)

    _, aside = scores(workspace.parent, [evaluator("builds"), evaluator("aside")], None)

    assert aside.value == 0.0
