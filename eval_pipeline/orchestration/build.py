"""Definitions for a project session: what a code location serves, a sweep of the command line runs, tests load."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from eval_pipeline.orchestration.assets import leaderboards_asset, pair_assets, suites_asset
from eval_pipeline.orchestration.jobs import make_jobs
from eval_pipeline.orchestration.partitions import exactly, grid, suite_partitions
from eval_pipeline.orchestration.schedules import nightly_sweep
from eval_pipeline.orchestration.sensors import automation, discover_suites
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.warehouse.journal import PairKey


def build_definitions(
    session: ProjectSession, runners: Sequence[str], pairs: Sequence[PairKey] | None = None
) -> dg.Definitions:
    """All assets, checks, jobs, schedules and sensors over these runners.

    `cells` fixes the partitions to exactly these suites × runners; without it suites are dynamic partitions that the
    sensor keeps up, and every runner goes with every suite.
    """
    names = list(runners)
    jobs = make_jobs()
    side = suite_partitions(None if pairs is None else list(dict.fromkeys(pair.suite for pair in pairs)))
    return dg.Definitions(
        assets=[
            suites_asset(session, side),
            pair_assets(session, grid(side, names) if pairs is None else exactly(pairs)),
            leaderboards_asset(session),
        ],
        jobs=list(jobs.values()),
        schedules=[nightly_sweep(session, names, jobs["sweep"])],
        sensors=[discover_suites(session), automation()],
        executor=dg.in_process_executor,
    )
