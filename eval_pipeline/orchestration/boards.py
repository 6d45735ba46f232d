"""The leaderboards as Dagster knows them: computed by a run of their asset, or by a sweep of the command line.

A run of their own takes a quarter of the time that Dagster takes for a small sweep. The command line computes them
after its sweep, and reports them in the log of that run.
"""

from __future__ import annotations

from typing import Any

import dagster as dg
from dagster._core.events import DagsterEvent, StepMaterializationData

from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.leaderboards.show import drift_line
from eval_pipeline.orchestration.asset_keys import keys_of
from eval_pipeline.orchestration.metadata import board_metadata
from eval_pipeline.orchestration.versions import LEADERBOARDS, UPSTREAM, newest_tags, provenance
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.warehouse.anchors import drift_rows, flagged


def compute_boards(session: ProjectSession) -> dict[str, Any]:
    """Compute the leaderboards and store them; return what their materialization shows."""
    standings = session.store.update_leaderboards()
    return board_metadata(standings, [drift_line(row) for row in flagged(session.warehouse.read(drift_rows))])


def report_boards(session: ProjectSession, instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Compute the leaderboards, and report them as made by a run from what is current."""
    assets = keys_of(session.project)
    inputs = newest_tags(instance, [assets.key(name) for name in UPSTREAM[LEADERBOARDS]])  # before they are read
    tags = inputs | provenance(fingerprint(inputs)[:32])
    boards = dg.AssetMaterialization(assets.key(LEADERBOARDS), metadata=compute_boards(session), tags=tags)
    event = DagsterEvent(
        dg.DagsterEventType.ASSET_MATERIALIZATION.value,
        run.job_name,
        event_specific_data=StepMaterializationData(boards),
        message=f"Materialized value {LEADERBOARDS}.",
    )
    instance.report_dagster_event(event, run.run_id)
