"""Celery over a shared warehouse: workers with folders of their own carry out runs, and one of them is killed."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest

from eval_pipeline.orchestration.partitions import range_tags
from eval_pipeline_tests.deploy.services import Team, team
from eval_pipeline_tests.deploy.test_deploy import wait_for_partitions
from eval_pipeline_tests.orchestration.dev_servers import LAUNCH, LOCATION
from eval_pipeline_tests.postgres_server import PostgresServer
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, make_project
from eval_pipeline_tests.team.conftest import machine
from eval_pipeline_tests.team.postgres import new_lake
from eval_pipeline_tests.team.test_machines import check_rows, until

pytestmark = [pytest.mark.team, pytest.mark.slow]
_TARGET = """
import pathlib
import time


def answer(prompt, case, runner):
    calls = pathlib.Path(__file__).parent / "calls.txt"
    with calls.open("a") as file:
        file.write(f"{runner}/{case.id}\\n")
    time.sleep(2.0)
    return prompt
"""
SUITES, CASES = 6, 4
SILENT_LOOKS = 2  # as the launcher has it; its module needs the extra `celery`
PLANS, AT_ONCE = 2 * SUITES * CASES, 2
"""Of two runners; how many calls a process has under way."""


@contextmanager
def services(server: PostgresServer, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    """Run the services of `deploy/` on a lake, with two workers that have a data folder each."""
    pytest.importorskip("dagster_celery", reason="the extra `celery` is not installed")
    if shutil.which("redis-server") is None:
        pytest.skip("Redis is not installed (Debian: apt-get install redis-server)")
    url = f"{new_lake(server, root / 'lake')} files={root / 'common'} lease_s=5"
    monkeypatch.setenv("EVAL_PIPELINE_WAREHOUSE", url)
    folder = _project(root)
    with team(folder, server, root / "home") as started:
        for name in ("one", "two"):
            started.environment["EVAL_PIPELINE_DATA"] = str(root / name)
            started.start_worker(name)
        yield started


def _project(root: Path) -> ProjectFolder:
    folder = make_project(root / "project", defaults={"concurrency": AT_ONCE})
    (folder.root / "target.py").write_text(_TARGET)
    (folder.root / "suites" / "sums.yaml").unlink()
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("parrot"))
    for number in range(SUITES):
        folder.write_suite(*(a_test(f"s{number}c{case}") for case in range(CASES)), name=f"s{number}")
    return folder


def launch_all(services: Team) -> str:
    """Start a run of all pairs, as the page does once the sensor made them partitions; return its id."""
    pairs = f"s{SUITES - 1}@parrot"
    wait_for_partitions(services, pairs)
    asked = '{ assetNodeOrError(assetKey: {path: ["evaluator_scores"]}) { ... on AssetNode { partitionKeys } } }'
    keys = services.ui.ask(asked)["assetNodeOrError"]["partitionKeys"]
    assert len(keys) == 2 * SUITES
    selector = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__", "jobName": "sweep"}
    tags = [{"key": key, "value": value} for key, value in range_tags(keys).items()]
    params = {"selector": selector, "runConfigData": {}, "executionMetadata": {"tags": tags}}
    return str(services.ui.ask(LAUNCH, params=params)["launchRun"]["run"]["runId"])


def counted(services: Team) -> Counter[str]:
    file = services.folder.root / "calls.txt"
    return Counter(file.read_text().split()) if file.exists() else Counter()


def statuses(services: Team) -> list[str]:
    """Return how all runs are, the newest first."""
    answer = services.ui.ask("{ runsOrError { ... on Runs { results { status } } } }")
    return [run["status"] for run in answer["runsOrError"]["results"]]


def health(services: Team, runs: Sequence[str]) -> list[str]:
    """Return how the daemon sees the workers of runs at last, before any sensor of ours looks for their processes."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in services.environment.items():
            patch.setenv(name, value)
        with dg.DagsterInstance.from_config(str(services.home)) as instance:
            records = [instance.get_run_by_id(run) for run in runs]
            for _ in range(SILENT_LOOKS):
                found = [instance.run_launcher.check_run_worker_health(run) for run in records if run]
    return [each.status.name for each in found]


def check_calls(services: Team, dead: int) -> None:
    """Every plan was carried out, and none twice but what processes had under way that died."""
    calls = counted(services)
    assert len(calls) == PLANS
    assert calls.total() - PLANS <= dead * AT_ONCE, calls


def test_runs_of_overlapping_pairs_on_workers_with_folders_of_their_own_survive_the_death_of_one(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with services(server, tmp_path, monkeypatch) as started:
        runs = [launch_all(started), launch_all(started)]
        until(lambda: counted(started).total() >= PLANS // 4, within_s=400)
        until(lambda: health(started, runs) == ["RUNNING", "RUNNING"])

        started.kill("one")
        assert sorted(health(started, runs)) == ["FAILED", "RUNNING"]
        started.environment["EVAL_PIPELINE_DATA"] = str(tmp_path / "three")
        started.start_worker("three")
        until(lambda: statuses(started).count("SUCCESS") == 2, within_s=400)

        check_calls(started, dead=1)
        reader = machine(os.environ["EVAL_PIPELINE_WAREHOUSE"], tmp_path / "reader")
        check_rows(reader, PLANS)
        reader.close()
