"""Published results → the document of the page *Agreement*: graders with each other, with people, and simulators; and
where the variance of scores comes from."""

from __future__ import annotations

from typing import Any

from eval_pipeline.warehouse.page_queries import rows_of_view
from eval_pipeline.warehouse.store import Connection

AGREEMENTS = ("people_agreement", "grader_agreement", "grader_pairs", "simulator_agreement")
VIEWS = (*AGREEMENTS, "variance_components")


def agreement_document(connection: Connection) -> dict[str, Any]:
    """Return the rows of each view; none for a view that results of an older version lack."""
    return {view: rows_of_view(connection, view) for view in VIEWS}
