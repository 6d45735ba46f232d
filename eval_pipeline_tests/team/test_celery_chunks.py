"""The chunks of a run as tasks of Celery, whose workers write into a shared warehouse."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.api import execute_job

from eval_pipeline.orchestration.partitions import range_tags
from eval_pipeline_tests.orchestration.dev_servers import free_port
from eval_pipeline_tests.orchestration.test_celery import EXECUTOR, SETTINGS, services, sweep_job
from eval_pipeline_tests.postgres_server import PostgresServer
from eval_pipeline_tests.sweeps.sample_project import a_runner_entry, a_test, make_project
from eval_pipeline_tests.team.conftest import machine
from eval_pipeline_tests.team.postgres import new_lake

_COUNTED = "SELECT count(*), count(DISTINCT sweep_id) FROM current_verdicts WHERE status <> 'error'"
_DOUBLED = "SELECT count(*) - count(DISTINCT (suite, runner, case_id)) FROM target_executions"


@pytest.mark.team
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Task name .* is already registered")
def test_workers_of_celery_store_the_chunks_of_a_run_in_a_lake(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dagster_celery", reason="the extra `celery` is not installed")
    if shutil.which("redis-server") is None:
        pytest.skip("Redis is not installed (Debian: apt-get install redis-server)")
    url = new_lake(server, tmp_path / "lake")
    chunks = {"executor": "celery", "executor_config": EXECUTOR, "chunk_pairs": 1}
    folder = make_project(tmp_path / "project", dagster=chunks, warehouse=url)
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("parrot"))
    folder.write_suite(a_test("x"), name="more")
    port, home = free_port(), tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(folder.root)
    monkeypatch.setenv("CELERY_BROKER", f"redis://127.0.0.1:{port}/0")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SETTINGS), str(Path(__file__).parents[2])]))
    pairs = [f"{suite}@{runner}" for suite in ("sums", "more") for runner in ("echo", "parrot")]

    with services(folder.root, dict(os.environ), port) as log, dg.DagsterInstance.local_temp(str(home)) as instance:
        instance.add_dynamic_partitions("pairs", pairs)
        with execute_job(dg.reconstructable(sweep_job), instance, tags=range_tags(pairs)) as ended:
            assert ended.success, log.read_text()
            events = instance.all_logs(ended.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)

    reader = machine(url, tmp_path / "reader")
    assert reader.frame(_COUNTED).rows() == [(6, 1)]
    assert reader.frame(_DOUBLED).item() == 0
    assert reader.frame("SELECT status FROM sweeps").rows() == [("finished",)]
    reader.close()
    details = [event.get_dagster_event().engine_event_data.metadata for event in events]
    assert {str(each["Celery worker"].value)[:3] for each in details if "Celery worker" in each} == {"one", "two"}
