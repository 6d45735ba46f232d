"""AgentV's recorded facts about the programs that it starts, one case per row."""

from __future__ import annotations

import pytest

from eval_pipeline_tests.conformance.agentv_protocols import GRADER_ROWS, HOOK_ROWS
from eval_pipeline_tests.conformance.judging import judge
from eval_pipeline_tests.conformance.recorded_facts import Row, params_of
from eval_pipeline_tests.conformance.row_outcomes import Record


@pytest.mark.parametrize("row", params_of("agentv", lambda row: row.file in (GRADER_ROWS, HOOK_ROWS)))
def test_our_programs_are_started_as_agentvs_are(row: Row, record_property: Record) -> None:
    judge(row, record_property)
