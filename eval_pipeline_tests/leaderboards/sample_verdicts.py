"""Verdicts and cells as frames, a row as short as a test needs it."""

from __future__ import annotations

from typing import Any

import polars as pl

from eval_pipeline.leaderboards.standings import PAIR_COLUMNS, VERDICT_COLUMNS, rank


def verdict(runner: str, case: str, status: str = "passed", **fields: Any) -> dict[str, Any]:
    """A verdict row of suite `s`; its score follows from the status unless given."""
    score = {"passed": 1.0, "unexpected-passed": 1.0, "error": None}.get(status, 0.0)
    given = {"suite": "s", "suite_revision": "1", "runner_revision": "1", "repetition": 1, "score": score}
    return {**dict.fromkeys(VERDICT_COLUMNS), **given, "runner": runner, "case_id": case, "status": status, **fields}


def many(runner: str, passed: int, failed: int = 0, errored: int = 0, **fields: Any) -> list[dict[str, Any]]:
    """Verdicts of cases `c1`, `c2`, …: first those that passed, then failed, then could not be graded."""
    statuses = ["passed"] * passed + ["failed"] * failed + ["error"] * errored
    return [verdict(runner, f"c{number}", status, **fields) for number, status in enumerate(statuses, start=1)]


def frame(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=VERDICT_COLUMNS)


def board(*rows: dict[str, Any], cells: dict[tuple[str, str], int] | None = None) -> pl.DataFrame:
    """The standings of verdicts; suites have as many cells as verdicts unless `cells` says otherwise."""
    counted = {**_cells(rows), **(cells or {})}
    planned = [(suite, runner, count) for (suite, runner), count in counted.items()]
    return rank(frame(*rows), pl.DataFrame(planned, schema=PAIR_COLUMNS, orient="row"))


def _cells(rows: tuple[dict[str, Any], ...]) -> dict[tuple[str, str], int]:
    pairs = [(row["suite"], row["runner"]) for row in rows]
    return {pair: pairs.count(pair) for pair in pairs}


def row_of(standings: pl.DataFrame, runner: str, suite: str = "s") -> dict[str, Any]:
    """The one standing of a runner on a suite."""
    return standings.row(by_predicate=(pl.col("runner") == runner) & (pl.col("suite") == suite), named=True)
