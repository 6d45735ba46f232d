"""skillgym's recorded facts about its adapters: what they start and read. Others are in `test_skillgym_suites.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline_tests.conformance.recorded_facts import Row, params_of
from eval_pipeline_tests.conformance.row_outcomes import Record
from eval_pipeline_tests.conformance.skillgym_sessions import compare


@pytest.mark.parametrize("row", params_of("skillgym", lambda row: row.file == "adapters"))
def test_we_answer_as_skillgym_does(row: Row, record_property: Record) -> None:
    difference = compare(Path(row.data["path"]))

    if difference is not None:
        record_property("difference", difference)
