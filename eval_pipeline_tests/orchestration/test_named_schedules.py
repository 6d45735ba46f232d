"""The schedules of sweeps that the project file names: what they request, and when they do nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import InProcessCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.test_utils import create_run_for_test
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from eval_pipeline.orchestration.build import build_definitions
from eval_pipeline.orchestration.partitions import RANGE_END, RANGE_START
from eval_pipeline.orchestration.schedules import SWEEP_TAG
from eval_pipeline.warehouse.spending import SpentSince
from eval_pipeline_tests.orchestration.test_dagster_runs import run_job
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, contains


def due(folder: ProjectFolder, name: str, at: datetime, *runs: str) -> object:
    """What the schedule of a sweep answers at a time, while runs of these sweeps are under way."""
    schedule = build_definitions(folder.session()).resolve_schedule_def(name)
    with dg.DagsterInstance.local_temp() as instance:
        for sweep in runs:
            create_run_for_test(instance, "sweep", status=dg.DagsterRunStatus.STARTED, tags={SWEEP_TAG: sweep})
        return schedule(dg.build_schedule_context(instance=instance, scheduled_execution_time=at))


def waiting_run(instance: dg.DagsterInstance, status: dg.DagsterRunStatus, sweep: str) -> dg.DagsterRun:
    """A run of a sweep in this state; queued ones have an origin."""
    loadable = LoadableTargetOrigin(module_name="eval_pipeline.orchestration.definitions")
    location = InProcessCodeLocationOrigin(loadable, location_name="here")
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(location, "__repository__"), "sweep")
    run: dg.DagsterRun = create_run_for_test(
        instance, "sweep", status=status, tags={SWEEP_TAG: sweep}, remote_job_origin=origin
    )
    return run


@pytest.fixture
def named(folder: ProjectFolder) -> ProjectFolder:
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("zebra"))
    folder.write_suite(a_test("x"), name="apples")
    sweeps = {
        "night-ly": {"cron": "0 2 * * *", "timezone": "Europe/Berlin", "suites": ["sums"], "repeat": 3},
        "smoke": {"cron": "0 * * * *", "runners": ["zebra"], "missed": "latest", "overlap": "queue"},
        "by-hand": {"tags": ["a"]},
    }
    document = {"suites": ["suites"], "sweeps": sweeps}
    (folder.root / "eval-pipeline.yaml").write_text(json.dumps(document))
    return folder


def test_a_sweep_with_a_time_has_a_schedule_in_its_zone(named: ProjectFolder) -> None:
    schedules = {each.name: each for each in build_definitions(named.session()).schedules or ()}

    assert sorted(schedules) == ["nightly_sweep", "sweep_night_ly", "sweep_smoke"]
    nightly = build_definitions(named.session()).resolve_schedule_def("sweep_night_ly")
    assert (nightly.cron_schedule, nightly.execution_timezone) == ("0 2 * * *", "Europe/Berlin")


def test_a_sweep_starts_one_run_with_its_name_over_its_pairs(named: ProjectFolder) -> None:
    request = due(named, "sweep_night_ly", datetime.now(UTC), "smoke")

    assert isinstance(request, dg.RunRequest)
    assert (request.tags[RANGE_START], request.tags[RANGE_END]) == ("sums@echo", "sums@zebra")
    assert request.tags[SWEEP_TAG] == "night-ly"
    assert request.run_config["ops"]["evaluate"]["config"] == {"sweep": "night-ly"}


def test_a_sweep_that_is_under_way_is_not_started_beside_itself(named: ProjectFolder) -> None:
    under_way = ("night-ly", "smoke")
    skipped, queued = (due(named, name, datetime.now(UTC), *under_way) for name in ("sweep_night_ly", "sweep_smoke"))

    assert isinstance(skipped, dg.SkipReason)
    assert "still queued or under way" in (skipped.skip_message or "")
    assert isinstance(queued, dg.RunRequest)


def test_times_that_no_scheduler_was_there_for_are_left_out_but_the_latest_if_it_is_wanted(
    named: ProjectFolder,
) -> None:
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)

    missed = due(named, "sweep_night_ly", now - timedelta(days=1))
    older, latest = (due(named, "sweep_smoke", now - timedelta(hours=hours)) for hours in (1, 0))

    assert isinstance(missed, dg.SkipReason)
    assert "missed: skip" in (missed.skip_message or "")
    assert isinstance(older, dg.SkipReason)
    assert isinstance(latest, dg.RunRequest)


def test_a_tick_takes_the_place_of_those_that_wait_and_of_none_under_way(named: ProjectFolder) -> None:
    document = json.loads((named.root / "eval-pipeline.yaml").read_text())
    document["sweeps"]["smoke"]["overlap"] = "latest"
    (named.root / "eval-pipeline.yaml").write_text(json.dumps(document))
    schedule = build_definitions(named.session()).resolve_schedule_def("sweep_smoke")
    states = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.QUEUED]

    with dg.DagsterInstance.local_temp() as instance:
        runs = [waiting_run(instance, each, "smoke") for each in states]
        other = waiting_run(instance, states[1], "night-ly")
        request = schedule(dg.build_schedule_context(instance=instance, scheduled_execution_time=datetime.now(UTC)))
        ended = [instance.get_run_by_id(run.run_id) for run in (*runs, other)]

    assert isinstance(request, dg.RunRequest)
    assert [run.status.value for run in ended if run is not None] == ["STARTED", "CANCELED", "CANCELED", "QUEUED"]


def test_a_month_whose_money_is_spent_starts_nothing(named: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads((named.root / "eval-pipeline.yaml").read_text())
    document["sweeps"]["smoke"]["month_budget_usd"] = 2
    (named.root / "eval-pipeline.yaml").write_text(json.dumps(document))
    monkeypatch.setattr("eval_pipeline.sweeps.month_budgets.spent_since", lambda *_: SpentSince(2.5, 3))

    skipped = due(named, "sweep_smoke", datetime.now(UTC))

    assert isinstance(skipped, dg.SkipReason)
    assert skipped.skip_message == "the budget of this month of sweep 'smoke' is spent (at least 2.5 of 2 USD)"


# Ends


@pytest.fixture
def telling(folder: ProjectFolder) -> ProjectFolder:
    """A sweep that tells of errors only."""
    notify = {"on": ["error"], "command": ["sh", "-c", "cat > told.json"]}
    document = {"suites": ["suites"], "sweeps": {"nightly": {"gate": {"min_coverage": 1}, "notify": notify}}}
    (folder.root / "eval-pipeline.yaml").write_text(json.dumps(document))
    return folder


def told(folder: ProjectFolder) -> Any:
    file = folder.root / "told.json"
    return json.loads(file.read_text()) if file.exists() else None


def test_a_run_that_breaks_off_is_told_without_the_gate_of_an_earlier_one(
    telling: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"sweep": "nightly"}
    assert run_job(telling, "sweep", config=config).success
    silent = told(telling)

    def broken(*_: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr("eval_pipeline.orchestration.sweep_step.run_on_page", broken)
    run = run_job(telling, "sweep", config=config)

    assert not run.success
    assert silent is None
    assert "the disk is gone" in told(telling)["problem"]
    assert told(telling)["decision"] is None


def test_failed_partitions_are_told(telling: ProjectFolder) -> None:
    config = {"sweep": "nightly"}
    assert run_job(telling, "sweep", config=config).success
    with telling.session().warehouse.transaction() as connection:
        connection.execute("UPDATE session_reports SET skills = '[1]' WHERE suite = 'sums'")
    telling.write_suite(a_test("a", contains("apples")), a_test("b", contains("y")))

    run_job(telling, "sweep", config=config)

    assert told(telling)["problem"].startswith("1 of 1 partition failed\nsums@echo: ")


JUDGE = """
import json, pathlib

def judge(prompt):
    key = prompt.split('"key": "')[1].split('"')[0]
    mood = pathlib.Path(__file__).with_name("mood")
    return {"output": json.dumps({"key": key, "score": float(mood.read_text()), "reason": "read"})}
"""


def test_a_run_of_dagster_grades_anchors_and_tells_of_a_judge_that_drifts(folder: ProjectFolder) -> None:
    notify = {"on": ["judge-drift"], "command": ["sh", "-c", "cat > told.json"]}
    sweeps = {"nightly": {"anchors": {"size": 2, "base": 2, "evaluators": ["fair"]}, "notify": notify}}
    document = {"suites": ["suites"], "defaults": {"grader": "judge"}, "sweeps": sweeps}
    (folder.root / "eval-pipeline.yaml").write_text(json.dumps(document))
    (folder.root / "judge.py").write_text(JUDGE)
    (folder.root / "mood").write_text("0.8")
    judge = {"name": "judge", "adapter": "python", "function": "judge:judge", "isolation": "in-process"}
    folder.write_runners(a_runner_entry(), judge)
    tests = [a_test(name, {"type": "llm-grader", "name": "fair"}) for name in "abc"]
    folder.write_suite(*tests, execution={"targets": ["echo"]})
    assert run_job(folder, "sweep", config={"sweep": "nightly"}).success
    (folder.root / "mood").write_text("0.7")

    assert run_job(folder, "sweep", config={"sweep": "nightly"}).success

    assert folder.ask("SELECT anchors, mean_score, beyond FROM judge_drift") == [(2, 0.7, True)]
    line = "sums, fair by judge: the mean grade of 2 anchors is 0.700, expected 0.800 to 0.800"
    assert told(folder)["judge_drift"] == [line]
    (board,) = run_job(folder, "rank").materializations("leaderboards").values()
    assert line in str(board.metadata["judge_drift"].value)


def test_a_pair_whose_cases_became_worse_fails_its_check_and_others_do_not(folder: ProjectFolder) -> None:
    gate = {"max_drop": 0.1}
    document = {"suites": ["suites"], "sweeps": {"nightly": {"refresh": "all", "gate": gate}}}
    (folder.root / "eval-pipeline.yaml").write_text(json.dumps(document))
    folder.write_suite(*(a_test(name) for name in "abcdefghijkl"))
    folder.write_suite(*(a_test(name, text="2 more") for name in "mnopqr"), name="same")
    config, suites = {"sweep": "nightly"}, ("same", "sums")
    first = run_job(folder, "sweep", suites=suites, config=config)
    folder.write_answers(**dict.fromkeys("abcdefghijk", "worse"))

    second = run_job(folder, "sweep", suites=suites, config=config)

    assert not first.checks("no_regression"), "nothing to compare with yet"
    found = second.checks("no_regression")
    assert {key: check.passed for key, check in found.items()} == {"same@echo": True, "sums@echo": False}
    assert found["sums@echo"].metadata["decision"].value == "NO-GO"
    assert second.success, "a check only warns"
