"""Recorded facts of peer systems (judges, statistics), one case per row; what is not built yet says so."""

from __future__ import annotations

import pytest

from eval_pipeline_tests.conformance.peers_judges import judge_check
from eval_pipeline_tests.conformance.peers_statistics import statistics_check
from eval_pipeline_tests.conformance.recorded_facts import Row, row_params


@pytest.mark.parametrize("row", row_params("peers"))
def test_we_answer_as_peers_do(row: Row) -> None:
    check = judge_check(row) or statistics_check(row)
    if check is None:
        pytest.skip(f"not built yet: {row.file}: {row.kind}")
    check(row)
