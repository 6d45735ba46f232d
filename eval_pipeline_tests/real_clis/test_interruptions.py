"""Runs of real agent CLIs that are killed or interrupted: nothing of them goes on, and no execution is lost."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from eval_pipeline_tests.forks import run_command, start_command
from eval_pipeline_tests.real_clis.installed import installed, left_running
from eval_pipeline_tests.real_clis.model_server import scripted_model
from eval_pipeline_tests.real_clis.sealed_project import CASES, SealedProject, sealed_project

pytestmark = [pytest.mark.real_agents, pytest.mark.slow]
_WITHIN_S = 20.0
MOMENTS = (1, 3, 6, 9, 12)
"""The number of the model's calls after which a run is ended."""


@pytest.mark.parametrize("number", MOMENTS)
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
@pytest.mark.parametrize("name", ["codex", "claude"])
def test_a_run_that_is_ended_leaves_no_process_and_loses_no_execution(
    tmp_path: Path, name: str, ending: signal.Signals, number: int
) -> None:
    clis = installed(name)
    with scripted_model() as (server, _):
        sealed = sealed_project(tmp_path, server.url, clis, [name])
        with start_command("run", f"suites/{name}.json", "--runner", name, "--quiet", cwd=sealed.project.root,
                           env=sealed.environment) as command:  # fmt: skip
            _wait_for(lambda: len(server.requests) >= number or command.poll() is not None)
            command.send_signal(ending)
            command.communicate()
        _wait_for(lambda: not left_running(sealed.environment))
        assert left_running(sealed.environment) == []
        before = _finished(sealed)

        again = run_command("run", f"suites/{name}.json", "--runner", name, "--quiet", cwd=sealed.project.root,
                            env=sealed.environment)  # fmt: skip

    assert again.returncode == 0, again.stderr
    rows = sealed.project.ask("SELECT case_id, execution_id FROM current_verdicts WHERE status = 'passed'")
    assert len(rows) == len(CASES)
    assert before <= {execution for _, execution in rows}


def _finished(sealed: SealedProject) -> set[str]:
    """Return the executions that were published before the second run."""
    if not (sealed.project.root / "data" / "results.duckdb").exists():
        return set()
    return {
        row[0] for row in sealed.project.ask("SELECT execution_id FROM current_executions WHERE failure_class IS NULL")
    }


def _wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
