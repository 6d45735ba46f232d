"""Published results → the document of the page *Board*."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import polars as pl

from eval_pipeline.leaderboards.show import (
    BOARD_HEAD,
    board_remarks,
    board_rows,
    drift_line,
    ranks_legend,
    suites_left_out,
)
from eval_pipeline.statistics.groups import indistinguishable
from eval_pipeline.statistics.ranks import tests_of_sums
from eval_pipeline.warehouse.anchors import drift_rows, flagged
from eval_pipeline.warehouse.comparable_sweeps import PLACES, comparable_sweeps
from eval_pipeline.warehouse.page_queries import board_differences, board_history, changes, current_failures
from eval_pipeline.warehouse.queries import published_boards, published_standings
from eval_pipeline.warehouse.selections import select
from eval_pipeline.warehouse.store import Connection

BOARDS_OF_TREND = 30
MOST_CHANGES = 50
"""Changes of one kind that the page lists; it counts all of them."""
_NUMBERS = (
    "suite", "runner", "rank", "rank_best", "rank_worst", "tied_with_best", "planned", "graded", "passed", "errored",
    "pass_rate", "pass_rate_low", "pass_rate_high", "pass_rate_worst", "pass_rate_best", "mean_score",
    "mean_score_low", "mean_score_high", "coverage", "latency_p50_ms", "latency_p95_ms", "input_tokens",
    "output_tokens", "cost_usd", "cost_known", "grading_cost_usd", "apart", "note",
)  # fmt: skip


def board_document(connection: Connection, board_id: str | None = None) -> dict[str, Any]:
    """Return standings by suite with groups and remarks, failures, what changed since the sweep before, and trends.

    The texts of a standing are those of `eval-pipeline leaderboard`.
    """
    boards = published_boards(connection)
    chosen = board_id or (str(boards[0][0]) if boards else "")
    standings = published_standings(connection, chosen)
    return {
        "board_id": chosen,
        "boards": [{"board_id": id_, "computed_at": at} for id_, at, _ in boards[:BOARDS_OF_TREND]],
        "head": BOARD_HEAD,
        "overall": _board(standings.filter(pl.col("scope") == "overall"), {}, suites_left_out(standings)),
        "suites": _suites(connection, standings, chosen),
        "failures": current_failures(connection),
        "changes": changes_document(connection),
        "history": board_history(connection, BOARDS_OF_TREND),
        "judge_drift": [drift_line(row) for row in flagged(drift_rows(connection))] if board_id is None else [],
    }


def _suites(connection: Connection, standings: pl.DataFrame, board_id: str) -> list[dict[str, Any]]:
    by_suite = standings.filter(pl.col("scope") == "suite").partition_by("suite", as_dict=True, maintain_order=True)
    groups = _groups(connection, {str(suite): frame for (suite,), frame in by_suite.items()}, board_id)
    return [{"suite": suite, **_board(frame, groups.get(str(suite), {}))} for (suite,), frame in by_suite.items()]


def _board(standings: pl.DataFrame, groups: Mapping[str, str], remarks: Sequence[str] = ()) -> dict[str, Any]:
    ordered = standings.sort("rank", "runner", nulls_last=True)
    texts = board_rows(ordered)
    rows = [
        {**{name: row[name] for name in _NUMBERS if name in row}, "texts": text, "groups": groups.get(row["runner"])}
        for row, text in zip(ordered.iter_rows(named=True), texts, strict=True)
    ]
    return {"rows": rows, "remarks": [*remarks, *board_remarks(ordered)], "legend": ranks_legend(ordered)}


def _groups(connection: Connection, standings: Mapping[str, pl.DataFrame], board_id: str) -> dict[str, dict[str, str]]:
    """Return the letters of each ranked runner of each suite: runners with a letter in common are not told apart."""
    differences = board_differences(connection, board_id)
    return {
        suite: _letters(_ranked(standings[suite]), list(sums))
        for suite, sums in groupby(differences, key=lambda difference: difference[0])
        if suite in standings
    }


def _ranked(standings: pl.DataFrame) -> list[str]:
    return standings.filter(pl.col("rank").is_not_null()).sort("rank", "runner")["runner"].to_list()


def _letters(runners: Sequence[str], differences: Iterable[tuple[Any, ...]]) -> dict[str, str]:
    places = {runner: place for place, runner in enumerate(runners)}
    sums = [
        (places[runner], places[other], each)
        for _, runner, other, each in differences
        if runner in places and other in places
    ]
    letters: dict[str, str] = dict.fromkeys(runners, "")
    for number, group in enumerate(indistinguishable(len(runners), tests_of_sums(sums))):
        for place in group:
            letters[runners[place]] += _letter(number)
    return letters


def _letter(number: int) -> str:
    more, rest = divmod(number, 26)
    return chr(ord("a") + rest) + "′" * more


def changes_document(connection: Connection) -> dict[str, Any] | None:
    """Return what changed between the newest finished sweep and the comparable one before; None without two."""
    ids = comparable_sweeps(connection)
    if len(ids) <= PLACES["previous"]:
        return None
    return changes_of(connection, ids[PLACES["previous"]], ids[PLACES["latest"]])


def changes_of(connection: Connection, before: str, after: str) -> dict[str, Any]:
    """Return the changes between two sweeps: counts by kind, and the first of each kind."""
    rows = changes(connection, before, after, MOST_CHANGES)
    counts = {row["change"]: row.pop("of_change") for row in rows}
    return {"before": before, "after": after, "counts": counts, "cases": rows}


def requested_changes(connection: Connection, before: str, after: str) -> dict[str, Any]:
    """Return the changes between two sweeps, by their ids, the start of one, `latest` or `previous`. Raises
    UnknownName."""
    first, second = (select(connection, f"sweep:{name}").id or name for name in (before, after))
    return changes_of(connection, first, second)
