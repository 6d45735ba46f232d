"""What a materialization shows in the Dagster UI: counts, tables, a picture, and its provenance."""

from __future__ import annotations

import base64
from typing import Any

import dagster as dg
import polars as pl

from eval_pipeline.leaderboards.board_svg import board_svg
from eval_pipeline.leaderboards.show import BOARD_HEAD, board_rows, markdown_table, percent
from eval_pipeline.leaderboards.standings import OVERALL
from eval_pipeline.sweeps.outcomes import PairOutcome
from eval_pipeline.sweeps.pairs import Pair, ValidatedSuite

CODE_VERSION = "1"


def provenance(data_version: str) -> dict[str, str]:
    """Tags that let Dagster tell what is up to date."""
    return {"dagster/code_version": CODE_VERSION, "dagster/data_version": data_version}


def made_from(asset: str, data_version: str, event: int | None = None) -> dict[str, str]:
    """Tags that name an upstream partition: its data version and the event that brought it (None: of the same run).

    Dagster itself writes them for what a step returns; for what a step logs nobody does, and without them the UI
    would show every partition as unsynced.
    """
    return {
        f"dagster/input_data_version/{asset}": data_version,
        f"dagster/input_event_pointer/{asset}": "NULL" if event is None else str(event),
    }


def suite_version(ready: ValidatedSuite) -> str:
    """The data version of a suite's partition."""
    return ready.suite.revision[:32]


def pair_version(pair: Pair) -> str:
    """The data version of a pair's partition, of all its assets: the revisions of its runner and its suite."""
    return f"{pair.revision[:16]}-{pair.ready.suite.revision[:16]}"


def suite_metadata(ready: ValidatedSuite) -> dict[str, Any]:
    """Counts of a suite, and its errors and warnings as a list."""
    suite = ready.suite
    problems = [*(f"- {error}" for error in ready.errors), *(f"- {warning}" for warning in suite.warnings)]
    return {
        "dagster/row_count": len(suite.cases),
        "invalid_cases": len(ready.errors),
        "path": dg.MetadataValue.path(str(suite.path)),
        "format": suite.format,
        "revision": suite.revision[:16],
        "tags": ", ".join(suite.tags) or "–",
        "problems": dg.MetadataValue.md("\n".join(problems) or "none"),
    }


def suite_materialization(ready: ValidatedSuite) -> dg.AssetMaterialization:
    """Return the event that reports a suite as loaded, at its revision."""
    name = ready.suite.name
    return dg.AssetMaterialization(
        "suites", partition=name, metadata=suite_metadata(ready), tags=provenance(suite_version(ready))
    )


def pair_metadata(stage: str, outcome: PairOutcome) -> dict[str, Any]:
    """Return what the materialization of one stage shows about a pair."""
    counts = outcome.counts
    common: dict[str, Any] = {"dagster/row_count": counts.planned, "reused": counts.reused, "executed": counts.executed}
    if stage == "target_executions":
        return common
    if stage == "session_reports":
        known = {
            "input_tokens": counts.input_tokens,
            "output_tokens": counts.output_tokens,
            "cost_usd": counts.cost_usd,
        }
        return common | {name: value for name, value in known.items() if value is not None}
    if stage == "failure_classes":
        return _failure_metadata(outcome.failures)
    graded = counts.passed + counts.failed
    rate = {"pass_rate": counts.passed / graded} if graded else {}
    coverage = {"coverage": graded / counts.planned} if counts.planned else {}
    return common | rate | coverage | {
        "rescored": counts.rescored,
        "passed": counts.passed,
        "failed": counts.failed,
        "errored": counts.errored,
    }  # fmt: skip


def _failure_metadata(failures: pl.DataFrame | None) -> dict[str, Any]:
    rows = 0 if failures is None else failures.height
    table = "everything passed" if failures is None else failure_table(failures)
    return {"dagster/row_count": rows, "classes": dg.MetadataValue.md(table)}


def failure_table(failures: pl.DataFrame) -> str:
    """Failure classes as a Markdown table."""
    if failures.is_empty():
        return "everything passed"
    rows = [
        (row["label"], row["origin"], str(row["count"]), percent(row["share"]), ", ".join(row["examples"]))
        for row in failures.iter_rows(named=True)
    ]
    return markdown_table(("class", "origin", "count", "share", "examples"), rows)


def board_metadata(standings: pl.DataFrame) -> dict[str, Any]:
    """The leaderboards as tables and as one picture."""
    per_suite = standings.filter(pl.col("scope") == "suite")
    suites = per_suite["suite"].unique(maintain_order=True).to_list()
    tables = [f"### {suite}\n\n{_board(per_suite.filter(pl.col('suite') == suite))}" for suite in suites]
    overall = standings.filter(pl.col("suite") == OVERALL)
    if len(suites) > 1:
        tables.insert(0, f"### Overall (mean over suites)\n\n{_board(overall)}")
    picture = base64.b64encode(board_svg(per_suite).encode()).decode()
    best = overall["pass_rate"].max() if overall.height else None
    return {
        "dagster/row_count": standings.height,
        "suites": len(suites),
        "runners": overall.height,
        "standings": dg.MetadataValue.md("\n\n".join(tables) or "nothing graded yet"),
        "picture": dg.MetadataValue.md(f"![pass rates with 95 % intervals](data:image/svg+xml;base64,{picture})"),
    } | ({"best_pass_rate": best} if best is not None else {})


def _board(standings: pl.DataFrame) -> str:
    return markdown_table(BOARD_HEAD, board_rows(standings))
