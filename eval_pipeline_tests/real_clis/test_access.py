"""What a session of a real CLI may change by `access`: one that may only read changes nothing, whatever it tries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval_pipeline.agents.agent_cli import AGENTS
from eval_pipeline.agents.launching import ACCESSES, LaunchTable
from eval_pipeline_tests.forks import run_command
from eval_pipeline_tests.real_clis.agent_runners import CLIS
from eval_pipeline_tests.real_clis.installed import installed
from eval_pipeline_tests.real_clis.model_server import scripted_model
from eval_pipeline_tests.real_clis.sealed_project import sealed_project

pytestmark = [pytest.mark.real_agents, pytest.mark.slow]


@pytest.mark.parametrize("name", list(CLIS))
def test_a_session_changes_files_only_where_its_access_allows_it(tmp_path: Path, name: str) -> None:
    clis, launch = installed(name), AGENTS.get(name).launch
    assert isinstance(launch, LaunchTable)
    accesses = [access for access in ACCESSES if access in launch.access]
    with scripted_model() as (server, _):
        sealed = sealed_project(tmp_path, server.url, clis, [name])
        runners = [CLIS[name].runner(server.url, clis, name=access, access=access) for access in accesses]
        (sealed.project.root / "runners.yaml").write_text(json.dumps({"runners": runners}), encoding="utf-8")
        command = ("run", f"suites/{name}.json", "--case", "files", "--quiet")
        options = [word for access in accesses for word in ("--runner", access)]
        done = run_command(*command, *options, cwd=sealed.project.root, env=sealed.environment)

    assert done.returncode in (0, 1), done.stderr
    changes = dict(sealed.project.ask("SELECT runner, file_changes FROM session_reports"))
    assert "out.txt" in changes["full"]
    assert changes.get("read-only", "") == ""
