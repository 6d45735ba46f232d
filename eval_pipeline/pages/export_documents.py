"""Published results → the documents of an exported page that are not made of plans, of the selected results only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eval_pipeline.pages.agreement import agreement_document
from eval_pipeline.pages.boards import board_document
from eval_pipeline.pages.ratings import exported_ratings
from eval_pipeline.pages.sweeps import comparison_document, sweeps_document
from eval_pipeline.warehouse.page_queries import histories
from eval_pipeline.warehouse.selections import Selection
from eval_pipeline.warehouse.store import Connection

MOST_VERDICTS = 50_000
"""A history of more verdicts is left out of the page."""


def page_documents(connection: Connection, selection: Selection) -> dict[str, Any]:
    """Return board, sweeps, agreement, ratings, histories, and the comparison of the newest two sweeps.

    What a selection of suites or runners leaves out is in none of them.
    """
    board = _selected_board(board_document(connection, selection.id if selection.kind == "board" else None), selection)
    whole = not (selection.suites or selection.runners)
    changes = board["changes"] if whole else None
    sides = (f"sweep:{changes['before']}", f"sweep:{changes['after']}") if changes else None
    return {
        "board": board,
        "history": _by_case(histories(connection, selection.suites, selection.runners, MOST_VERDICTS)),
        "sweeps": sweeps_document(connection) if whole else None,
        "agreement": agreement_document(connection) if whole else None,
        "ratings": exported_ratings(connection) if whole else None,
        "compare": comparison_document(connection, *sides) if sides else None,
    }


def _selected_board(board: dict[str, Any], selection: Selection) -> dict[str, Any]:
    if not (selection.suites or selection.runners):
        return board
    suites = [
        {**suite, "rows": _selected(suite["rows"], selection), "remarks": []}
        for suite in board["suites"]
        if not selection.suites or suite["suite"] in selection.suites
    ]
    parts = {name: _selected(board[name], selection) for name in ("failures", "history")}
    none: dict[str, Any] = {"rows": [], "remarks": [], "legend": []}
    return {
        **board,
        **parts,
        "suites": [suite for suite in suites if suite["rows"]],
        "overall": none,
        "changes": None,
        "judge_drift": [],
    }


def _selected(rows: Iterable[dict[str, Any]], selection: Selection) -> list[dict[str, Any]]:
    return [
        row
        for row in rows
        if (not selection.suites or row["suite"] in selection.suites)
        and (not selection.runners or row["runner"] in selection.runners)
    ]


def _by_case(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        found.setdefault(row.pop("suite"), {}).setdefault(row.pop("case_id"), []).append(row)
    return found
