"""The Dagster UI as people use it: `eval-pipeline dev` on a project with a finished sweep, its pages in a real browser,
and a materialization started from there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eval_pipeline_tests.orchestration.browser import Browser, find_chromium, open_browser
from eval_pipeline_tests.orchestration.dev_servers import LOCATION, PARTITION, PATIENCE_S, Ui, elsewhere
from eval_pipeline_tests.sweeps.sample_project import published


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
    assert runs["rank"] == []
    browser.read(f"{ui.url}/overview", "eval_pipeline", "sweep")
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
    """Runs of the UI use Dagster's own event storage; those of the command line ours, with their boards in it."""
    ui.materialize("sums@parrot")
    latest = ui.ask(PARTITION, asset={"path": ["evaluator_scores"]}, key="sums@parrot")["assetNodeOrError"]
    run_id = latest["latestMaterializationByPartition"][0]["runId"]

    theirs, ours = events_of(ui, run_id), events_of(ui, ui.command_line_run)

    assert [*(kind for kind in theirs if kind not in LAUNCHING), "ASSET_MATERIALIZATION"] == ours


def events_of(ui: Ui, run_id: str) -> list[str]:
    """The types of a run's events; of those of the engine, only what a sweep reports itself."""
    events = ui.ask(EVENTS, id=run_id)["logsForRun"]["events"]
    return [
        str(event["eventType"])
        for event in events
        if event.get("eventType") and (event["eventType"] != "ENGINE_EVENT" or event["message"].startswith("finished:"))
    ]
