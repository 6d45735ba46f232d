"""A stranger's agent CLI: one module and one entry point, and the pipeline starts, reads, scores and imports it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.forks import run_command

PLUG_IN = '''
"""The agent CLI `scribe`."""

from eval_pipeline.agents.agent_cli import AgentCli, Launch, option
from eval_pipeline.agents.session_store import JsonlSessions, RecordField
from eval_pipeline.reports.jsonl_records import read_records
from eval_pipeline.reports.model import MessageEvent, SessionReport, ToolCallEvent, ToolResultEvent


class ScribeNormalizer:
    """What scribe prints, which is also what it keeps."""

    version = "1"

    def normalize(self, material):
        rows = [row.value for row in read_records(material.text("session") or material.text("stdout")).rows]
        events = []
        for row in rows:
            if row["type"] == "ask":
                events.append(MessageEvent(role="user", text=row["text"]))
            elif row["type"] == "say":
                events.append(MessageEvent(role="assistant", text=row["text"], phase="final"))
            elif row["type"] == "use":
                events.append(ToolCallEvent(tool=row["tool"], call_id=row["id"], arguments=row["with"]))
                events.append(ToolResultEvent(tool=row["tool"], call_id=row["id"], output="", is_error=False))
        return SessionReport(
            execution_id=material.execution_id, final_output=rows[-1].get("text"), events=tuple(events), model_calls=1
        )


def launch(request):
    command = (request.executable, "--json", *option("--model", request.model), *request.args, "{PROMPT}")
    return Launch(command=command, prompt="argument", preamble=request.system)


SCRIBE = AgentCli(
    name="scribe",
    executable="scribe",
    launch=launch,
    output_format="scribe",
    normalizers={"scribe": ScribeNormalizer},
    tool_kinds={"peek": "read", "quill": "edit"},
    sessions=JsonlSessions(
        format="scribe",
        variable="SCRIBE_HOME",
        default_folder=".scribe",
        patterns=("*.jsonl",),
        session_id=(RecordField(("id",), type="begin"),),
        cwd=(RecordField(("cwd",), type="begin"),),
    ),
)
'''
SCRIBE = """#!/bin/sh
for last; do :; done
mkdir -p "$SCRIBE_HOME"
{
  echo '{"type": "begin", "id": "s-1", "cwd": "'"$PWD"'"}'
  echo '{"type": "ask", "text": "'"$last"'"}'
  echo '{"type": "use", "id": "1", "tool": "peek", "with": {"at": "notes.txt"}}'
  echo '{"type": "use", "id": "2", "tool": "quill", "with": {"at": "poem.txt"}}'
  echo '{"type": "say", "text": "a poem by '"$3"'"}'
} | tee "$SCRIBE_HOME/s-1.jsonl"
"""
SUITE = """\
name: poems
tests:
  - id: sea
    input: Write a poem.
    assertions:
      - {type: equals, value: a poem by m-1}
      - {type: "trajectory:tool-sequence", value: [{type: read}, {type: edit}]}
      - {type: tool-trajectory, mode: exact, expected: [{kind: read}, {tool: quill}]}
      - {type: execution-metrics, target_exploration_ratio: 0.5, exploration_tolerance: 0}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose runner is an agent CLI that a package installed beside it brings."""
    packages, info = tmp_path / "packages", tmp_path / "packages" / "scribe_plugin-1.0.dist-info"
    info.mkdir(parents=True)
    (packages / "scribe_plugin.py").write_text(PLUG_IN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: scribe-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[eval_pipeline.agents]\nscribe = scribe_plugin:SCRIBE\n")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "scribe").write_text(SCRIBE)
    (folder / "scribe").chmod(0o755)
    (folder / "suite.yaml").write_text(SUITE)
    (folder / "runners.yaml").write_text(
        "runners:\n  - {name: poet, adapter: agent, agent: scribe, executable: ./scribe, model: m-1}\n"
    )
    return folder


def eval_pipeline(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line, in a process of its own that has the plug-in."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(project.parent / "packages"),
        "SCRIBE_HOME": str(project.parent / "sessions"),
    }
    return run_command(*arguments, cwd=project, env=environment)


def asked(project: Path, question: str) -> list[dict[str, Any]]:
    answer = eval_pipeline(project, "sql", question, "--json")
    return [json.loads(line) for line in answer.stdout.splitlines()]


def test_an_agent_of_a_plug_in_runs_is_scored_and_imported(project: Path) -> None:
    run = eval_pipeline(project, "run", "suite.yaml")

    assert run.returncode == 0, run.stdout + run.stderr
    scores = asked(project, "SELECT type, value FROM evaluator_scores ORDER BY type")
    assert [row["value"] for row in scores] == [1.0] * 4
    tools = "SELECT tool, event->>'tool_kind' AS does FROM session_events WHERE kind = 'tool_call' ORDER BY position"
    assert asked(project, tools) == [{"tool": "peek", "does": "read"}, {"tool": "quill", "does": "edit"}]

    listed = eval_pipeline(project, "import", "scribe", "--list")
    imported = eval_pipeline(project, "import", "scribe", "s-1", "--output", "-")

    assert "s-1" in listed.stdout, listed.stderr
    (line,) = map(json.loads, imported.stdout.splitlines())
    assert (line["input"], line["source"]["provider"]) == ("Write a poem.", "scribe")
    assert "scribe" in eval_pipeline(project, "import", "--help").stdout


def test_an_unknown_agent_is_answered_with_those_there_are(project: Path) -> None:
    answer = eval_pipeline(project, "import", "scrib", "--list")

    assert answer.returncode == 2
    assert "did you mean 'scribe'?" in answer.stderr
