"""The board of now: what did not change as the newest board has it, other suites ranked anew."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import polars as pl

from eval_pipeline import leaderboards, statistics
from eval_pipeline.fingerprints import file_fingerprint, fingerprint
from eval_pipeline.leaderboards.board_columns import OVERALL
from eval_pipeline.leaderboards.standings import SuiteBoards, of_sweeps, suite_boards, with_overall
from eval_pipeline.warehouse.store import Warehouse
from eval_pipeline.warehouse.stored_boards import (
    StoredBoard,
    board_keys,
    chosen_pairs,
    counted_pairs,
    overall_key,
    store_differences,
    stored_board,
    stored_differences,
)


def current_standings(warehouse: Warehouse, floor: float) -> pl.DataFrame:
    """Return the standings of all suites and overall; `floor` is the least coverage of a ranked runner."""
    chosen = chosen_pairs(warehouse)
    keys = board_keys(chosen, floor, rules_revision())
    stored = stored_board(warehouse, chosen, keys)
    standings = _unchanged(stored, keys)
    if standings is None:
        standings = _ranked(warehouse, chosen, keys, stored, floor)
    key = pl.col("suite").replace_strict({OVERALL: overall_key(keys), **keys}, return_dtype=pl.String)
    return standings.with_columns(board_key=key)


def _unchanged(stored: StoredBoard, keys: Mapping[str, str]) -> pl.DataFrame | None:
    """Return the newest board with the sweeps of now; None where anything that it is made of changed."""
    standings, overall = stored.standings, stored.overall
    if stored.suites != keys.keys() or set(overall["runner"]) != set(standings["runner"]):
        return None
    return pl.concat([standings, of_sweeps(overall, standings)])


def _ranked(
    warehouse: Warehouse, chosen: pl.DataFrame, keys: Mapping[str, str], stored: StoredBoard, floor: float
) -> pl.DataFrame:
    """Return a board of the `stored` standings of suites, and of the other suites, which are ranked."""
    changed = chosen.filter(~pl.col("suite").is_in(stored.suites))
    fresh = suite_boards(counted_pairs(warehouse, changed), floor)
    differences = stored_differences(warehouse, {suite: keys[suite] for suite in stored.suites})
    store_differences(warehouse, fresh.differences, keys)
    standings = pl.concat([stored.standings, fresh.standings]).sort("suite", maintain_order=True)
    return with_overall(SuiteBoards(standings, pl.concat([differences, fresh.differences])))


@cache
def rules_revision() -> str:
    """Return the identity of the code that ranks: another version computes every board anew."""
    folders = [Path(folder) for package in (leaderboards, statistics) for folder in package.__path__]
    sources = sorted(path for folder in folders for path in folder.glob("*.py"))
    return fingerprint([[path.name, file_fingerprint(path)] for path in sources])
