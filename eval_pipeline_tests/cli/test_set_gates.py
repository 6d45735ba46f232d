"""The thresholds in the run configuration of a set of test cases are the gate of a run."""

from __future__ import annotations

import json
from typing import Any

import dagster as dg
import pytest

from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline_tests.cli.sample_project import Answer, CliProject, make_cli_project

RUNNERS = """\
runners:
  - {name: desk, adapter: python, function: "talk:desk", isolation: in-process}
  - {name: referee, adapter: python, function: "talk:referee", isolation: in-process}
"""
TALK = """\
import json

def desk(messages):
    return "You said " + messages[-1]["content"]

def referee(messages):
    request = "\\n".join(message["content"] for message in messages)
    key = request.rsplit('"key": "', 1)[1].split('"', 1)[0]
    score = 2 if "You said b" in request else 5
    points = {"score": score, "justification": "j", "failure_code": None, "turns": [1]}
    return json.dumps({"key": key, "tool_routing": points})
"""
BOTH_FAIL = {"cases_pass_threshold": 51, "metrics_pass_threshold": 71}
BOTH_HOLD = {"cases_pass_threshold": 50, "metrics_pass_threshold": 70}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """A project with a set of two cases: one passes with 100 points, one fails with 40."""
    files = {"eval-pipeline.yaml": "suites: [sets]\ndefaults: {grader: referee}\n", "runners.yaml": RUNNERS}
    return make_cli_project(tmp_path_factory.mktemp("gates"), {**files, "talk.py": TALK, "sets/talks.json": "{}"})


def run(project: CliProject, thresholds: dict[str, Any], *options: str) -> Answer:
    judge = {"metrics": [{"metric": "tool_routing"}]}
    user = {"mode": "scripted", "scripted_messages": ["unused"]}
    cases = [
        {"id": name, "name": name, "persona": None, "initial_message": name, "max_turns": 1} for name in ("a", "b")
    ]
    config = {"judge": judge, "user_simulator": user, **thresholds}
    (project.root / "sets" / "talks.json").write_text(
        json.dumps({"name": "talks", "test_cases": cases, "config": config})
    )
    return project("run", "sets", "--runner", "desk", *options)


@pytest.mark.parametrize(
    ("thresholds", "options", "code", "decisions"),
    [
        ({}, [], 1, []),
        (BOTH_HOLD, [], 0, ["GO", "GO"]),
        (BOTH_FAIL, [], 1, ["NO-GO", "NO-GO"]),
        ({"metrics_pass_threshold": 70}, [], 1, ["GO"]),
        (BOTH_HOLD, ["--min-pass-rate", "0.99"], 1, ["GO"]),
    ],
)
def test_thresholds_of_a_set_decide_the_exit_code(
    project: CliProject, thresholds: dict[str, Any], options: list[str], code: int, decisions: list[str]
) -> None:
    answer = run(project, thresholds, "--json", *options)

    assert (answer.code, [gate["decision"] for gate in answer.document["suite_gates"]]) == (code, decisions)


@pytest.mark.parametrize(("thresholds", "passed"), [(BOTH_HOLD, True), (BOTH_FAIL, False)])
def test_thresholds_of_a_set_decide_the_check_of_dagster(
    project: CliProject, thresholds: dict[str, Any], passed: bool
) -> None:
    run(project, thresholds, "--json")

    with open_instance(project.root / "data") as instance:
        key = dg.AssetCheckKey(dg.AssetKey("evaluator_scores"), "pass_rate")
        (record, *_) = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    check = record.event.asset_check_evaluation if record.event is not None else None
    assert check is not None
    assert check.passed is passed
    assert {name for name in check.metadata if name.endswith("_pass_threshold")} == set(thresholds)


def test_both_decisions_are_printed_with_the_figures(project: CliProject) -> None:
    answer = run(project, BOTH_FAIL)

    said = " ".join(answer.err.split())
    assert "NO-GO talks × desk: pass rate 50.0 %" in said
    assert "is below 51.0 % (cases_pass_threshold)" in said
    assert "mean score 70.0 %" in said
    assert "exit 1: gate: talks × desk: pass rate" in said
