"""AgentV's recorded facts about graders that ask a model, one case per row."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline_tests.conformance.agentv_graders import GRADER_KINDS, Record, check_grader
from eval_pipeline_tests.conformance.recorded_facts import Row, row_params


def _of_graders() -> list[Any]:
    """The rows of these kinds, and the one that says that there are none."""
    return [param for param in row_params("agentv") if param.values[0] is None or param.values[0].kind in GRADER_KINDS]


@pytest.mark.parametrize("row", _of_graders())
def test_we_read_graders_replies_as_agentv_does(row: Row, record_property: Record) -> None:
    check_grader(row, record_property)
