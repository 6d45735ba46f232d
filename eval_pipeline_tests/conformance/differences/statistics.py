"""Differences about statistics: what cannot be known is None, never a number."""

from __future__ import annotations

from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Difference, Observations
from eval_pipeline_tests.conformance.recorded_facts import Row


def _of_one_value(row: Row) -> bool:
    return row.kind in ("variance", "ci_t") and len(row.data["input"]["values"]) == 1


def _is_unknown(row: Row, observations: Observations) -> None:
    """The mean of one value is known, its spread is not."""
    values = observations[AS_WRITTEN].values
    spread = values["value"] if row.kind == "variance" else values["interval"]
    assert spread is None
    assert row.kind == "variance" or values["mean"] is not None


def _more_tries_than_repetitions(row: Row) -> bool:
    if row.kind != "pass_at_k":
        return False
    given = row.data["input"]
    return bool(given["c"] <= given["n"] < given["k"])


def _no_value(row: Row, observations: Observations) -> None:
    assert observations[AS_WRITTEN].values == {"value": None}


STATISTICS = (
    Difference(
        "spread of one value",
        "the peer gives one value a variance of 0 and an interval without width; of one value neither is known",
        _of_one_value,
        _is_unknown,
    ),
    Difference(
        "too few repetitions",
        "the peer raises for more tries than repetitions; a board of many suites reports the others and no value here",
        _more_tries_than_repetitions,
        _no_value,
    ),
)
