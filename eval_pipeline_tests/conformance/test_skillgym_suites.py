"""skillgym's recorded facts but those about its adapters, which are in `test_skillgym.py`."""

from __future__ import annotations

import pytest

from eval_pipeline_tests.conformance.difference_checks import (
    accepted_though_spoiled,
    assert_is_not_reproduced,
    differing,
)
from eval_pipeline_tests.conformance.differences.model import Difference
from eval_pipeline_tests.conformance.judging import judge
from eval_pipeline_tests.conformance.recorded_facts import Row, params_of, rows_of
from eval_pipeline_tests.conformance.row_outcomes import Record
from eval_pipeline_tests.conformance.skillgym_runs import is_run

DIFFERING = differing(row for row in rows_of("skillgym") if is_run(row))


@pytest.mark.parametrize("row", params_of("skillgym", lambda row: row.file != "adapters" and not is_run(row)))
def test_we_answer_as_skillgym_does(row: Row, record_property: Record) -> None:
    judge(row, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("row", params_of("skillgym", is_run))
def test_we_run_as_skillgym_does(row: Row, record_property: Record) -> None:
    judge(row, record_property)


@pytest.mark.slow
@pytest.mark.parametrize(("row", "difference"), DIFFERING)
def test_a_difference_concerns_no_run_that_we_reproduce(row: Row, difference: Difference) -> None:
    assert_is_not_reproduced(row, difference)


@pytest.mark.slow
@pytest.mark.parametrize(("row", "difference"), DIFFERING)
def test_the_check_of_a_difference_of_runs_accepts_nothing_else(row: Row, difference: Difference) -> None:
    assert accepted_though_spoiled(row, difference) == []
