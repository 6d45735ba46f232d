"""What `workspace.yaml` loads: the definitions of the project found from where Dagster was started."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from eval_pipeline.orchestration.build import build_definitions
from eval_pipeline.sweeps.project import load_project
from eval_pipeline.sweeps.project_session import ProjectSession


def load() -> dg.Definitions:
    """The definitions of the project of the current folder. Raises InputError, which the UI shows as it is."""
    session = ProjectSession(load_project(Path.cwd()))
    runners = [runner.name for runner in session.load_runners()] if session.project.runners else []
    return build_definitions(session, runners or ["none"])


defs = load()
