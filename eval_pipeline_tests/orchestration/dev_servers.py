"""`eval-pipeline dev` on a project with a finished sweep, and what tests ask of it."""

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

from eval_pipeline.orchestration.run import run_sweep
from eval_pipeline_tests.sweeps.sample_project import (
    ProjectFolder,
    a_runner_entry,
    a_test,
    contains,
    every_cell,
    make_project,
)

PROXY = "evals.example.com"
"""A host that the server is told to serve."""
QUICK_DAEMONS = Path(__file__).parent / "quick_daemons"
"""On the path of a test server its daemons wait for a few seconds instead of up to 30."""
PATIENCE_S = 300.0
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
        return self.ended(self.launch(partition))

    def launch(self, partition: str) -> str:
        """Starts a run of the job `sweep` over one cell; returns its id."""
        selector = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__", "jobName": "sweep"}
        tags = [{"key": "dagster/partition", "value": partition}]
        params = {"selector": selector, "runConfigData": {}, "executionMetadata": {"tags": tags}}
        launched = self.ask(LAUNCH, params=params)["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return str(launched["run"]["runId"])

    def ended(self, run_id: str) -> str:
        """Waits for the end of a run; returns how it ended."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            status = str(self.ask(STATUS, id=run_id)["runOrError"]["status"])
            if status in ("SUCCESS", "FAILURE", "CANCELED"):
                return status
            assert time.monotonic() < deadline, f"the run is still {status}"
            time.sleep(0.2)


@contextlib.contextmanager
def served_ui(root: Path) -> Iterator[Ui]:
    """Make a project of two runners in a folder, and start `eval-pipeline dev` on it.

    The command line has carried out `echo` there, and `parrot` in another data folder, while the server starts.
    """
    folder = make_project(root)
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("parrot"))
    folder.write_suite(a_test("a"), a_test("b", contains("9")))
    run_id = sweep_by_command_line(folder, folder.data, "echo")
    port = free_port()
    with dev_server(folder, port, "--allowed-host", PROXY) as (process, log):
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
    path = os.pathsep.join(filter(None, (str(QUICK_DAEMONS), os.environ.get("PYTHONPATH"))))
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": path},
            stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
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
