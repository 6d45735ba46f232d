"""AgentV's recorded facts about results and what is made of them, one case per row."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline_tests.conformance.agentv_outputs import OUTPUT_KINDS, check_output
from eval_pipeline_tests.conformance.recorded_facts import Row, row_params


def _of_outputs() -> list[Any]:
    """The rows of these kinds, and the one that says that there are none."""
    return [param for param in row_params("agentv") if param.values[0] is None or param.values[0].kind in OUTPUT_KINDS]


@pytest.mark.parametrize("row", _of_outputs())
def test_we_compare_follow_and_summarize_as_agentv_does(row: Row) -> None:
    check_output(row)
