"""What a materialization shows in the Dagster UI: counts, tables, and its provenance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg
import polars as pl

from eval_pipeline.leaderboards.board_columns import OVERALL
from eval_pipeline.orchestration.versions import provenance
from eval_pipeline.pages.links import page_url
from eval_pipeline.sweeps.options import EVALUATE
from eval_pipeline.sweeps.outcomes import PairOutcome
from eval_pipeline.sweeps.pairs import ValidatedSuite
from eval_pipeline.sweeps.summaries import board_tables, failure_table, problem_list, stage_counts, suites_of


def suite_materialization(ready: ValidatedSuite, asset: dg.AssetKey) -> dg.AssetMaterialization:
    """Return the event that reports a suite as loaded, at its revision."""
    suite = ready.suite
    metadata: dict[str, Any] = {
        "dagster/row_count": len(suite.cases),
        "invalid_cases": len(ready.errors),
        "path": dg.MetadataValue.path(str(suite.path)),
        "format": suite.format,
        "revision": suite.revision[:16],
        "tags": ", ".join(suite.tags) or "–",
        "problems": dg.MetadataValue.md(problem_list(ready)),
    }
    return dg.AssetMaterialization(asset, partition=suite.name, metadata=metadata, tags=provenance(ready.data_version))


def pair_metadata(asset: str, outcome: PairOutcome) -> dict[str, Any]:
    """Return what the materialization of one asset shows about a pair."""
    name = outcome.pair.name
    if asset == "failure_classes":
        rows = 0 if outcome.failures is None else outcome.failures.height
        return {"dagster/row_count": rows, "classes": dg.MetadataValue.md(failure_table(outcome.failures))}
    shown = {"dagster/row_count": outcome.counts.planned, **stage_counts(asset, outcome)}
    if asset != EVALUATE:
        return shown
    return shown | {"page": dg.MetadataValue.url(page_url("suite", suite=name.suite, runner=name.runner))}


def board_metadata(standings: pl.DataFrame, drift: Sequence[str] = ()) -> dict[str, Any]:
    """Return the leaderboards as tables, the page of `eval-pipeline view`, and the command that draws them; `drift`
    is what judges are beyond their control limits."""
    overall = standings.filter(pl.col("suite") == OVERALL)
    best = overall["pass_rate"].max() if overall.height else None
    return {
        "dagster/row_count": standings.height,
        "suites": len(suites_of(standings)),
        "runners": overall.height,
        "standings": dg.MetadataValue.md(board_tables(standings)),
        "page": dg.MetadataValue.url(page_url()),
        "picture": dg.MetadataValue.md("`eval-pipeline leaderboard --plot board.svg`"),
        **({"best_pass_rate": best} if best is not None else {}),
        **({"judge_drift": dg.MetadataValue.md("\n".join(f"- {line}" for line in drift))} if drift else {}),
    }
