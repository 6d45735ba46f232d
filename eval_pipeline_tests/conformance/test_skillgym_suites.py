"""skillgym's recorded facts but those about its adapters, which are in `test_skillgym.py`."""

from __future__ import annotations

import pytest

from eval_pipeline_tests.conformance.judging import judge
from eval_pipeline_tests.conformance.recorded_facts import Row, params_of
from eval_pipeline_tests.conformance.row_outcomes import Record


@pytest.mark.parametrize("row", params_of("skillgym", lambda row: row.file != "adapters"))
def test_we_answer_as_skillgym_does(row: Row, record_property: Record) -> None:
    judge(row, record_property)
