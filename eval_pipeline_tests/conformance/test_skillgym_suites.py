"""skillgym's recorded facts about suites: checks, statuses, settings. Its adapters are in `test_skillgym.py`."""

from __future__ import annotations

import pytest

from eval_pipeline_tests.conformance.judging import judge
from eval_pipeline_tests.conformance.recorded_facts import Row, params_of
from eval_pipeline_tests.conformance.row_outcomes import Record
from eval_pipeline_tests.conformance.skillgym_checks import is_check
from eval_pipeline_tests.conformance.skillgym_settings import is_setting


@pytest.mark.parametrize("row", params_of("skillgym", lambda row: is_check(row) or is_setting(row)))
def test_we_answer_as_skillgym_does(row: Row, record_property: Record) -> None:
    judge(row, record_property)
