"""Runs that nobody asked for: they score stored answers again where that costs nothing, and leave everything else."""

from __future__ import annotations

import json

import pytest

from eval_pipeline.orchestration.sweep_step import AUTOMATIC_TAG
from eval_pipeline_tests.orchestration.test_dagster_runs import FinishedRun, run_job
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, contains

JUDGE = """
import json, pathlib

def judge(prompt):
    with pathlib.Path(__file__).with_name("judged.txt").open("a") as log:
        log.write("asked ")
    key = prompt.split('"key": "')[1].split('"')[0]
    return {"output": json.dumps({"key": key, "score": 0.9, "reason": "good"})}
"""
FAIR = {"type": "llm-grader", "name": "fair", "prompt": "Is it fair?"}


@pytest.fixture
def graded(folder: ProjectFolder) -> ProjectFolder:
    """A sweep was carried out, whose cases are graded by a program and by a text."""
    (folder.root / "eval-pipeline.yaml").write_text(json.dumps({"suites": ["suites"], "defaults": {"grader": "judge"}}))
    (folder.root / "judge.py").write_text(JUDGE)
    judge = {"name": "judge", "adapter": "python", "function": "judge:judge", "isolation": "in-process"}
    folder.write_runners(a_runner_entry(), judge)
    folder.write_suite(a_test("a", contains("2"), FAIR), a_test("b", contains("2")), execution={"targets": ["echo"]})
    assert run_job(folder, "load_suites").success
    assert run_job(folder, "sweep").success
    assert (len(folder.take_calls()), judged(folder)) == (2, 1)
    return folder


def judged(folder: ProjectFolder) -> int:
    return len((folder.root / "judged.txt").read_text().split())


def automatic(folder: ProjectFolder) -> FinishedRun:
    """The run that the sensor asks for."""
    return run_job(folder, "rescore", tags={AUTOMATIC_TAG: "scores"})


def statuses(folder: ProjectFolder) -> dict[str, str]:
    return dict(folder.ask("SELECT case_id, status FROM current_verdicts"))


def test_an_edited_text_is_scored_again_without_a_call(graded: ProjectFolder) -> None:
    graded.write_suite(a_test("a", contains("3"), FAIR), a_test("b", contains("2")), execution={"targets": ["echo"]})
    assert graded.ask("SELECT reason, needs FROM stale_pairs") == []  # nobody has read the file yet

    run = automatic(graded)

    assert run.success
    assert statuses(graded) == {"a": "failed", "b": "passed"}
    assert (graded.take_calls(), judged(graded)) == ([], 1)
    assert set(run.materializations("evaluator_scores")) == {"sums@echo"}


@pytest.mark.parametrize(
    ("test", "needs"),
    [
        pytest.param(a_test("a", contains("3"), {**FAIR, "prompt": "Is it just?"}), "graders", id="an edited question"),
        pytest.param(a_test("a", contains("3"), FAIR, text="2 pears"), "executions", id="an edited input"),
        pytest.param(a_test("c", contains("3")), "executions", id="a new case"),
    ],
)
def test_what_is_not_free_waits_to_be_asked_for(graded: ProjectFolder, test: dict[str, object], needs: str) -> None:
    before = graded.ask("SELECT * FROM current_verdicts ORDER BY case_id")
    graded.write_suite(test, a_test("b", contains("2")), execution={"targets": ["echo"]})

    run = automatic(graded)

    assert run.success
    assert graded.ask("SELECT * FROM current_verdicts ORDER BY case_id") == before
    assert (graded.take_calls(), judged(graded)) == ([], 1)
    assert any("left as they are: sums@echo" in line for line in run.log)
    assert not run.materializations("evaluator_scores")
    run_job(graded, "load_suites")
    assert graded.ask("SELECT reason, needs FROM stale_pairs") == [("suite", needs)]


def test_an_edited_text_is_free_for_stale_pairs(graded: ProjectFolder) -> None:
    graded.write_suite(a_test("a", contains("3"), FAIR), a_test("b", contains("2")), execution={"targets": ["echo"]})

    run_job(graded, "load_suites")

    assert graded.ask("SELECT reason, needs FROM stale_pairs") == [("suite", "nothing")]
