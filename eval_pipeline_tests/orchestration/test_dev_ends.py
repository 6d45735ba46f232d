"""`eval-pipeline dev` ends what it started: the services, and the runs that are under way; queued runs stay queued."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dagster as dg
import httpx
import pytest
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon

from eval_pipeline.cli.run_queue import QUEUE_VARIABLE, begin_shared, close_queue, heed_closing
from eval_pipeline.executions.program_watcher import all_processes, environment_of
from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline.sweeps.dagster_files import CONFIG, runs_folder
from eval_pipeline_tests.cli.sample_project import make_cli_project
from eval_pipeline_tests.cli.test_interrupted_run import wait_until
from eval_pipeline_tests.orchestration.dev_servers import LAUNCH, LOCATION, free_port, wait_until_served

CASES = 200
SLOW = 'read -r who; echo "$who" >> calls.log; sleep 0.3; echo "hello $who"\n'
RUNNERS = "runners:\n  - {name: slow, adapter: command, command: [sh, greet.sh], concurrency: 2}\n"
SUITE = "name: waits\nassertions: [{type: contains, value: hello}]\ntests:\n" + "".join(
    f"  - {{id: c{number}, input: c{number}}}\n" for number in range(CASES)
)
FAKE_DAGSTER = """
import multiprocessing, os, sys, threading, time
from eval_pipeline.cli.run_queue import QUEUE_VARIABLE, begin_shared

def begin_the_queued_run(first):
    while first.is_alive():
        time.sleep(0.01)
    with begin_shared(os.environ[QUEUE_VARIABLE]) as is_open:
        print("a queued run begins" if is_open else "the queued run stays", flush=True)

def run(begun):
    try:
        begun.set()
        time.sleep(60)
    except KeyboardInterrupt:
        print("the run ends in order", flush=True)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    begun = context.Event()
    started = context.Process(target=run, args=[begun])
    started.start()
    threading.Thread(target=begin_the_queued_run, args=[started], daemon=True).start()
    begun.wait(60)
    print("up", flush=True)
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        print("the services end", flush=True)
"""


@pytest.mark.parametrize(
    ("number", "code", "begun_with"),
    [
        (signal.SIGINT, 130, signal.default_int_handler),
        (signal.SIGTERM, 143, signal.default_int_handler),
        (signal.SIGTERM, 143, signal.SIG_IGN),
    ],
    ids=["Ctrl-C", "SIGTERM", "SIGTERM in the background of a script, where SIGINT is ignored"],
)
def test_runs_end_before_the_services_that_started_them(
    tmp_path: Path, number: signal.Signals, code: int, begun_with: signal.Handlers
) -> None:
    program = tmp_path / "dagster.py"
    program.write_text(FAKE_DAGSTER)
    command = [sys.executable, "-m", "eval_pipeline.cli.dev_supervisor", sys.executable, str(program)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, begun_with),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"

        process.send_signal(number)
        out, _ = process.communicate(timeout=60)

    assert (process.returncode, out) == (
        code, "the run ends in order\nthe queued run stays\nthe services end\n",
    )  # fmt: skip


def test_a_queue_that_is_being_closed_waits_for_the_run_that_is_being_started(tmp_path: Path) -> None:
    queue = tmp_path / "queue"
    queue.touch()
    with ThreadPoolExecutor() as pool, begin_shared(str(queue)) as is_open:
        closing = pool.submit(close_queue, str(queue), lambda: False)
        wait_until(lambda: queue.stat().st_size > 0)
        with begin_shared(str(queue)) as opens_another:
            waits = not closing.done()

    closing.result()
    assert (is_open, waits, opens_another) == (True, True, False)


def test_the_daemon_begins_no_queued_run_once_the_queue_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = tmp_path / "queue"
    queue.touch()
    monkeypatch.setenv(QUEUE_VARIABLE, str(queue))
    monkeypatch.setattr(QueuedRunCoordinatorDaemon, "_dequeue_run", lambda daemon, run: True)
    heed_closing()
    daemon: Any = QueuedRunCoordinatorDaemon(1)

    begun = [daemon._dequeue_run("a")]
    close_queue(str(queue), lambda: False)
    begun.append(daemon._dequeue_run("b"))
    queue.unlink()
    begun.append(daemon._dequeue_run("c"))

    assert begun == [True, False, False]


@pytest.mark.slow
def test_ctrl_c_of_dev_ends_its_runs_and_leaves_the_queue(tmp_path: Path) -> None:
    files = {"greet.sh": SLOW, "runners.yaml": RUNNERS, "suites/waits.yaml": SUITE}
    project = make_cli_project(tmp_path / "p", files)
    project("run", "suites/waits.yaml", "--case", "c0", "--quiet")  # registers the partition
    settings = runs_folder(project.root / "data") / "dagster.yaml"
    settings.write_text(CONFIG.replace("max_concurrent_runs: 2", "max_concurrent_runs: 1"))
    port, log = free_port(), tmp_path / "dev.log"
    command = [sys.executable, "-c", "from eval_pipeline.cli.entry import main; main()", "dev", "--port", str(port)]
    environment = {**os.environ, "ATTACKED": str(tmp_path)}
    with (
        log.open("wb") as out,
        subprocess.Popen(
            command, cwd=project.root, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        ) as process,
    ):
        try:
            wait_until_served(f"http://127.0.0.1:{port}/server_info", process, log)
            launch(port, "waits@slow")
            launch(port, "waits@slow")
            wait_until(lambda: len(project.calls) >= 4)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        finally:
            process.kill()

    calls = len(project.calls)
    time.sleep(1.0)
    assert len(project.calls) == calls < CASES
    assert not [pid for pid in all_processes() if f"ATTACKED={tmp_path}\0".encode() in environment_of(pid)]
    assert project.ask("SELECT status FROM sweeps ORDER BY sweep_id") == [("finished",), ("interrupted",)]
    assert statuses(project) == ["QUEUED", "FAILURE", "SUCCESS"]


def launch(port: int, partition: str) -> None:
    """Materialize a partition, as the launchpad does."""
    selector = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__", "jobName": "sweep"}
    metadata = {"tags": [{"key": "dagster/partition", "value": partition}]}
    params = {"selector": selector, "runConfigData": {}, "executionMetadata": metadata}
    body = {"query": LAUNCH, "variables": {"params": params}}
    answer = httpx.post(f"http://127.0.0.1:{port}/graphql", json=body, timeout=60).json()
    assert answer["data"]["launchRun"]["__typename"] == "LaunchRunSuccess", answer


def statuses(project: Any) -> list[str]:
    """How the runs of the job `sweep` that Dagster started are, the newest first."""
    with open_instance(project.root / "data") as instance:
        return [run.status.value for run in instance.get_runs(dg.RunsFilter(job_name="sweep"))]
