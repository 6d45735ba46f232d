"""`eval-pipeline dev`: the Dagster UI of this project, including the runs of the command line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from eval_pipeline.cli.options import open_project, project_options
from eval_pipeline.sweeps.project import DATA_VARIABLE, PROJECT_FILE, PROJECT_VARIABLE


@click.command(name="dev")
@project_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=int, default=3000, show_default=True, help="Port to listen on.")
def dev_command(project: Path | None, data: Path | None, host: str, port: int) -> None:
    """Start `dagster dev` for this project: UI, schedules, sensors. Ctrl-C ends it."""
    from eval_pipeline.orchestration.instance import prepare_home  # noqa: PLC0415 — Dagster takes a second to import

    opened = open_project(project, data)
    environment = {**os.environ, "DAGSTER_HOME": str(prepare_home(opened.data)), "DAGSTER_DISABLE_TELEMETRY": "1"}
    if (opened.root / PROJECT_FILE).is_file():
        environment[PROJECT_VARIABLE] = str(opened.root / PROJECT_FILE)
    if data is not None:
        environment[DATA_VARIABLE] = str(opened.data)
    arguments = ["-m", "eval_pipeline.orchestration.definitions", "-h", host, "-p", str(port)]
    click.echo(f"Dagster UI: http://{host}:{port}", err=True)
    os.chdir(opened.root)
    os.execve(sys.executable, [sys.executable, "-m", "dagster", "dev", *arguments], environment)
