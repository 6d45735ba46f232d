"""What a suite sets of a grader: it reaches the model or the agent, or the case is refused where the suite sets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject
from eval_pipeline_tests.local_server import Received, Reply, chat_reply, serve
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, make_project

FAKE_CLI = """#!/usr/bin/env python3
import json, pathlib, sys
pathlib.Path(__file__).with_name("arguments").write_text(" ".join(sys.argv[1:]))
key = sys.stdin.read().split('"key": "')[1].split('"')[0]
grade = json.dumps({"key": key, "score": 0.9, "reason": "good"})
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": grade, "session_id": "s"}))
"""


def grade(request: Received) -> Reply:
    """The reply of a model that grades: the key of its instructions, and a score."""
    key = request.body.decode().split('\\"key\\": \\"')[1].split('\\"')[0]
    return chat_reply(json.dumps({"key": key, "score": 0.9, "reason": "good"}))


def graded_by(folder: ProjectFolder, **settings: Any) -> None:
    folder.write_suite(a_test("a", {"type": "llm-grader", "name": "judge", "target": "judge", **settings}))


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return make_project(tmp_path)


def test_a_model_and_a_temperature_reach_the_model_that_grades(folder: ProjectFolder) -> None:
    with serve(grade) as server:
        judge = {"name": "judge", "adapter": "chat", "base_url": server.url, "model": "small", "temperature": 1}
        folder.write_runners(a_runner_entry(), judge)
        graded_by(folder, model="large", temperature=0.25)
        folder.sweep()
        graded_by(folder, model="small", temperature=0.25)
        counts = folder.sweep()

    bodies = [request.json for request in server.requests]
    assert [(body["model"], body["temperature"]) for body in bodies] == [("large", 0.25), ("small", 0.25)]
    assert (counts.executed, counts.rescored) == (0, 1)


def test_a_model_and_a_limit_of_steps_reach_the_agent_that_grades(folder: ProjectFolder) -> None:
    program = folder.root / "claude"
    program.write_text(FAKE_CLI)
    program.chmod(0o755)
    judge = {"name": "judge", "adapter": "agent", "agent": "claude-code", "executable": str(program)}
    folder.write_runners(a_runner_entry(), judge)
    graded_by(folder, model="opus", max_steps=3)

    counts = folder.sweep()

    assert counts.passed == 1
    arguments = (folder.root / "arguments").read_text()
    assert "--model opus" in arguments
    assert "--max-turns 3" in arguments


CHAT = {"name": "judge", "adapter": "chat", "base_url": "http://127.0.0.1:9/v1", "model": "m"}
PROGRAM = {"name": "judge", "adapter": "python", "function": "target:answer", "model": "label"}
CODEX = {"name": "judge", "adapter": "agent", "agent": "codex"}


@pytest.mark.parametrize(
    ("judge", "settings", "problem"),
    [
        (CHAT, {"max_steps": 3}, "max_steps: grader 'judge' (adapter 'chat') has no steps to limit; leave it out"),
        (PROGRAM, {"model": "large"}, "model: grader 'judge' (adapter 'python') does not choose a model"),
        (PROGRAM, {"temperature": 0}, "temperature: grader 'judge' (adapter 'python') has no temperature"),
        (CODEX, {"temperature": 0}, "temperature: grader 'judge' (adapter 'agent') has no temperature"),
        (CODEX, {"max_steps": 3}, "max_steps: grader 'judge': codex has no option for this"),
    ],
    ids=["steps of a model", "model of a program", "temperature of a program", "temperature of an agent", "no option"],
)
@pytest.mark.parametrize("wrapped", [False, True], ids=["alone", "in a composite"])
def test_what_a_grader_does_not_have_is_refused_where_the_suite_sets_it(
    folder: ProjectFolder, judge: dict[str, Any], settings: dict[str, Any], problem: str, wrapped: bool
) -> None:
    folder.write_runners(a_runner_entry(), judge)
    evaluator = {"type": "llm-grader", "name": "strict", "target": "judge", **settings}
    group = {"type": "composite", "name": "both", "aggregator": {"type": "weighted_average"}, "assertions": [evaluator]}
    folder.write_suite(a_test("a", group if wrapped else evaluator))
    project = CliProject(folder.root)

    validated = project("validate", "suites")
    planned = project("plan", "suites")

    for answer in (validated, planned):
        assert answer.code == 2
        text = " ".join(answer.text.split())
        assert problem in text
        assert ("member 'strict', " if wrapped else ".") + problem in text or "llm-grader " + problem in text
        assert "suites/sums.yaml:1: " in text


def test_the_grader_of_the_command_line_grades_without_what_it_does_not_have(folder: ProjectFolder) -> None:
    folder.write_runners(a_runner_entry(), {**PROGRAM, "name": "other"})
    graded_by(folder, temperature=0)

    counts = folder.sweep(grader="other")

    assert counts.planned == 1
    assert len(folder.take_calls()) > 1  # the target, and the grader without a temperature
