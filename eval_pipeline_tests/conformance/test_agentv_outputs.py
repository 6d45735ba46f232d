"""AgentV's recorded facts about results and what is made of them, one case per row."""

from __future__ import annotations

import pytest

from eval_pipeline_tests.conformance import agentv_comparisons, agentv_results
from eval_pipeline_tests.conformance.judging import judge
from eval_pipeline_tests.conformance.recorded_facts import Row, params_of_kinds
from eval_pipeline_tests.conformance.row_outcomes import Record

OUTPUT_KINDS = agentv_comparisons.KINDS | agentv_results.KINDS


@pytest.mark.parametrize("row", params_of_kinds("agentv", OUTPUT_KINDS))
def test_we_compare_and_summarize_as_agentv_does(row: Row, record_property: Record) -> None:
    judge(row, record_property)
