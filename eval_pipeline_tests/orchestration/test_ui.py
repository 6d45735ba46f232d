"""The Dagster UI as people use it: `eval-pipeline dev` on a project with a finished sweep, its pages in a real browser,
and a materialization started from there."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from eval_pipeline.orchestration.run import run_sweep
from eval_pipeline_tests.orchestration.browser import Browser, find_chromium, open_browser
from eval_pipeline_tests.sweeps.sample_project import (
    ProjectFolder,
    a_runner_entry,
    a_test,
    contains,
    every_cell,
    make_project,
    published,
)

PATIENCE_S = 120.0
LOCATION = "eval_pipeline"

LAUNCH = """
mutation Launch($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on RunConfigValidationInvalid { errors { message } }
    ... on PythonError { message }
  }
}"""
STATUS = "query Status($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
PARTITION = """
query Partition($asset: AssetKeyInput!, $key: String!) {
  assetNodeOrError(assetKey: $asset) {
    ... on AssetNode {
      staleStatusByPartition(partitions: [$key])
      latestMaterializationByPartition(partitions: [$key]) { runId }
    }
  }
}"""


@dataclass(frozen=True, slots=True)
class Ui:
    """The running UI of a project."""

    url: str
    folder: ProjectFolder
    command_line_run: str

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """The data that GraphQL answers."""
        answer = httpx.post(f"{self.url}/graphql", json={"query": query, "variables": variables}, timeout=60).json()
        assert "errors" not in answer, answer
        data: dict[str, Any] = answer["data"]
        return data

    def materialize(self, partition: str) -> str:
        """Materializes every asset of one cell, as the launchpad does; returns how the run ended."""
        selector = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__", "jobName": "sweep"}
        tags = [{"key": "dagster/partition", "value": partition}]
        params = {"selector": selector, "runConfigData": {}, "executionMetadata": {"tags": tags}}
        launched = self.ask(LAUNCH, params=params)["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return self._ended(launched["run"]["runId"])

    def _ended(self, run_id: str) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            status = str(self.ask(STATUS, id=run_id)["runOrError"]["status"])
            if status in ("SUCCESS", "FAILURE", "CANCELED"):
                return status
            assert time.monotonic() < deadline, f"the run is still {status}"
            time.sleep(0.2)


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """A project of two runners, and `eval-pipeline dev` on it.

    The command line has carried out `echo` there, and `parrot` in another data folder, while the server starts.
    """
    folder = make_project(tmp_path_factory.mktemp("ui") / "project")
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("parrot"))
    folder.write_suite(a_test("a"), a_test("b", contains("9")))
    run_id = sweep_by_command_line(folder, folder.data, "echo")
    port = free_port()
    with dev_server(folder, port) as (process, log):
        sweep_by_command_line(folder, elsewhere(folder), "parrot")
        wait_until_served(f"http://127.0.0.1:{port}/server_info", process, log)
        yield Ui(f"http://127.0.0.1:{port}", folder, run_id)


def elsewhere(folder: ProjectFolder) -> Path:
    return folder.root / "data-of-the-command-line"


def sweep_by_command_line(folder: ProjectFolder, data: Path, runner: str) -> str:
    session = folder.session(data)
    result = run_sweep(session, *every_cell(session, runner), {})
    assert result.problem is None
    assert result.run_id is not None
    return result.run_id


@contextlib.contextmanager
def dev_server(folder: ProjectFolder, port: int, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """`eval-pipeline dev` as a process in a session of its own; yields it with the file of what it says.

    Nothing of it is worth an orderly end, which takes seconds: all its processes are killed together.
    """
    dev = "from eval_pipeline.cli.main import main; main()"
    command = [sys.executable, "-c", dev, "dev", "--project", str(folder.root), "--port", str(port), *options]
    log = folder.root / "dev.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield process, log
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_served(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        assert process.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        try:
            if httpx.get(url).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip("no chromium on this machine: the pages of the UI are looked at in it")
    with open_browser(program, tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def test_the_leaderboards_page_shows_the_standings(ui: Ui, browser: Browser, tmp_path: Path) -> None:
    text = browser.read(
        f"{ui.url}/assets/leaderboards", "standings", "pass rate", "50.0 %", picture=tmp_path / "leaderboards.png"
    )

    assert "echo" in text
    assert "best_pass_rate" in text
    assert (tmp_path / "leaderboards.png").stat().st_size > 10_000


def test_the_scores_page_shows_a_partition_with_its_numbers_and_the_run_that_made_it(ui: Ui, browser: Browser) -> None:
    page = f"{ui.url}/assets/evaluator_scores?view=partitions&partition=sums%40echo"

    text = browser.read(page, "sums@echo", "Materialized", "pass_rate", ui.command_line_run[:8])

    assert "Unsynced" not in text


def test_a_run_of_the_command_line_is_listed(ui: Ui, browser: Browser) -> None:
    browser.read(f"{ui.url}/runs", ui.command_line_run[:8], "sweep", "Success")


def test_a_materialization_started_in_the_ui_gives_the_rows_of_the_command_line(ui: Ui) -> None:
    assert ui.materialize("sums@parrot") == "SUCCESS"

    theirs, ours = published(elsewhere(ui.folder), "parrot"), published(ui.folder.data, "parrot")
    assert len(ours["verdicts"]) == 2
    for table in ours:
        assert ours[table] == theirs[table], table


@pytest.mark.parametrize("asset", ["target_executions", "evaluator_scores", "failure_classes"])
def test_what_the_command_line_materialized_is_up_to_date_in_the_ui(ui: Ui, asset: str) -> None:
    node = ui.ask(PARTITION, asset={"path": [asset]}, key="sums@echo")["assetNodeOrError"]

    assert node["staleStatusByPartition"] == ["FRESH"]
    assert node["latestMaterializationByPartition"] == [{"runId": ui.command_line_run}]


# What a page of a run, a job and an asset shows


EVENTS = """
query Events($id: ID!) {
  logsForRun(runId: $id) {
    ... on EventConnection { events { __typename ... on MessageEvent { message eventType } } }
  }
}"""
JOBS = """{
  shouldShowNux
  repositoryOrError(repositorySelector: {repositoryName: "__repository__", repositoryLocationName: "eval_pipeline"}) {
    ... on Repository { jobs { name runs(limit: 20) { runId } } }
  }
}"""
CONFIG_CHECK = """
query Check($job: PipelineSelector!, $config: RunConfigData!) {
  isPipelineConfigValid(pipeline: $job, runConfigData: $config, mode: "default") {
    __typename
    ... on RunConfigValidationInvalid { errors { message } }
  }
}"""
LAUNCHING = {"RUN_ENQUEUED", "RUN_DEQUEUED", "RUN_STARTING"}
"""Events of a run that waits for a process of its own."""


def test_the_address_is_printed_when_the_ui_answers(ui: Ui) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while f"Dagster UI: {ui.url} (Ctrl-C ends it)" not in (ui.folder.root / "dev.log").read_text(errors="replace"):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_run_of_the_command_line_is_on_the_pages_overview_and_jobs(ui: Ui, browser: Browser) -> None:
    data = ui.ask(JOBS)
    runs = {job["name"]: [run["runId"] for run in job["runs"]] for job in data["repositoryOrError"]["jobs"]}

    assert ui.command_line_run in runs["sweep"]
    assert len(runs["rank"]) == 1
    assert "rank" in browser.read(f"{ui.url}/overview", "eval_pipeline", "sweep")
    browser.read(f"{ui.url}/jobs", "eval_pipeline", "rescore", "ago")


def test_nothing_invites_to_the_community(ui: Ui, browser: Browser) -> None:
    assert ui.ask(JOBS)["shouldShowNux"] is False
    assert "newsletter" not in browser.read(f"{ui.url}/overview", "eval_pipeline", "sweep").lower()


def test_the_page_of_a_run_ends_with_its_failed_cases(ui: Ui, browser: Browser) -> None:
    text = browser.read(f"{ui.url}/runs/{ui.command_line_run}", "finished: 2 of 2 plans", "sums/b with echo")

    assert "eval-pipeline show sums/b --runner echo" in " ".join(text.split())
    assert "did not yield" not in text


def test_the_page_of_an_asset_shows_owner_table_columns_and_code(ui: Ui, browser: Browser) -> None:
    text = browser.read(
        f"{ui.url}/assets/evaluator_scores?view=overview",
        "Row count", "results.main.evaluator_scores", "Kind of evaluator", "Owners", "project file",
    )  # fmt: skip

    assert "evaluation" in text


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"refresh": "sometimes"}, "one of missing, failed, all"),
        ({"grader": "nobody"}, "one of echo, parrot"),
        ({}, ""),
    ],
    ids=["refresh", "grader", "none"],
)
def test_the_launchpad_names_the_valid_values(ui: Ui, config: dict[str, str], problem: str) -> None:
    job = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__", "pipelineName": "sweep"}

    answer = ui.ask(CONFIG_CHECK, job=job, config={"ops": {"evaluate": {"config": config}}})["isPipelineConfigValid"]

    assert [problem in error["message"] for error in answer.get("errors", [])] == ([True] if problem else [])


def test_a_run_of_the_ui_shows_the_same_events_as_one_of_the_command_line(ui: Ui) -> None:
    """Runs of the UI use Dagster's own event storage, those of the command line ours."""
    ui.materialize("sums@parrot")
    latest = ui.ask(PARTITION, asset={"path": ["evaluator_scores"]}, key="sums@parrot")["assetNodeOrError"]
    run_id = latest["latestMaterializationByPartition"][0]["runId"]

    theirs, ours = events_of(ui, run_id), events_of(ui, ui.command_line_run)

    assert [kind for kind in theirs if kind not in LAUNCHING] == ours


def events_of(ui: Ui, run_id: str) -> list[str]:
    """The types of a run's events; of those of the engine, only what a sweep reports itself."""
    events = ui.ask(EVENTS, id=run_id)["logsForRun"]["events"]
    return [
        str(event["eventType"])
        for event in events
        if event.get("eventType") and (event["eventType"] != "ENGINE_EVENT" or event["message"].startswith("finished:"))
    ]
