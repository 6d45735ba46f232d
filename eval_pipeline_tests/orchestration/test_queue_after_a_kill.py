"""`eval-pipeline dev` when a command is killed meanwhile: its run ends, and the queued one takes its place."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from eval_pipeline.sweeps.dagster_files import CONFIG, runs_folder
from eval_pipeline_tests.orchestration.dev_servers import (
    LAUNCH,
    LOCATION,
    Ui,
    dev_server,
    free_port,
    wait_until_served,
)
from eval_pipeline_tests.orchestration.test_dagster_runs import hanging_sweep
from eval_pipeline_tests.sweeps.sample_project import make_project

pytestmark = pytest.mark.slow

STATES = "{ runsOrError { ... on Runs { results { runId status jobName } } } }"
PATIENCE_S = 120.0
MOST_S = 60.0
"""Seconds after which a dead run has ended: the sensor looks every 15."""


def launch(ui: Ui, partition: str) -> str:
    selector = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__", "jobName": "sweep"}
    tags = [{"key": "dagster/partition", "value": partition}]
    params = {"selector": selector, "runConfigData": {}, "executionMetadata": {"tags": tags}}
    run_id: str = ui.ask(LAUNCH, params=params)["launchRun"]["run"]["runId"]
    return run_id


def statuses(ui: Ui) -> dict[str, str]:
    """The status of each run of a sweep, by its id."""
    runs = ui.ask(STATES)["runsOrError"]["results"]
    return {run["runId"]: run["status"] for run in runs if run["jobName"] == "sweep"}


def wait_until(happened: Callable[[], bool], what: str) -> float:
    begun = time.monotonic()
    while not happened():
        assert time.monotonic() - begun < PATIENCE_S, what
        time.sleep(0.3)
    return time.monotonic() - begun


def test_a_killed_run_of_the_command_line_ends_and_the_queued_run_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    folder = make_project(tmp_path / "project")
    runs_folder(folder.data).mkdir(parents=True)
    settings = CONFIG.replace("max_concurrent_runs: 2", "max_concurrent_runs: 1")
    (runs_folder(folder.data) / "dagster.yaml").write_text(settings)
    killed = hanging_sweep(folder)
    port = free_port()

    with killed, dev_server(folder, port) as (process, log):
        wait_until_served(f"http://127.0.0.1:{port}/server_info", process, log)
        ui = Ui(f"http://127.0.0.1:{port}", folder, "")
        (first,) = statuses(ui)
        queued = launch(ui, "sums@echo")
        wait_until(lambda: statuses(ui)[queued] == "QUEUED", "the second run is not queued")
        still = statuses(ui)[first]
        folder.write_answers()
        killed.kill()
        freed_s = wait_until(lambda: statuses(ui)[first] == "FAILURE", "the killed run does not end")
        wait_until(lambda: statuses(ui)[queued] == "SUCCESS", "the queued run does not take its place")

    assert still == "STARTED"
    assert freed_s < MOST_S
