"""AgentV's recorded facts about programs, evaluators made of others and conversations, one case per row."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline_tests.conformance.agentv_programs import Record, check_program, is_about_programs
from eval_pipeline_tests.conformance.recorded_facts import Row, row_params


def _of_programs() -> list[Any]:
    """The rows of these kinds, and the one that says that there are none."""
    return [param for param in row_params("agentv") if param.values[0] is None or is_about_programs(param.values[0])]


@pytest.mark.parametrize("row", _of_programs())
def test_we_answer_as_agentv_does(row: Row, record_property: Record) -> None:
    check_program(row, record_property)
