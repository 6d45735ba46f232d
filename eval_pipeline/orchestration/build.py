"""Definitions for a workbench: what a code location serves, what a sweep of the command line runs, what tests load."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from eval_pipeline.orchestration.assets import cell_assets, leaderboards_asset, suites_asset
from eval_pipeline.orchestration.jobs import make_jobs
from eval_pipeline.orchestration.partitions import exactly, grid, suite_partitions
from eval_pipeline.orchestration.schedules import nightly_sweep
from eval_pipeline.orchestration.sensors import automation, discover_suites
from eval_pipeline.sweeps.project_session import Workbench
from eval_pipeline.warehouse.journal import CellName


def build_definitions(
    workbench: Workbench, runners: Sequence[str], cells: Sequence[CellName] | None = None
) -> dg.Definitions:
    """All assets, checks, jobs, schedules and sensors over these runners.

    `cells` fixes the partitions to exactly these suites × runners; without it suites are dynamic partitions that the
    sensor keeps up, and every runner goes with every suite.
    """
    names = list(runners)
    jobs = make_jobs()
    side = suite_partitions(None if cells is None else list(dict.fromkeys(cell.suite for cell in cells)))
    return dg.Definitions(
        assets=[
            suites_asset(workbench, side),
            cell_assets(workbench, grid(side, names) if cells is None else exactly(cells)),
            leaderboards_asset(workbench),
        ],
        jobs=list(jobs.values()),
        schedules=[nightly_sweep(workbench, names, jobs["sweep"])],
        sensors=[discover_suites(workbench), automation()],
        executor=dg.in_process_executor,
    )
