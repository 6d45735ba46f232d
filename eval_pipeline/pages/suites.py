"""Published results → the documents of the page *Suite*: its grid, the answers of some cases, and found cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from eval_pipeline.suites.model import content_text
from eval_pipeline.warehouse.page_queries import (
    Grid,
    find_cases,
    grid_answers,
    of_cases,
    questions,
    suite_grid,
    suite_revision,
)
from eval_pipeline.warehouse.selections import select
from eval_pipeline.warehouse.store import Connection

MOST_CASES = 200
"""The most cases whose answers are sent at once."""
_LONGEST = 300


def suite_document(connection: Connection, suite: str, of: str = "current") -> dict[str, Any]:
    """Return the cases of a suite, and the marks and scores of each runner, as columns.

    `of` names the results: `current`, `sweep:ID` or `board:ID`.
    """
    return grid_document(suite, of, suite_grid(connection, select(connection, of, suites=[suite])))


def grid_document(suite: str, of: str, grid: Grid) -> dict[str, Any]:
    """Return a grid as a document; the tags of cases are numbers of the list of all tags."""
    tags = sorted({tag for each in grid.tags for tag in each})
    numbers = {tag: number for number, tag in enumerate(tags)}
    return {
        "suite": suite,
        "of": of,
        "cases": grid.cases,
        "tags": tags,
        "tags_of": [[numbers[tag] for tag in each] for each in grid.tags],
        "runners": [{"name": name, "marks": grid.marks[name], "scores": grid.scores[name]} for name in grid.marks],
    }


def rows_document(connection: Connection, suite: str, cases: Sequence[str], of: str = "current") -> dict[str, Any]:
    """Return the question and the answer of each runner to some cases of a suite, cut to what a row of a grid shows."""
    cases = cases[:MOST_CASES]
    selection = of_cases(select(connection, of, suites=[suite]), suite, cases)
    rows: dict[str, Any] = {
        case: {"question": question_of(text), "answers": {}}
        for case, text in questions(connection, suite, suite_revision(connection, selection), cases).items()
    }
    for answer in grid_answers(connection, selection):
        plan = rows.setdefault(answer.pop("case_id"), {"question": None, "answers": {}})
        plan["answers"].setdefault(answer.pop("runner"), answer)  # the first repetition
    return {"suite": suite, "rows": rows}


def question_of(text: str | None) -> str | None:
    """Return the beginning of the last message of a stored input; None for one that is no list of messages."""
    messages = orjson.loads(text or "null")
    if not isinstance(messages, list) or not messages:
        return None
    return short(content_text(messages[-1].get("content")))


def short(text: str | None) -> str | None:
    """Return the beginning of a text, for a row of a grid."""
    return text if text is None or len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def search_document(connection: Connection, suite: str, text: str, of: str = "current") -> dict[str, Any]:
    """Return the cases of a suite that contain a text in their id, input, criteria, an answer or a reason."""
    return {"cases": find_cases(connection, select(connection, of, suites=[suite]), text)}
