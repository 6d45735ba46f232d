"""Connexity's example files in a sweep: a model with their tools, a simulated user and a judge at a local server."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.scores.evaluators.judge import CRITERIA_METRIC
from eval_pipeline.scores.grading.judge_metrics import REGISTRY
from eval_pipeline_tests.conformance.recorded_facts import conformance_folder
from eval_pipeline_tests.executions.test_canned_tools import calls, tool
from eval_pipeline_tests.local_server import Received, Reply, chat_reply, serve
from eval_pipeline_tests.sweeps.sample_project import every_cell, make_project

EXAMPLES = conformance_folder() / "connexity" / "examples"
POINTS = {"score": 5, "passed": True, "justification": "j", "failure_code": None, "turns": [1]}


def judgement(prompt: str) -> Reply:
    """Full points on every metric, and every outcome holds."""
    outcomes = re.search(r"each of the (\d+) outcomes", prompt)
    held = [{"passed": True, "justification": "j"}] * (int(outcomes[1]) if outcomes else 0)
    return chat_reply(json.dumps({**dict.fromkeys([*REGISTRY, CRITERIA_METRIC], POINTS), "expected_outcomes": held}))


def with_params(params: Any) -> Any:
    """Arguments of a call, placeholders of the later form filled in."""
    return json.loads(re.sub(r"\{\{\w+\}\}", "value", json.dumps(params or {})))


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="EVAL_PIPELINE_CONFORMANCE names no folder with Connexity's examples")
def test_every_example_file_is_carried_out_judged_and_passes(tmp_path: Path) -> None:
    files = sorted(EXAMPLES.rglob("*.json"))
    documents = [(file.parent.name, json.loads(file.read_text())) for file in files]
    openers = {
        (folder, document.get("initial_message") or document.get("first_message")): document
        for folder, document in documents
    }
    tools = {call["tool"] for _, document in documents for call in document["expected_tool_calls"] or ()}

    def agent(folder: str, messages: list[Mapping[str, Any]]) -> Reply:
        expected = openers[folder, messages[0]["content"]]["expected_tool_calls"] or []
        done = sum(message["role"] == "tool" for message in messages)
        if done < len(expected):
            return calls((expected[done]["tool"], with_params(expected[done].get("expected_params"))))
        return chat_reply("That is done.")

    def answer(request: Received) -> Reply:
        messages = request.json["messages"]
        if request.path.startswith("/user"):
            return chat_reply('{"message": "Thanks, bye.", "end": true}')
        if request.path.startswith("/judge"):
            return judgement(messages[0]["content"])
        return agent(request.path.split("/")[1], messages)

    project = make_project(tmp_path / "project")
    (project.root / "suites" / "sums.yaml").unlink()
    for file in files:
        copy = project.root / "suites" / file.parent.name / file.name
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(file, copy)
    with serve(answer) as server:
        chat = {"adapter": "chat", "model": "m", "retries": {"max_retries": 0}}
        others = [{"name": name, **chat, "base_url": f"{server.url}/{name}"} for name in ("user", "judge")]
        agents = [
            {"name": f"agent-{folder}", **chat, "base_url": f"{server.url}/{folder}", "tools": list(map(tool, tools))}
            for folder in {folder for folder, _ in documents}
        ]
        project.write_runners(*agents, *others)
        suites, _ = every_cell(project.session())
        pairs = [
            pair
            for ready in suites
            for pair in every_cell(project.session(), f"agent-{Path(ready.suite.path).parent.name}")[1]
            if pair.suite == ready.suite.name
        ]
        project.sweep_cells(pairs, simulator="user", grader="judge")

    verdicts = project.ask("SELECT status, coalesce(reason, '') FROM current_verdicts")
    assert [reason for status, reason in verdicts if status != "passed"] == []
    assert len(verdicts) == len(files) == 21
    assert project.ask("SELECT DISTINCT ended_by FROM session_reports") == [("user",)]
    results = "FROM session_events WHERE kind = 'tool_result'"
    without_answers = {"examples", "g0-first-publication"}
    assert set(
        project.ask(f"SELECT suite, bool_or(coalesce((event ->> '$.is_error')::BOOL, false)) {results} GROUP BY 1")
    ) == {(suite, suite in without_answers) for suite in {"examples", *(folder for folder, _ in documents)}}
