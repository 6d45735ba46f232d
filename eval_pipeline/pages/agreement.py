"""Published results → the document of the page *Agreement*: graders with each other, with people, and simulators; and
where the variance of scores comes from; and judges over time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from eval_pipeline.warehouse.anchors import drift_rows
from eval_pipeline.warehouse.page_queries import rows_of_view
from eval_pipeline.warehouse.store import Connection

AGREEMENTS = ("people_agreement", "grader_agreement", "grader_pairs", "simulator_agreement")
VIEWS = (*AGREEMENTS, "variance_components")
_DRIFT = ("sweep_name", "suite", "evaluator", "judged_at", "mean_score", "low", "high", "center", "beyond", "flipped",
          "anchors", "left_out", "grader", "model")  # fmt: skip


def agreement_document(connection: Connection) -> dict[str, Any]:
    """Return the rows of each view; none for a view that results of an older version lack."""
    drift = [{name: _plain(row[name]) for name in _DRIFT} for row in drift_rows(connection)]
    return {view: rows_of_view(connection, view) for view in VIEWS} | {"judge_drift": drift}


def _plain(value: Any) -> Any:
    return f"{value:%Y-%m-%d %H:%M}" if isinstance(value, datetime) else value
