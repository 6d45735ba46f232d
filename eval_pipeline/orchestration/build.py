"""Definitions for a project session: what a code location serves, a sweep of the command line runs, tests load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from eval_pipeline.orchestration.assets import leaderboards_asset, pair_assets, suites_asset
from eval_pipeline.orchestration.jobs import make_jobs
from eval_pipeline.orchestration.partitions import exactly, grid, suite_partitions
from eval_pipeline.orchestration.schedules import nightly_sweep
from eval_pipeline.orchestration.sensors import automation, discover_suites
from eval_pipeline.sweeps.project import load_project
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.warehouse.journal import PairKey


def session_of(project: ProjectSession | Path | str) -> ProjectSession:
    """The session of a project; a folder is that of the project file, or lies below it. Raises InputError.

    A schedule that cannot be used is reported and does not take the code location down.
    """
    if isinstance(project, ProjectSession):
        return project
    return ProjectSession(load_project(Path(project), any_schedule=True))


def build_definitions(
    project: ProjectSession | Path | str,
    runners: Sequence[str] | None = None,
    pairs: Sequence[PairKey] | None = None,
) -> dg.Definitions:
    """Build all assets, checks, jobs, schedules and sensors of a project.

    Args:
        project: the project's folder or an open session; a code location of yours merges the result with its own
            (`dg.Definitions.merge`).
        runners: the runners that become partitions; by default those of the runners file.
        pairs: fixes the partitions to exactly these suites × runners. Without it suites are dynamic partitions that
            the sensor keeps up to date, and every runner goes with every suite.

    Raises:
        InputError: the project or its runners file cannot be used.
    """
    session = session_of(project)
    if runners is None:
        runners = [runner.name for runner in session.load_runners()] if session.project.runners else ["none"]
    names = list(runners)
    jobs = make_jobs()
    side = suite_partitions(None if pairs is None else list(dict.fromkeys(pair.suite for pair in pairs)))
    return dg.Definitions(
        assets=[
            suites_asset(session, side),
            pair_assets(session, grid(side, names or ["none"]) if pairs is None else exactly(pairs)),
            leaderboards_asset(session),
        ],
        jobs=list(jobs.values()),
        schedules=[nightly_sweep(session, names, jobs["sweep"])],
        sensors=[discover_suites(session), automation()],
    )
