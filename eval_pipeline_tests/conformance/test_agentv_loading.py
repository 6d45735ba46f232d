"""AgentV's recorded facts about loading, one case per row."""

from __future__ import annotations

import pytest

from eval_pipeline_tests.conformance import agentv_entries, agentv_loading
from eval_pipeline_tests.conformance.judging import judge
from eval_pipeline_tests.conformance.recorded_facts import Row, params_of_kinds
from eval_pipeline_tests.conformance.row_outcomes import Record


@pytest.mark.parametrize("row", params_of_kinds("agentv", agentv_entries.KINDS | agentv_loading.KINDS))
def test_we_load_as_agentv_does(row: Row, record_property: Record) -> None:
    judge(row, record_property)
