"""The chunks of a run as tasks of Celery: workers that are processes of their own, over a real Redis."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.api import execute_job

from eval_pipeline.orchestration.build import build_definitions
from eval_pipeline.orchestration.partitions import range_tags
from eval_pipeline.warehouse.published import open_results
from eval_pipeline_tests.orchestration.dev_servers import free_port
from eval_pipeline_tests.sweeps.sample_project import a_runner_entry, a_test, make_project

SETTINGS = Path(__file__).parents[2] / "deploy" / "home" / "celery"
EXECUTOR = {"broker": {"env": "CELERY_BROKER"}, "backend": {"env": "CELERY_BROKER"}}


@contextmanager
def services(root: Path, environment: dict[str, str], port: int) -> Iterator[Path]:
    """Run Redis and two workers until the block ends; yield the file of what the workers print."""
    celery = [str(Path(sys.executable).parent / "celery"), "-A", "dagster_celery.app"]
    worker = [*celery, "worker", "-Q", "dagster", "--concurrency", "1", "-n"]
    commands = [["redis-server", "--port", str(port), "--save", ""], [*worker, "one@%h"], [*worker, "two@%h"]]
    log = root.parent / "workers.log"
    with log.open("ab") as out:
        started = [
            subprocess.Popen(command, cwd=root, env=environment, stdout=out, stderr=out, start_new_session=True)
            for command in commands
        ]
    try:
        yield log
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def sweep_job() -> dg.JobDefinition:
    return build_definitions(Path.cwd()).resolve_job_def("sweep")


@pytest.mark.team
@pytest.mark.filterwarnings("ignore:Task name .* is already registered")
def test_workers_of_celery_carry_out_the_chunks_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dagster_celery", reason="the extra `celery` is not installed")
    if shutil.which("redis-server") is None:
        pytest.skip("Redis is not installed (Debian: apt-get install redis-server)")
    folder = make_project(
        tmp_path / "project", dagster={"executor": "celery", "executor_config": EXECUTOR, "chunk_pairs": 1}
    )
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

    with open_results(folder.data) as results:
        counted = "SELECT count(*), count(DISTINCT sweep_id) FROM current_verdicts WHERE status <> 'error'"
        assert results.execute(counted).fetchall() == [(6, 1)]
        assert results.execute("SELECT status FROM sweeps").fetchall() == [("finished",)]
    details = [event.get_dagster_event().engine_event_data.metadata for event in events]
    assert {str(each["Celery worker"].value)[:3] for each in details if "Celery worker" in each} == {"one", "two"}
