"""Recorded facts of peer systems (judges, statistics), one case per row."""

from __future__ import annotations

import pytest

from eval_pipeline_tests.conformance.judging import judge
from eval_pipeline_tests.conformance.recorded_facts import Row, row_params
from eval_pipeline_tests.conformance.row_outcomes import Record


@pytest.mark.parametrize("row", row_params("peers"))
def test_we_answer_as_peers_do(row: Row, record_property: Record) -> None:
    judge(row, record_property)
