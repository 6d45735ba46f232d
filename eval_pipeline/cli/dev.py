"""`eval-pipeline dev`: the Dagster UI of this project, including the runs of the command line."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import click

from eval_pipeline.cli import address, dev_services, dev_supervisor
from eval_pipeline.cli.options import open_project, project_options
from eval_pipeline.cli.terminal import echo
from eval_pipeline.errors import InputError
from eval_pipeline.parsing.source import show_path
from eval_pipeline.sweeps.dagster_databases import prepare_databases
from eval_pipeline.sweeps.dagster_files import is_on_a_server, prepare_home, workspace_file
from eval_pipeline.sweeps.project import DATA_VARIABLE, PROJECT_FILE, PROJECT_VARIABLE, Project

_SUPERSEDED = "ignore:Function `dev_command` is superseded"
"""A filter of warnings: Dagster recommends `dg dev`, which serves projects of another layout."""


@click.command(name="dev")
@project_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True, help="Port to listen on.")
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME[:PORT]",
    callback=lambda context, option, names: host_names(names),
    help="Host of a proxy through which browsers reach the UI; repeatable. Requests for other hosts are refused.",
)
def dev_command(project: Path | None, data: Path | None, host: str, port: int, allowed_hosts: tuple[str, ...]) -> None:
    """Start `dagster dev` for this project: UI, schedules, sensors. Prints the address when it answers.

    Ctrl-C ends it with the runs under way; what they executed is kept. Queued runs stay queued for the next `dev`.
    Dagster's runs are kept in `dagster/` of the data folder, unless DAGSTER_HOME names another folder. The UI has no
    password: pages of other sites are refused, but everybody who reaches the address can start runs.
    """
    opened = open_project(project, data)
    _check_free(host, port)
    prepare_databases(opened.data, opened.root)
    home = prepare_home(opened.data, opened.root)
    _check_storage(opened, home)
    environment = {**os.environ, "DAGSTER_HOME": str(home), "DAGSTER_DISABLE_TELEMETRY": "1"}
    environment["PYTHONWARNINGS"] = ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), _SUPERSEDED]))
    if (opened.root / PROJECT_FILE).is_file():
        environment[PROJECT_VARIABLE] = str(opened.root / PROJECT_FILE)
    environment[dev_services.HOST_VARIABLE] = host
    environment[dev_services.ALLOWED_HOSTS_VARIABLE] = ",".join(allowed_hosts)
    if data is not None:
        environment[DATA_VARIABLE] = str(opened.data)
    echo(f"starting Dagster for {show_path(opened.root)} (DAGSTER_HOME={show_path(home)}) …", err=True)
    _announce(host, port)
    os.chdir(opened.root)
    arguments = ["-w", str(workspace_file(opened.root)), "-h", host, "-p", str(port)]
    dagster = [sys.executable, "-m", dev_services.MODULE, "dagster", "dev", *arguments]
    # Replaced by a small process: what this one has imported takes memory as long as the UI is up.
    os.execve(sys.executable, [sys.executable, "-m", dev_supervisor.MODULE, *dagster], environment)


def _check_storage(opened: Project, home: Path) -> None:
    """Raise an error of ours where Dagster's storage on a server cannot be used: Dagster would show a stack trace."""
    if not is_on_a_server(home):
        return
    from eval_pipeline.orchestration.instance import open_instance  # noqa: PLC0415 — imports Dagster

    with open_instance(opened.data, opened.root):
        return


def host_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the hosts of `--allowed-host`. Raises click.BadParameter for an address or a pattern."""
    for name in names:
        if not name or set(name) & set("/,*@ "):
            raise click.BadParameter(f"{name!r} is not a host; expected a name such as evals.example.com, or NAME:PORT")
    return names


def _check_free(host: str, port: int) -> None:
    """Raise InputError when another program listens on the port."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise InputError(f"cannot listen on {host}:{port}: {error.strerror}; name another with --port") from None


def _announce(host: str, port: int) -> None:
    """Start a process that prints the address once it answers, and ends with this one."""
    subprocess.Popen([sys.executable, "-S", str(Path(address.__file__)), host, str(port), str(os.getpid())])
