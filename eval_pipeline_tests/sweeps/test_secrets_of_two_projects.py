"""Two projects in one process: each redacts what it lists as secret, and not what the other lists."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import Any

from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.sweep import carry_out
from eval_pipeline.sweeps.sweep_store import new_id
from eval_pipeline_tests.sweeps.sample_project import (
    ProjectFolder,
    a_test,
    contains,
    every_cell,
    make_project,
)

LISTED = {"north": "patient", "south": "ward"}
"""What each project lists under `secrets:`."""
VALUES = {"patient": "Grace H.", "ward": "seven"}


def a_project(folder: Path, name: str) -> ProjectFolder:
    project = make_project(folder / name, secrets=[LISTED[name]])
    write_suite(project, "first")
    return project


def write_suite(project: ProjectFolder, *cases: str) -> None:
    project.write_suite(*(a_test(case, contains("2"), metadata=VALUES) for case in cases))


def sweep(session: ProjectSession, when_loaded: Callable[[], object] = lambda: None) -> None:
    """Load a project's suite, store it and execute it, as `eval-pipeline run` does in one process."""
    suites, pairs = every_cell(session, "echo")
    when_loaded()
    session.store.store_suites(suites)
    sweep_id = new_id(datetime.now(UTC))
    carry_out(session.pairs(pairs), SweepOptions(), warehouse=session.warehouse, sweep_id=sweep_id)


def stored(project: ProjectFolder) -> list[Any]:
    """Return the metadata of the stored cases."""
    return [json.loads(text) for (text,) in project.ask("SELECT metadata FROM cases")]


def redacted(name: str) -> dict[str, str]:
    return {key: "***" if key == LISTED[name] else value for key, value in VALUES.items()}


def test_projects_in_turn_redact_what_their_own_file_lists(tmp_path: Path) -> None:
    projects = {name: a_project(tmp_path, name) for name in LISTED}
    sessions = {name: project.session() for name, project in projects.items()}
    for session in sessions.values():
        session.store.store_suites(session.load_suites())

    assert {name: stored(project) for name, project in projects.items()} == {name: [redacted(name)] for name in LISTED}


def test_sweeps_at_once_redact_what_their_own_project_lists(tmp_path: Path) -> None:
    projects = {name: a_project(tmp_path, name) for name in LISTED}
    both = Barrier(len(projects))
    with ThreadPoolExecutor(len(projects)) as threads:
        list(threads.map(lambda project: sweep(project.session(), both.wait), projects.values()))

    assert {name: stored(project) for name, project in projects.items()} == {name: [redacted(name)] for name in LISTED}
