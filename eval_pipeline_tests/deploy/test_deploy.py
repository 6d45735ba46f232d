"""The files of `deploy/`: Dagster accepts them, backups come back whole, and the services work together."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from eval_pipeline_tests.deploy.services import DEPLOY, Team, team
from eval_pipeline_tests.postgres_server import PASSWORD, USER, PostgresServer, postgres_server, programs
from eval_pipeline_tests.sweeps.sample_project import a_test, make_project


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    pytest.importorskip("dagster_postgres", reason="the extra `postgres` is not installed")
    with postgres_server() as started:
        yield started


def read(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


def test_dagster_accepts_the_settings_of_a_team(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dagster_celery", reason="the extra `celery` is not installed")
    server.database("accepted")
    values = {"HOST": "127.0.0.1", "PORT": server.port, "USER": USER, "PASSWORD": PASSWORD, "DB": "accepted"}
    for name, value in values.items():
        monkeypatch.setenv(f"DAGSTER_POSTGRES_{name}", str(value))
    monkeypatch.setenv("CELERY_BROKER", "redis://127.0.0.1:1/0")

    with dg.DagsterInstance.from_config(str(DEPLOY / "home")) as instance:
        assert type(instance.run_launcher).__name__ == "WatchedCeleryRunLauncher"
        assert type(instance.event_log_storage).__name__ == "PostgresEventLogStorage"
        assert instance.run_retries_enabled
        assert instance.run_retries_max_retries == 2
        assert instance.get_concurrency_config().run_queue_config is not None


def test_every_variable_of_the_settings_is_given_by_compose_or_by_its_files_of_secrets() -> None:
    asked = set(re.findall(r"env: (\w+)", (DEPLOY / "home" / "dagster.yaml").read_text()))
    compose = read("compose.yaml")
    secrets = {"DAGSTER_POSTGRES_PASSWORD"}

    for name in ("code", "webserver", "daemon", "worker-1", "worker-2"):
        service = compose["services"][name]
        assert asked <= set(service["environment"]) | secrets, name
        assert service["env_file"] == ["secrets.env"], name
        assert "healthcheck" in service, name
        assert service["read_only"] is True, name


def test_workers_of_another_machine_can_reach_what_the_services_have_and_nobody_else_by_default() -> None:
    services = read("compose.yaml")["services"]

    for name, variable in (("postgres", "DAGSTER_POSTGRES_HOST"), ("redis", "CELERY_BROKER")):
        (port,) = services[name]["ports"]
        assert port.startswith("${PRIVATE_ADDRESS:-127.0.0.1}:")
        assert services["worker-2"]["environment"][variable].startswith("${")
    assert "${DATA_FOLDER:-data}:/data" in services["worker-2"]["volumes"]


def test_no_password_is_in_any_file() -> None:
    for path in DEPLOY.rglob("*.*"):
        if path.is_file() and path.suffix != ".md":
            given = re.findall(r"(?i)password['\"]?[:=] *(?!\{env|\.\.\.)(\S+)", re.sub(r"#.*", "", path.read_text()))
            assert not given, path


def test_kubernetes_starts_the_same_location_with_the_same_folders_as_compose() -> None:
    values, compose = read("kubernetes/values.yaml"), read("compose.yaml")
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    docker = (DEPLOY / "Dockerfile").read_text()

    assert deployment["dagsterApiGrpcArgs"][-1] in docker
    assert str(deployment["port"]) in docker
    assert {each["name"]: each["value"] for each in deployment["env"]}["EVAL_PIPELINE_DATA"] == "/data"
    assert any(str(volume).endswith(":/data") for volume in compose["services"]["code"]["volumes"])
    assert values["postgresql"]["postgresqlScheme"] == "postgresql+psycopg2"


def test_a_pod_of_a_run_has_what_the_location_has_and_resources_of_its_own() -> None:
    values = read("kubernetes/values.yaml")
    (location,) = values["dagster-user-deployments"]["deployments"]
    launcher = values["runLauncher"]["config"]["k8sRunLauncher"]

    assert location["includeConfigInLaunchedRuns"] == {"enabled": False}, "the chart would put its resources into runs"
    assert launcher["resources"] != location["resources"]
    assert launcher["runK8sConfig"]["containerConfig"]["env"] == location["env"]
    assert launcher["runK8sConfig"]["podSpecConfig"]["securityContext"] == location["podSecurityContext"]
    assert location["podSecurityContext"]["fsGroup"] == location["securityContext"]["runAsUser"]
    for name in ("envSecrets", "volumes", "volumeMounts", "securityContext"):
        assert launcher[name] == location[name], name


def test_runs_have_as_long_to_start_in_kubernetes_as_with_compose() -> None:
    monitoring = read("kubernetes/values.yaml")["dagsterDaemon"]["runMonitoring"]

    assert monitoring["startTimeoutSeconds"] == read("home/dagster.yaml")["run_monitoring"]["start_timeout_seconds"]


CLOSED: dict[str, set[str]] = {
    "dagsterWebserver": {"replicaCount", "image", "env", "envSecrets", "resources", "enableReadOnly", "pathPrefix"},
    "dagsterDaemon": {"enabled", "env", "envSecrets", "resources", "runCoordinator", "runMonitoring", "runRetries"},
    "runLauncher": {"type", "config"},
    "retention": {"enabled", "sensor", "schedule", "autoMaterialize"},
    "telemetry": {"enabled"},
}
"""Sections of the values in which Helm refuses every name that the schema of Dagster's chart has not, and what we may
use of each."""


@pytest.mark.parametrize("section", CLOSED)
def test_the_values_have_no_name_that_the_chart_refuses(section: str) -> None:
    assert set(read("kubernetes/values.yaml")[section]) <= CLOSED[section]


def test_a_backup_comes_back_whole_in_another_place(server: PostgresServer, tmp_path: Path) -> None:
    psycopg2 = pytest.importorskip("psycopg2", reason="the extra `postgres` is not installed")
    with psycopg2.connect(server.database("kept")) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE runs AS SELECT generate_series(1, 1000) AS id")
        cursor.execute("CREATE ROLE keeper; ALTER TABLE runs OWNER TO keeper")
    connection.close()
    data = tmp_path / "data"
    (data / "artifacts").mkdir(parents=True)
    (data / "artifacts" / "a").write_bytes(b"\0raw")

    backup = Path(ran(server, "backup.sh", tmp_path / "backups", data).strip())
    assert {"kept.dump", "data.tar"} <= {path.name for path in backup.iterdir()}
    with postgres_server() as other:
        other.sql("postgres", "CREATE ROLE keeper")
        ran(other, "restore.sh", backup, tmp_path / "restored")
        with psycopg2.connect(other.url("kept")) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT count(*), sum(id) FROM runs")
            assert cursor.fetchall() == [(1000, 500_500)]
            cursor.execute("SELECT tableowner FROM pg_tables WHERE tablename = 'runs'")
            assert cursor.fetchall() == [("keeper",)], "the writer of a lake owns its tables"
        connection.close()
        with pytest.raises(subprocess.CalledProcessError):
            ran(other, "restore.sh", backup, tmp_path / "restored")  # nothing is overwritten
        with pytest.raises(subprocess.CalledProcessError):
            ran(other, "restore.sh", tmp_path / "none", tmp_path / "elsewhere")

    assert (tmp_path / "restored" / "artifacts" / "a").read_bytes() == b"\0raw"


@pytest.mark.parametrize("while_", ["pg_dump", "tar"])
@pytest.mark.parametrize(("removed", "code"), [("lake/ducklake-a.parquet", 1), (".answer.parquet", 0)])
def test_rows_that_a_compaction_removes_meanwhile_are_no_backup(
    tmp_path: Path, while_: str, removed: str, code: int
) -> None:
    """The programs are stand-ins, one of which removes a file before it does its work."""
    data, commands, backups = tmp_path / "data", tmp_path / "bin", tmp_path / "backups"
    for file in ("lake/ducklake-a.parquet", "lake/ducklake-b.parquet", ".answer.parquet"):
        (data / file).parent.mkdir(parents=True, exist_ok=True)
        (data / file).touch()
    commands.mkdir()
    for name, work in {"psql": "echo lake", "pg_dump": "true", "tar": f'exec {shutil.which("tar")} "$@"'}.items():
        first = f"rm {data / removed}\n" if name == while_ else ""
        (commands / name).write_text(f"#!/bin/sh\n{first}{work}\n")
        (commands / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}

    done = subprocess.run(
        ["bash", str(DEPLOY / "backup.sh"), str(backups), str(data)], env=environment, capture_output=True, text=True
    )

    assert done.returncode == code, done.stderr
    assert ("ducklake-a.parquet" in done.stderr) == bool(code)
    assert len(list(backups.iterdir())) == 1 - code, "nothing is left of a backup that is not whole"


def ran(server: PostgresServer, script: str, *arguments: Path) -> str:
    """What a script of `deploy/` prints, as the server's user."""
    path = f"{programs()}{os.pathsep}{os.environ['PATH']}"
    named = {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": USER, "PGPASSWORD": PASSWORD, "PATH": path}
    command = ["bash", str(DEPLOY / script), *map(str, arguments)]
    return subprocess.run(command, env=os.environ | named, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def started(server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    pytest.importorskip("dagster_celery", reason="the extra `celery` is not installed")
    root = tmp_path_factory.mktemp("team")
    folder = make_project(root / "project")
    folder.write_suite(a_test("x"), name="more")
    with team(folder, server, root / "home") as services:
        services.start_worker("worker-1")
        yield services


@pytest.mark.team
def test_a_worker_carries_out_what_the_page_starts(started: Team) -> None:
    wait_for_partitions(started, "sums@echo")

    assert started.ui.materialize("sums@echo") == "SUCCESS", started.log("worker-1").read_text()
    assert started.folder.take_calls() == ["echo/a", "echo/b"]


@pytest.mark.team
def test_a_run_whose_worker_died_is_tried_again_by_another(started: Team) -> None:
    started.folder.write_answers(b="hang")
    started.folder.write_suite(a_test("a"), a_test("b"), name="slow")
    wait_for_partitions(started, "slow@echo")
    launched = started.ui.launch("slow@echo")
    wait_until(lambda: "echo/b" in started.folder.take_calls(), "the call that hangs", started, "worker-1")

    started.kill("worker-1")
    started.folder.write_answers()
    started.start_worker("worker-2")

    assert started.ui.ended(launched) == "FAILURE"
    again = "{ runsOrError(limit: 1) { ... on Runs { results { runId rootRunId } } } }"
    wait_until(
        lambda: started.ui.ask(again)["runsOrError"]["results"][0]["rootRunId"] == launched,
        "the retry",
        started,
        "daemon",
    )
    newest = started.ui.ask(again)["runsOrError"]["results"][0]["runId"]
    assert started.ui.ended(newest) == "SUCCESS"
    assert started.folder.take_calls() == ["echo/b"], "what was answered before is not asked again"


def wait_for_partitions(services: Team, key: str) -> None:
    """Wait until the sensor of the daemon made a pair a partition."""
    asked = '{ assetNodeOrError(assetKey: {path: ["evaluator_scores"]}) { ... on AssetNode { partitionKeys } } }'
    wait_until(
        lambda: key in services.ui.ask(asked)["assetNodeOrError"].get("partitionKeys", []), key, services, "daemon"
    )


def wait_until(there: Callable[[], bool], what: str, services: Team, log: str) -> None:
    deadline = time.monotonic() + 120
    while not there():
        assert time.monotonic() < deadline, f"no {what}\n{services.log(log).read_text()}"
        time.sleep(0.3)
