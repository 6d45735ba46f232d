"""Published results → the documents of the pages *Sweeps* and *Compare*."""

from __future__ import annotations

from typing import Any

from eval_pipeline.leaderboards.comparisons import compare, details
from eval_pipeline.leaderboards.results import Results
from eval_pipeline.warehouse.comparable_sweeps import PLACES, comparable_sweeps, sweep_of_name
from eval_pipeline.warehouse.page_queries import sweep_rows
from eval_pipeline.warehouse.selections import current_runners, read_results, select
from eval_pipeline.warehouse.store import Connection

MOST_SWEEPS = 200
MOST_CASES = 500
"""Cases of a comparison that the page lists, those with the largest change first."""
_SETS = ("current", "baseline", "sweep", "board")


def sweeps_document(connection: Connection) -> dict[str, Any]:
    """Return the newest sweeps with what they did and what they cost, names of current runners, and the ids of finished
    sweeps that can be compared, the newest first."""
    return {
        "sweeps": sweep_rows(connection, MOST_SWEEPS),
        "runners": current_runners(connection),
        "comparable": comparable_sweeps(connection)[:MOST_SWEEPS],
    }


def comparison_document(
    connection: Connection, baseline: str, candidate: str, cluster_by: str | None = None
) -> dict[str, Any]:
    """Return what `eval-pipeline compare BASELINE CANDIDATE --json` has, with the largest changes of cases.

    A side is a runner, `current`, `baseline`, `sweep:ID`, `board:ID`, or `NAME@latest` or `NAME@previous` of a sweep in
    the project file.
    """
    first, second = (_results(connection, name, cluster_by) for name in (baseline, candidate))
    comparison = compare(first, second)
    return {**details(comparison), "cases": comparison.changes(MOST_CASES).to_dicts()}


def _results(connection: Connection, name: str, cluster_by: str | None) -> Results:
    selector, _, runner = name.partition("@")
    sweep, _, place = name.rpartition("@")
    if selector.partition(":")[0] in _SETS:
        chosen = "standing" if selector == "current" else selector
        selection = select(connection, chosen, runners=[runner] if runner else [])
    elif sweep and place in PLACES:
        selection = select(connection, f"sweep:{sweep_of_name(connection, sweep, place)}")
    else:
        selection = select(connection, "standing", runners=[name])
    return read_results(connection, selection, name, cluster_by)
