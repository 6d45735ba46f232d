"""AgentV's recorded facts about loading, one case per row."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eval_pipeline_tests.conformance.agentv_loading import (
    CHECKS,
    LOADING_KINDS,
    difference_of,
    skip_what_we_do_not_have,
)
from eval_pipeline_tests.conformance.recorded_facts import Row, row_params

LOADING_ROWS = [
    param for param in row_params("agentv") if param.values[0] is None or param.values[0].kind in LOADING_KINDS
]


@pytest.mark.parametrize("row", LOADING_ROWS)
def test_we_load_as_agentv_does(row: Row, record_property: Callable[[str, object], None]) -> None:
    skip_what_we_do_not_have(row)
    difference = difference_of(row)
    if difference is not None:
        record_property("difference", difference.name)
        difference.check(row)
        return
    CHECKS[row.kind](row)
