"""Published results → the document of the page *Case*: every plan of a case in full, its history, people's grades."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eval_pipeline.exports.rows import row_json
from eval_pipeline.warehouse.case_details import CaseDetails, case_details
from eval_pipeline.warehouse.human_grades import grades_of
from eval_pipeline.warehouse.page_queries import case_history
from eval_pipeline.warehouse.selections import select
from eval_pipeline.warehouse.store import Connection

LONGEST = 200_000
"""Characters of a text that the page shows; `eval-pipeline show --full` prints it whole."""


def case_document(connection: Connection, suite: str, case_id: str, of: str = "current") -> dict[str, Any]:
    """Return all plans of a case, by runner and repetition, with the history of its verdicts."""
    details = case_details(connection, select(connection, of, suites=[suite]), suite, case_id)
    return {
        "suite": suite,
        "case_id": case_id,
        "of": of,
        "plans": [plan_document(each) for each in details],
        "history": case_history(connection, suite, case_id),
        "grades": grades_of(connection, suite, case_id),
    }


def plan_document(details: CaseDetails) -> dict[str, Any]:
    """Return one plan: the row that exports write, with its attempts, files and changes of its workspace."""
    document = {
        **row_json(details.row),
        "exit_code": details.exit_code,
        "attempt_log": list(details.attempts),
        "artifacts": list(details.artifacts),
        "changes": details.workspace.get("changes"),
        "ended_by": details.row.report.ended_by if details.row.report is not None else None,
    }
    score_keys = [score.spec_key for score in details.row.scores]
    for score, key in zip(document["scores"], score_keys, strict=True):
        score["spec_key"] = key
    cut: dict[str, Any] = cut_texts(document)
    return cut


def cut_texts(value: Any) -> Any:
    """Return a JSON value whose long texts are cut, each with a note of how much is left out."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[:LONGEST]}\n… {len(value) - LONGEST:,} more characters"
    if isinstance(value, Mapping):
        return {name: cut_texts(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [cut_texts(each) for each in value]
    return value
