"""The table of differences: each concerns rows, none that we reproduce, and its check accepts nothing else.

Every row that differs is observed once; its observation is then spoiled in all the ways of `difference_checks.py`, and
the check of its difference must refuse each. A check that accepts almost any error, or any score, fails here.
"""

from __future__ import annotations

from collections import Counter

import pytest

from eval_pipeline_tests.conformance.difference_checks import (
    accepted_though_spoiled,
    assert_is_not_reproduced,
    differing,
)
from eval_pipeline_tests.conformance.differences.model import Difference
from eval_pipeline_tests.conformance.differences.table import DIFFERENCES, difference_of
from eval_pipeline_tests.conformance.judging import method_of
from eval_pipeline_tests.conformance.recorded_facts import Row, conformance_folder, rows_of
from eval_pipeline_tests.conformance.skillgym_runs import is_run
from eval_pipeline_tests.conformance.synthetic_rows import SYNTHETIC_ROWS

_OF_SUITES = [row for row in rows_of("skillgym") if row.file != "adapters"]
_OF_CASES = [row for row in rows_of("connexity") if method_of(row) is not None]
ROWS = (*rows_of("agentv"), *rows_of("peers"), *_OF_SUITES, *_OF_CASES, *SYNTHETIC_ROWS)
DIFFERING = differing(row for row in ROWS if not is_run(row))
"""Those of whole runs are tried in `test_skillgym_suites.py`, where these are carried out."""
pytestmark = pytest.mark.skipif(not conformance_folder().is_dir(), reason="no recorded facts")


def test_every_difference_has_a_name_and_a_reason_of_its_own() -> None:
    names = Counter(difference.name for difference in DIFFERENCES)

    assert [name for name, count in names.items() if count > 1] == []
    assert all(len(difference.reason) > 20 for difference in DIFFERENCES)


def test_every_difference_concerns_a_row() -> None:
    concerning = [difference_of(row) for row in ROWS]

    assert [difference.name for difference in DIFFERENCES if difference not in concerning] == []


@pytest.mark.parametrize(("row", "difference"), DIFFERING)
def test_a_difference_concerns_no_row_that_we_reproduce(row: Row, difference: Difference) -> None:
    assert_is_not_reproduced(row, difference)


@pytest.mark.parametrize(("row", "difference"), DIFFERING)
def test_the_check_of_a_difference_accepts_nothing_else(row: Row, difference: Difference) -> None:
    assert accepted_though_spoiled(row, difference) == []
