"""skillgym's recorded facts but those about its adapters, which are in `test_skillgym.py`."""

from __future__ import annotations

import pytest

from eval_pipeline_tests.conformance.judging import judge
from eval_pipeline_tests.conformance.recorded_facts import Row, params_of
from eval_pipeline_tests.conformance.row_outcomes import Record
from eval_pipeline_tests.conformance.skillgym_runs import is_run


@pytest.mark.parametrize("row", params_of("skillgym", lambda row: row.file != "adapters" and not is_run(row)))
def test_we_answer_as_skillgym_does(row: Row, record_property: Record) -> None:
    judge(row, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("row", params_of("skillgym", is_run))
def test_we_run_as_skillgym_does(row: Row, record_property: Record) -> None:
    judge(row, record_property)
