"""A sweep with a real agent CLI that is killed, or interrupted, at twenty moments one after the other.

Nothing of it goes on, no execution that was stored is lost, and none of them is made twice.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from eval_pipeline_tests.forks import Forked, start_command
from eval_pipeline_tests.local_server import LocalServer
from eval_pipeline_tests.real_clis.installed import installed, left_running
from eval_pipeline_tests.real_clis.model_server import scripted_model
from eval_pipeline_tests.real_clis.sealed_project import SealedProject, sealed_project

pytestmark = [pytest.mark.real_agents, pytest.mark.slow]
MOMENTS, CASES = 20, 30
_WITHIN_S, _ALL_WITHIN_S = 60.0, 900.0


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_a_sweep_that_is_ended_at_twenty_moments_is_complete_in_the_end(tmp_path: Path, ending: signal.Signals) -> None:
    clis = installed("codex")
    stored: set[str] = set()
    with scripted_model() as (server, _):
        sealed = sealed_project(tmp_path, server.url, clis, ["codex"])
        _write_cases(sealed)
        command = ("run", "suites/many.json", "--runner", "codex", "--quiet")
        for moment in range(MOMENTS):
            calls = len(server.requests) + moment % 4
            with start_command(*command, cwd=sealed.project.root, env=sealed.environment) as run:
                _wait_for(partial(_called_or_ended, server, calls, run))
                time.sleep(moment * 37 % 100 / 400)
                assert run.poll() is None, "the sweep ended before its moment came"
                run.send_signal(ending)
                run.communicate()
            _wait_for(lambda: not left_running(sealed.environment))
            assert left_running(sealed.environment) == [], f"after moment {moment}"
            stored |= _journaled(sealed)

        with start_command(*command, cwd=sealed.project.root, env=sealed.environment) as last:
            _, problems = last.communicate(_ALL_WITHIN_S)

    assert last.poll() == 0, problems
    executions = sealed.project.ask("SELECT case_id, execution_id FROM target_executions WHERE completed")
    assert sorted(case for case, _ in executions) == sorted(f"c{number}" for number in range(CASES))
    assert stored <= {execution for _, execution in executions}
    assert sealed.project.ask("SELECT count(*) FROM current_verdicts WHERE status = 'passed'") == [(CASES,)]


def _called_or_ended(server: LocalServer, calls: int, run: Forked) -> bool:
    """Return whether the model was called more often, or the sweep ended."""
    return len(server.requests) > calls or run.poll() is not None


def _write_cases(sealed: SealedProject) -> None:
    answer = {"name": "answered", "type": "contains", "value": "Done"}
    tests = [
        {"id": f"c{number}", "input": f"Please answer number {number}. [[script:files]]", "assertions": [answer]}
        for number in range(CASES)
    ]
    workspace = {"template": "../templates/codex", "isolation": "per_test"}
    suite = json.dumps({"workspace": workspace, "tests": tests})
    (sealed.project.root / "suites" / "many.json").write_text(suite, encoding="utf-8")


def _journaled(sealed: SealedProject) -> set[str]:
    """Return the completed executions in journals, whole lines only: the next run stores them."""
    lines = (
        line
        for path in (sealed.project.root / "data" / "journals").rglob("target_executions.jsonl")
        for line in path.read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n")
    )
    return {row["execution_id"] for row in map(json.loads, lines) if row["completed"]}


def _wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
