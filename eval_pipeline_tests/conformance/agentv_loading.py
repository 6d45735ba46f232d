"""AgentV's rows about loading, answered by our loader: what a test becomes, what helpers give, what validation finds.

Where AgentV leaves something out that it cannot use, we say so: those rows are listed as differences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from eval_pipeline_tests.conformance import loading_helpers, loading_parsing, loading_validation
from eval_pipeline_tests.conformance.loading_rows import Difference
from eval_pipeline_tests.conformance.recorded_facts import Row

_MODULES = (loading_parsing, loading_helpers, loading_validation)
CHECKS: Mapping[str, Callable[[Row], None]] = {
    kind: check for module in _MODULES for kind, check in module.CHECKS.items()
}
DIFFERENCES = tuple(difference for module in _MODULES for difference in module.DIFFERENCES)
LOADING_KINDS = frozenset(CHECKS)


def difference_of(row: Row) -> Difference | None:
    """The deliberate difference that a row about loading falls under."""
    return next((one for one in DIFFERENCES if one.concerns(row)), None)


def skip_what_we_do_not_have(row: Row) -> None:
    if loading_validation.unknown_content(row):
        pytest.skip("the row does not hold the text of the workspace file that it is about")
