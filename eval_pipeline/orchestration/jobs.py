"""Jobs, one per use: sweep everything, score again, load suites, rank."""

from __future__ import annotations

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from eval_pipeline.orchestration.asset_keys import AssetKeys
from eval_pipeline.orchestration.reporter import PAIR_ASSETS


def make_jobs(keys: AssetKeys, executor: dg.ExecutorDefinition) -> dict[str, UnresolvedAssetJobDefinition]:
    """The jobs by name; `executor` carries out those of pairs."""
    described = {
        "sweep": (
            list(PAIR_ASSETS),
            "Carry out suites × runners: execute what is missing, normalize, score, summarize.",
        ),
        "rescore": (list(PAIR_ASSETS[1:]), "Normalize and score stored executions again, without calling any target."),
        "load_suites": (["suites"], "Load suite files, check every case, and write them down."),
        "rank": (["leaderboards"], "Compute the leaderboards from what is current, and publish them."),
    }
    return {
        name: _job(
            name,
            keys.selection(*assets),
            description,
            executor if assets[-1] in PAIR_ASSETS else dg.in_process_executor,
        )
        for name, (assets, description) in described.items()
    }


def _job(
    name: str, selection: dg.AssetSelection, description: str, executor: dg.ExecutorDefinition
) -> UnresolvedAssetJobDefinition:
    """A job over these assets; names alone would be read by Dagster's grammar of selections (30 ms to load)."""
    return dg.define_asset_job(name, selection=selection, description=description, executor_def=executor)
