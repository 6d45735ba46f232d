"""The services of `deploy/` as plain processes, over a real PostgreSQL and a real Redis."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from eval_pipeline_tests.orchestration.dev_servers import QUICK_DAEMONS, Ui, free_port, wait_until_served
from eval_pipeline_tests.postgres_server import PASSWORD, USER, PostgresServer
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder

DEPLOY = Path(__file__).parents[2] / "deploy"
PROGRAMS = Path(sys.executable).parent


@dataclass
class Team:
    """The services of a project."""

    folder: ProjectFolder
    home: Path
    environment: dict[str, str]
    url: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def ui(self) -> Ui:
        return Ui(self.url, self.folder, "")

    def start(self, name: str, *command: str) -> None:
        """Start a service by a program of the environment; what it prints is in NAME.log."""
        with self.log(name).open("wb") as out:
            self.processes[name] = subprocess.Popen(
                [str(PROGRAMS / command[0]), *command[1:]],
                env=self.environment, cwd=self.home, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip

    def start_worker(self, name: str) -> None:
        """Start a worker, as compose.yaml does."""
        self.start(
            name,
            "celery",
            "-A",
            "dagster_celery.app",
            "worker",
            "-Q",
            "dagster",
            "--concurrency",
            "1",
            "-n",
            f"{name}@%h",
        )

    def kill(self, name: str) -> None:
        """Kill a service with all that it started."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def log(self, name: str) -> Path:
        return self.home / f"{name}.log"


@contextlib.contextmanager
def team(folder: ProjectFolder, server: PostgresServer, home: Path) -> Iterator[Team]:
    """Start all services of a project but the workers; kill them in the end."""
    if shutil.which("redis-server") is None:
        pytest.skip("Redis is not installed (Debian: apt-get install redis-server)")
    server.database("dagster")
    redis, code, web = free_port(), free_port(), free_port()
    shutil.copytree(DEPLOY / "home", home)
    address = {"host": "127.0.0.1", "port": code, "location_name": "eval_pipeline"}
    (home / "workspace.yaml").write_text(yaml.safe_dump({"load_from": [{"grpc_server": address}]}))
    services = Team(folder, home, _environment(folder, server, home, redis), f"http://127.0.0.1:{web}")
    try:
        services.start("redis", str(shutil.which("redis-server")), "--port", str(redis), "--save", "")
        module = ("--module-name", "eval_pipeline.orchestration.definitions")
        services.start("code", "dagster", "api", "grpc", *module, "--host", "127.0.0.1", "--port", str(code))
        services.start("webserver", "dagster-webserver", "-w", "workspace.yaml", "-p", str(web))
        services.start("daemon", "dagster-daemon", "run", "-w", "workspace.yaml")
        wait_until_served(f"{services.url}/server_info", services.processes["webserver"], services.log("webserver"))
        yield services
    finally:
        for name in list(services.processes):
            services.kill(name)


def _environment(folder: ProjectFolder, server: PostgresServer, home: Path, redis: int) -> dict[str, str]:
    return os.environ | {
        "DAGSTER_HOME": str(home),
        "DAGSTER_POSTGRES_HOST": "127.0.0.1",
        "DAGSTER_POSTGRES_PORT": str(server.port),
        "DAGSTER_POSTGRES_USER": USER,
        "DAGSTER_POSTGRES_PASSWORD": PASSWORD,
        "DAGSTER_POSTGRES_DB": "dagster",
        "CELERY_BROKER": f"redis://127.0.0.1:{redis}/0",
        "EVAL_PIPELINE_PROJECT": str(folder.root),
        "EVAL_PIPELINE_LOCATION": "eval_pipeline",
        "PYTHONPATH": os.pathsep.join([str(home / "celery"), str(QUICK_DAEMONS)]),
    }
