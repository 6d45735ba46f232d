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

CONFIGURED = {"codex", "copilot", "opencode", "pi"}
"""CLIs whose provider's address is in their configuration."""
pytestmark = [pytest.mark.real_agents, pytest.mark.slow]


@pytest.mark.parametrize("name", sorted(CLIS))
def test_a_cli_works_again_from_the_recording_without_its_provider(tmp_path: Path, name: str) -> None:
    clis = installed(name)
    with scripted_model() as (server, _):
        sealed = sealed_project(tmp_path, server.url, clis, [name])
        wire = {"recording": "calls", **({"provider_url": server.url} if name in CONFIGURED else {})}
        runners = [
            CLIS[name].runner(server.url, clis, name=f"{name}-{way}", **wire, **{way: "wire"})
            for way in ("record", "replay")
        ]
        (sealed.project.root / "runners.yaml").write_text(json.dumps({"runners": runners}), encoding="utf-8")
        words = ("run", f"suites/{name}.json", "--case", "files", "--quiet", "--runner")
        recorded = run_command(*words, f"{name}-record", cwd=sealed.project.root, env=sealed.environment)
    replayed = run_command(*words, f"{name}-replay", cwd=sealed.project.root, env=sealed.environment)

    assert (recorded.returncode, replayed.returncode) == (0, 0), recorded.stderr + replayed.stderr
    rows = sealed.project.ask(
        "SELECT runner, input_tokens, output_tokens, final_output, file_changes FROM session_reports ORDER BY runner"
    )
    assert [row[0] for row in rows] == [f"{name}-record", f"{name}-replay"]
    assert rows[0][1:] == rows[1][1:]
    assert rows[0][1:3] == (6000, 260)
    assert "line TWO" in rows[1][4]
    calls = list((sealed.project.root / "calls").rglob("*.jsonl"))
    assert len(calls) == 1
    assert KEY not in calls[0].read_text("utf-8")
    disagreements = "SELECT text FROM session_events WHERE kind = 'error' AND text LIKE '%wire%'"
    assert sealed.project.ask(disagreements) == []
