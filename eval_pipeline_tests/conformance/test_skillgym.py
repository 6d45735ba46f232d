"""skillgym's recorded facts: what its adapters start and read is compared; its suites are not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline_tests.conformance.recorded_facts import Row, params_of
from eval_pipeline_tests.conformance.row_outcomes import Record, not_offered
from eval_pipeline_tests.conformance.skillgym_checks import is_check
from eval_pipeline_tests.conformance.skillgym_sessions import compare
from eval_pipeline_tests.conformance.skillgym_settings import is_setting


@pytest.mark.parametrize("row", params_of("skillgym", lambda row: not (is_check(row) or is_setting(row))))
def test_we_answer_as_skillgym_does(row: Row, record_property: Record) -> None:
    if row.file != "adapters":
        not_offered("suites of skillgym are not read")

    difference = compare(Path(row.data["path"]))

    if difference is not None:
        record_property("difference", difference)
