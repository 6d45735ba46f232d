"""Where Dagster keeps the runs of a project: one folder for the commands, `eval-pipeline dev` and `dagster dev`."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import httpx
import pytest
import yaml
from dagster._core.instance.ref import InstanceRef

from eval_pipeline.cli import address
from eval_pipeline.cli.dev_services import startup_problem
from eval_pipeline.cli.main import main
from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline.orchestration.run import run_sweep
from eval_pipeline.sweeps.dagster_files import (
    CONFIG,
    LOCATION,
    MODULE,
    configures,
    dagster_home,
    describe_home,
    location_name,
    prepare_home,
    workspace_file,
)
from eval_pipeline.sweeps.new_projects import template_files
from eval_pipeline_tests.forks import run_python
from eval_pipeline_tests.orchestration.dev_servers import free_port, wait_until_served
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, every_cell

PATIENCE_S = 300.0
RUNS = """{
  shouldShowNux
  runsOrError { ... on Runs { results { runId jobName repositoryOrigin { repositoryLocationName } } } }
  assetNodeOrError(assetKey: {path: ["evaluator_scores"]}) {
    ... on AssetNode { partitionStats { numMaterialized } }
  }
}"""


@pytest.fixture(autouse=True)
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)


def with_dagster_files(folder: ProjectFolder) -> None:
    for name, text in template_files("dagster").items():
        (folder.root / name).write_text(text)


def sweep(folder: ProjectFolder) -> str:
    session = folder.session()
    result = run_sweep(session, *every_cell(session, "echo"), {})
    assert result.problem is None
    assert result.run_id is not None
    return result.run_id


def test_a_new_project_has_the_files_of_a_plain_dagster_dev(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "workspace.yaml").write_text("load_from: []\n")

    with pytest.raises(SystemExit) as left:
        main(["init", str(tmp_path / "new"), "--kind", "program"])

    assert not left.value.code
    assert configures(tmp_path / "new", tmp_path / "new" / "data")
    assert (tmp_path / "new" / "workspace.yaml").read_text() == "load_from: []\n"


def test_the_projects_own_settings_make_its_folder_the_home(folder: ProjectFolder) -> None:
    assert dagster_home(folder.data, folder.root) == folder.data / "dagster"

    with_dagster_files(folder)

    assert dagster_home(folder.data, folder.root) == folder.root
    assert dagster_home(folder.root / "other", folder.root) == folder.root / "other" / "dagster"


def test_a_home_in_the_environment_wins(folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    with_dagster_files(folder)

    monkeypatch.setenv("DAGSTER_HOME", str(folder.root / "mine"))

    assert dagster_home(folder.data, folder.root) == folder.root / "mine"
    assert "mine (DAGSTER_HOME)" in describe_home(folder.root, folder.data)


def test_runs_are_stored_in_the_data_folder_wherever_a_command_starts(
    folder: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = sweep(folder)
    with_dagster_files(folder)
    monkeypatch.chdir(tmp_path)

    with open_instance(folder.data, folder.root) as instance:
        assert instance.get_run_by_id(run_id) is not None
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("text", ["", "[]", "storage: {postgres: {}}", "storage: {sqlite: {base_dir: 5}}", "a: ["])
def test_other_settings_in_the_projects_folder_are_left_to_dagster(folder: ProjectFolder, text: str) -> None:
    (folder.root / "dagster.yaml").write_text(text)

    assert not configures(folder.root, folder.data)
    assert "eval-pipeline dev" in describe_home(folder.root, folder.data)


NUX = "nux:  # the invitation to Dagster's community\n  enabled: false\n"


SERVERS = CONFIG[CONFIG.index("code_servers:") : CONFIG.index("retention:")]


@pytest.mark.parametrize("removed", [(), (SERVERS,), (SERVERS, "start_timeout"), (SERVERS, "start_timeout", NUX)])
def test_homes_of_earlier_versions_get_what_newer_ones_have(tmp_path: Path, removed: tuple[str, ...]) -> None:
    """No invitation to Dagster's community; time for code locations, and for the events that a run begins with."""
    file = prepare_home(tmp_path) / "dagster.yaml"
    before = "".join(
        line for line in CONFIG.splitlines(True) if "start_timeout" not in removed or removed[1] not in line
    )
    for block in {SERVERS, NUX}.intersection(removed):
        before = before.replace(block, "")
    file.write_text(before)

    prepare_home(tmp_path)

    instance = dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(file.parent)))
    assert not instance.nux_enabled
    assert not instance.telemetry_enabled
    assert instance.run_monitoring_start_timeout_seconds == 1800
    assert instance.code_server_process_startup_timeout == 600


def test_a_code_location_that_does_not_answer_in_time_is_told_without_a_stack_trace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    text = "Exception: Timed out waiting for gRPC server to start after 180s. To increase …\n\nStack Trace:"

    problem = startup_problem(text)

    assert "did not answer within 180 s" in problem
    assert f"{tmp_path / 'dagster.yaml'}: code_servers: {{local_startup_timeout: SECONDS}}" in problem
    assert startup_problem("Exception: it died\nStack Trace:").endswith("did not start: Exception: it died")


def test_settings_that_a_user_changed_stay(tmp_path: Path) -> None:
    file = prepare_home(tmp_path) / "dagster.yaml"
    file.write_text("nux: {enabled: true}\n")

    prepare_home(tmp_path)

    assert file.read_text() == "nux: {enabled: true}\n"


LOCATIONS: dict[str, tuple[Any, str]] = {
    "none": (None, LOCATION),
    "named": ([{"python_module": {"module_name": MODULE, "location_name": "evals"}}], "evals"),
    "short": ([{"python_module": "mine"}, {"python_module": MODULE}], MODULE),
    "theirs": ([{"python_file": "mine.py"}], LOCATION),
    "broken": ("nonsense", LOCATION),
}


@pytest.mark.parametrize(("entries", "name"), LOCATIONS.values(), ids=LOCATIONS)
def test_runs_belong_to_the_code_location_of_the_projects_workspace(tmp_path: Path, entries: Any, name: str) -> None:
    if entries is not None:
        (tmp_path / "workspace.yaml").write_text(yaml.safe_dump({"load_from": entries}))

    assert location_name(tmp_path) == name
    assert (workspace_file(tmp_path).parent == tmp_path) == (entries is not None and name in ("evals", MODULE))


def test_the_code_location_of_a_deployment_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "workspace.yaml").write_text(yaml.safe_dump({"load_from": [{"python_module": MODULE}]}))

    monkeypatch.setenv("EVAL_PIPELINE_LOCATION", "analytics")

    assert location_name(tmp_path) == "analytics"


def test_a_run_of_the_command_line_belongs_to_its_job_in_the_code_location(folder: ProjectFolder) -> None:
    run_id = sweep(folder)

    with open_instance(folder.data, folder.root) as instance:
        run = instance.get_run_by_id(run_id)
        listed = instance.get_runs(dg.RunsFilter(tags={".dagster/repository": f"__repository__@{LOCATION}"}))

    assert run is not None
    assert run.remote_job_origin is not None
    assert run.remote_job_origin.job_name == "sweep"
    assert [each.job_name for each in listed] == ["sweep"]


def test_a_port_in_use_is_said_before_anything_starts(
    folder: ProjectFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(SystemExit) as left:
            main(["dev", "--project", str(folder.root), "--port", str(port)])

    assert left.value.code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


def test_the_address_is_not_announced_for_a_server_that_ended(capsys: pytest.CaptureFixture[str]) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()

    address.announce("127.0.0.1", free_port(), ended.pid)

    assert capsys.readouterr().err == ""


@contextlib.contextmanager
def plain_dagster_dev(folder: ProjectFolder) -> Iterator[tuple[str, Path]]:
    """`dagster dev` in a project's folder; yields its address and the file of its output."""
    port, log = free_port(), folder.root / "plain.log"
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    command = [sys.executable, "-m", "dagster", "dev", "-p", str(port)]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=folder.root, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        wait_until_served(f"http://127.0.0.1:{port}/server_info", process, log)
        yield f"http://127.0.0.1:{port}", log
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)


def shown(url: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = httpx.post(f"{url}/graphql", json={"query": RUNS}, timeout=60).json()
        data: dict[str, Any] = answer.get("data") or {}
        if data.get("assetNodeOrError", {}).get("partitionStats"):
            return data
        assert time.monotonic() < deadline, answer
        time.sleep(0.5)


@pytest.mark.slow
def test_a_plain_dagster_dev_shows_the_runs_and_partitions_of_the_command_line(folder: ProjectFolder) -> None:
    with_dagster_files(folder)
    run_id = sweep(folder)

    with plain_dagster_dev(folder) as (url, log):
        data = shown(url)
        text = log.read_text()

    runs = {run["runId"]: run for run in data["runsOrError"]["results"]}
    assert runs[run_id]["jobName"] == "sweep"
    assert runs[run_id]["repositoryOrigin"] == {"repositoryLocationName": LOCATION}
    assert data["assetNodeOrError"]["partitionStats"]["numMaterialized"] == 1
    assert data["shouldShowNux"] is False
    assert f"also those of eval-pipeline, are kept in {folder.data}/dagster" in text
    assert "Telemetry" not in text


def test_definitions_without_settings_of_dagster_say_how_to_see_the_runs(folder: ProjectFolder) -> None:
    (folder.root / "workspace.yaml").write_text(template_files("dagster")["workspace.yaml"])

    loaded = run_python(f"import runpy; runpy.run_module({MODULE!r})", "api", "grpc", cwd=folder.root)

    assert f"`eval-pipeline dev`, or `dagster dev` with DAGSTER_HOME={folder.data}/dagster" in loaded.stderr
