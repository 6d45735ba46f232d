"""`eval-pipeline explain` with real agent CLIs: the kept session goes on, knows what it did, and changes nothing.

Needs the CLIs of `eval_pipeline_tests/real_clis/install.py` in the folder that AGENT_CLIS names; skipped otherwise.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval_pipeline_tests.forks import run_command
from eval_pipeline_tests.real_clis.agent_runners import CLIS
from eval_pipeline_tests.real_clis.installed import installed
from eval_pipeline_tests.real_clis.model_server import scripted_model
from eval_pipeline_tests.real_clis.sealed_project import sealed_project

pytestmark = [pytest.mark.real_agents, pytest.mark.slow]
CASES = """
from eval_pipeline import Case, explain, output

def check(report, ctx):
    with explain("Why did you not say so? [[script:second]]"):
        output.includes(report, "no such word")

suite = [Case(id="c1", prompt="Please answer. [[script:plain]]", check=check)]
workspace = {"mode": "isolated"}
"""


@pytest.mark.parametrize("name", sorted(CLIS))
def test_a_real_session_is_asked_why_and_goes_on_from_where_it_was(name: str, tmp_path: Path) -> None:
    clis = installed(name)
    with scripted_model() as (server, _):
        sealed = sealed_project(tmp_path, server.url, clis, [name])
        project = sealed.project
        runner = CLIS[name].runner(server.url, clis, name="asked", keep_session=True)
        project.write("runners.yaml", json.dumps({"runners": [runner]}))
        project.write("suites/why.py", CASES)

        ran = run_command("run", "suites/why.py", "--quiet", cwd=project.root, env=sealed.environment)
        before = len(server.requests)
        asked = run_command("explain", "why", "--json", cwd=project.root, env=sealed.environment)

    assert (ran.returncode, asked.returncode) == (1, 0), (ran.stderr, asked.stdout, asked.stderr)
    assert project.ask("SELECT question, answer IS NOT NULL, error FROM explanations") == [
        ("Why did you not say so? [[script:second]]", True, None)
    ]
    ((answer,),) = project.ask("SELECT answer FROM explanations")
    assert "second" in answer
    told = [str(request.json) for request in server.requests[before:]]
    assert any("Please answer. [[script:plain]]" in text and "Why did you not say so?" in text for text in told)
