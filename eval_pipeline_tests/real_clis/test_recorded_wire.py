"""The wire of a real agent CLI: recorded once, and replayed where there is no provider."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval_pipeline_tests.forks import run_command
from eval_pipeline_tests.real_clis.agent_runners import CLIS, KEY
from eval_pipeline_tests.real_clis.installed import installed
from eval_pipeline_tests.real_clis.model_server import scripted_model
from eval_pipeline_tests.real_clis.sealed_project import sealed_project

pytestmark = [pytest.mark.real_agents, pytest.mark.slow]


def test_claude_code_works_again_from_the_recording_without_its_provider(tmp_path: Path) -> None:
    clis = installed("claude")
    with scripted_model() as (server, _):
        sealed = sealed_project(tmp_path, server.url, clis, ["claude"])
        runners = [
            CLIS["claude"].runner(server.url, clis, name=f"claude-{way}", recording="calls", **{way: "wire"})
            for way in ("record", "replay")
        ]
        (sealed.project.root / "runners.yaml").write_text(json.dumps({"runners": runners}), encoding="utf-8")
        words = ("run", "suites/claude.json", "--case", "files", "--quiet", "--runner")
        recorded = run_command(*words, "claude-record", cwd=sealed.project.root, env=sealed.environment)
    replayed = run_command(*words, "claude-replay", cwd=sealed.project.root, env=sealed.environment)

    assert (recorded.returncode, replayed.returncode) == (0, 0), recorded.stderr + replayed.stderr
    rows = sealed.project.ask(
        "SELECT runner, input_tokens, output_tokens, final_output, file_changes FROM session_reports ORDER BY runner"
    )
    assert [row[0] for row in rows] == ["claude-record", "claude-replay"]
    assert rows[0][1:] == rows[1][1:]
    assert rows[0][1:3] == (6000, 260)
    assert "line TWO" in rows[1][4]
    calls = list((sealed.project.root / "calls").rglob("*.jsonl"))
    assert len(calls) == 1
    assert KEY not in calls[0].read_text("utf-8")
    disagreements = "SELECT text FROM session_events WHERE kind = 'error'"
    assert sealed.project.ask(disagreements) == []
