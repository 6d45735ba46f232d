"""Connexity's recorded facts: its suites are not read, and every row is counted with that reason."""

from __future__ import annotations

import pytest

from eval_pipeline_tests.conformance.recorded_facts import Row, row_params
from eval_pipeline_tests.conformance.row_outcomes import not_offered


@pytest.mark.parametrize("row", row_params("connexity"))
def test_we_answer_as_connexity_does(row: Row) -> None:
    not_offered("suites of Connexity are not read")
