"""AgentV's recorded facts about evaluators and whole tests, one case per row."""

from __future__ import annotations

import pytest

from eval_pipeline_tests.conformance.agentv_evaluations import is_evaluation
from eval_pipeline_tests.conformance.agentv_tests import is_stop
from eval_pipeline_tests.conformance.judging import judge
from eval_pipeline_tests.conformance.recorded_facts import Row, params_of
from eval_pipeline_tests.conformance.row_outcomes import Record


@pytest.mark.parametrize("row", params_of("agentv", lambda row: is_evaluation(row) or is_stop(row)))
def test_we_evaluate_as_agentv_does(row: Row, record_property: Record) -> None:
    judge(row, record_property)
