"""The board of now: suites that did not change as the newest board has them, the others ranked anew."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl

from eval_pipeline import leaderboards, statistics
from eval_pipeline.fingerprints import file_fingerprint, fingerprint
from eval_pipeline.leaderboards.standings import SuiteBoards, suite_boards, with_overall
from eval_pipeline.warehouse.store import Warehouse
from eval_pipeline.warehouse.stored_boards import (
    board_keys,
    chosen_pairs,
    counted_pairs,
    store_differences,
    stored_boards,
)


def current_standings(warehouse: Warehouse, floor: float) -> pl.DataFrame:
    """Return the standings of all suites and overall; `floor` is the least coverage of a ranked runner."""
    chosen = chosen_pairs(warehouse)
    keys = board_keys(chosen, floor, rules_revision())
    known = stored_boards(warehouse, chosen, keys)
    changed = chosen.filter(~pl.col("suite").is_in(known.standings["suite"].unique().to_list()))
    fresh = suite_boards(counted_pairs(warehouse, changed), floor)
    store_differences(warehouse, fresh.differences, keys)
    standings = with_overall(_joined(known, fresh))
    return standings.with_columns(board_key=pl.col("suite").replace_strict(keys, default=None, return_dtype=pl.String))


def _joined(known: SuiteBoards, fresh: SuiteBoards) -> SuiteBoards:
    return SuiteBoards(
        pl.concat([known.standings, fresh.standings]).sort("suite", maintain_order=True),
        pl.concat([known.differences, fresh.differences]),
    )


@cache
def rules_revision() -> str:
    """Return the identity of the code that ranks: another version computes every board anew."""
    folders = [Path(folder) for package in (leaderboards, statistics) for folder in package.__path__]
    sources = sorted(path for folder in folders for path in folder.glob("*.py"))
    return fingerprint([[path.name, file_fingerprint(path)] for path in sources])
