"""Definitions for a project session: what a code location serves, a sweep of the command line runs, tests load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import dagster as dg

from eval_pipeline.orchestration.asset_details import details_of
from eval_pipeline.orchestration.asset_keys import keys_of
from eval_pipeline.orchestration.assets import input_assets, leaderboards_asset, pair_assets, suites_asset
from eval_pipeline.orchestration.compaction import compaction_of
from eval_pipeline.orchestration.executors import executor_of
from eval_pipeline.orchestration.jobs import make_jobs
from eval_pipeline.orchestration.partitions import exactly, pair_partitions
from eval_pipeline.orchestration.plan_job import plan_job
from eval_pipeline.orchestration.schedules import schedules_of
from eval_pipeline.orchestration.sensors import automation, dead_runs, discover_suites, free_scores
from eval_pipeline.sweeps.dagster_settings import prefix_of
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
    *,
    group: str | None = None,
    key_prefix: str | Sequence[str] | None = None,
) -> dg.Definitions:
    """Build all assets, checks, jobs, schedules and sensors of a project.

    Args:
        project: the project's folder or an open session; a code location of yours merges the result with its own
            (`dg.Definitions.merge`).
        group: the group of the assets in the UI; default: that of Dagster.
        key_prefix: what the keys of the assets begin with (`team/evals`, or the parts of it); default: that of the
            project file, which runs of the command line have as well.

    Raises:
        InputError: the project cannot be used.
    """
    session = _with_prefix(session_of(project), key_prefix)
    keys = keys_of(session.project)
    jobs = make_jobs(keys, executor_of(session.project.dagster))
    assets: Sequence[dg.AssetsDefinition | dg.AssetSpec] = [
        suites_asset(session),
        *input_assets(session, pair_partitions),
        pair_assets(session, pair_partitions),
        leaderboards_asset(session),
    ]
    compact_jobs, compact_schedules = compaction_of(session)
    definitions = dg.Definitions(
        assets=dg.map_asset_specs(details_of(session.project), assets),
        jobs=[*jobs.values(), *compact_jobs, plan_job(session)],
        schedules=[*schedules_of(session, jobs["sweep"]), *compact_schedules],
        sensors=[discover_suites(session), automation(keys), free_scores(keys), dead_runs()],
    )
    return definitions if group is None else in_group(definitions, group)


def sweep_definitions(session: ProjectSession, pairs: Sequence[PairKey]) -> dg.Definitions:
    """Build what the command line runs: the assets of exactly these pairs, and the job `sweep`. The UI shows its runs
    with the details of the code location."""
    partitions = exactly(pairs)
    sweep = make_jobs(keys_of(session.project), dg.in_process_executor)["sweep"]
    return dg.Definitions(assets=[*input_assets(session, partitions), pair_assets(session, partitions)], jobs=[sweep])


def _with_prefix(session: ProjectSession, key_prefix: str | Sequence[str] | None) -> ProjectSession:
    """Return the session with another prefix of the assets' keys; None leaves that of the project file."""
    if key_prefix is None:
        return session
    settings = session.project.dagster.model_copy(update={"key_prefix": prefix_of(key_prefix)})
    return replace(session, project=replace(session.project, dagster=settings))


def in_group(definitions: dg.Definitions, group: str) -> dg.Definitions:
    """Return definitions whose assets are in a group."""
    return definitions.map_asset_specs(func=lambda spec: spec.replace_attributes(group_name=group))
