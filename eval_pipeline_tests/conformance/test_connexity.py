"""Connexity's recorded facts: nothing of that format is built yet, and every row says so."""

from __future__ import annotations

import pytest

from eval_pipeline_tests.conformance.recorded_facts import Row, row_params


@pytest.mark.parametrize("row", row_params("connexity"))
def test_we_answer_as_connexity_does(row: Row) -> None:
    pytest.skip(f"not built yet: {row.file}: {row.kind}")
