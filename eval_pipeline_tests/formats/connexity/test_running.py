"""A test case of Connexity through a whole sweep: a runner plays the user, another judges, and the outcomes decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, make_project

FUNCTIONS = """
import json
import re


def answer(messages):
    return "Your parcel is on its way."


def play(messages):
    lines = sum(message["role"] == "assistant" for message in messages)
    return json.dumps({"message": f"Question {lines}", "end": lines == 2})


def judge(prompt):
    outcomes = re.findall(r"^\\\\d+\\\\. (.*)$", prompt, re.M)
    scores = {name: {"score": 3, "justification": "fine"} for name in re.findall(r"^- ([a-z_]+):", prompt, re.M)}
    results = [{"statement": each, "passed": "refund" not in each, "justification": "seen"} for each in outcomes]
    return json.dumps({**scores, "expected_outcomes": results})
"""
CASE: dict[str, Any] = {
    "name": "Where is my parcel?",
    "persona": {"type": "commuter", "description": "Waits.", "instructions": "Be brief."},
    "initial_message": "Where is my parcel?",
    "expected_tool_calls": [],
}


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    made = make_project(
        tmp_path / "project", suites=["suites/*.json"], defaults={"simulator": "play", "grader": "judge"}
    )
    (made.root / "talkers.py").write_text(FUNCTIONS.replace("\\\\", "\\"))
    names = ("answer", "play", "judge")
    made.write_runners(*({"name": name, "adapter": "python", "function": f"talkers:{name}"} for name in names))
    (made.root / "suites").mkdir(exist_ok=True)
    return made


@pytest.mark.parametrize(
    ("outcomes", "status", "results"),
    [
        ({"parcel_found": True}, "passed", [("parcel_found", 1.0)]),
        ({"parcel_found": True, "refund_given": True}, "failed", [("parcel_found", 1.0), ("refund_given", 0.0)]),
    ],
)
def test_the_outcomes_decide_whatever_the_points_are(
    folder: ProjectFolder, outcomes: dict[str, Any], status: str, results: list[tuple[str, float]]
) -> None:
    (folder.root / "suites" / "parcel.json").write_text(json.dumps(CASE | {"expected_outcomes": outcomes}))

    folder.sweep("suites", runner="answer", simulator="play", grader="judge")

    assert folder.ask("SELECT status, round(score, 2) FROM current_verdicts") == [(status, 0.6)]
    assert folder.ask("SELECT member, value FROM member_scores WHERE type = 'outcome' ORDER BY 1") == results
    assert folder.ask("SELECT value FROM current_scores WHERE evaluator = 'expected-calls'") == [(1.0,)]
