"""The sensor of free scores under a running daemon: an edit becomes a score and a board, and no call is made."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.orchestration.dev_servers import (
    LOCATION,
    PATIENCE_S,
    Ui,
    dev_server,
    free_port,
    sweep_by_command_line,
    wait_until_served,
)
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_test, contains, make_project

STATUSES = "SELECT status FROM current_verdicts ORDER BY case_id"
FEWEST_PASSED = "SELECT min(passed) FROM leaderboards WHERE suite = 'sums'"
LOOKED = """
query Looked($selector: SensorSelector!) {
  sensorOrError(sensorSelector: $selector) {
    ... on Sensor { sensorState { ticks(limit: 1, statuses: [SKIPPED, SUCCESS]) { id } } }
  }
}"""


@pytest.mark.slow
def test_an_edited_evaluator_becomes_a_score_and_a_board_by_itself(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "project", dagster={"key_prefix": "team/evals"})
    run_id = sweep_by_command_line(folder, folder.data, "echo")
    assert (folder.ask(STATUSES), folder.ask(FEWEST_PASSED)) == ([("passed",), ("passed",)], [(2,)])
    folder.take_calls()
    port = free_port()
    with dev_server(folder, port) as (process, log):
        wait_until_served(f"http://127.0.0.1:{port}/server_info", process, log)
        ui = Ui(f"http://127.0.0.1:{port}", folder, run_id)
        for sensor in ("keep_free_scores_current", "keep_leaderboards_current"):
            wait_for_first_look(ui, sensor)

        folder.write_suite(a_test("a", contains("3")), a_test("b"))

        wait_for(folder, STATUSES, [("failed",), ("passed",)])
        wait_for(folder, FEWEST_PASSED, [(1,)])
    assert folder.take_calls() == []


def wait_for_first_look(ui: Ui, sensor: str) -> None:
    """Wait until a sensor has seen what is there: only what changes later is something new to it."""
    selector = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__", "sensorName": sensor}
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer: Any = ui.ask(LOOKED, selector=selector)["sensorOrError"]
        if answer["sensorState"]["ticks"]:
            return
        assert time.monotonic() < deadline, f"{sensor} has not looked"
        time.sleep(0.5)


def wait_for(folder: ProjectFolder, query: str, expected: list[tuple[object, ...]]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (found := folder.ask(query)) != expected:
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
