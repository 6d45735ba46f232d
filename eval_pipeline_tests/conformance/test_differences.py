"""The table of differences: each concerns rows, none that we reproduce, and its check accepts nothing else.

Every row that differs is observed once; its observation is then spoiled in all the ways below, and the check of its
difference must refuse each. A check that accepts almost any error, or any score, fails here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Difference, Observation, Observations, Problem
from eval_pipeline_tests.conformance.differences.table import DIFFERENCES, difference_of
from eval_pipeline_tests.conformance.judging import method_of
from eval_pipeline_tests.conformance.recorded_facts import Row, conformance_folder, rows_of
from eval_pipeline_tests.conformance.skillgym_runs import is_run
from eval_pipeline_tests.conformance.synthetic_rows import SYNTHETIC_ROWS

_OF_SUITES = [row for row in rows_of("skillgym") if row.file != "adapters"]
_OF_CASES = [row for row in rows_of("connexity") if method_of(row) is not None]
ROWS = (*rows_of("agentv"), *rows_of("peers"), *_OF_SUITES, *_OF_CASES, *SYNTHETIC_ROWS)
pytestmark = pytest.mark.skipif(not conformance_folder().is_dir(), reason="no recorded facts")


def _differing() -> list[Any]:
    judged = ((row, difference_of(row)) for row in ROWS)
    named = [(row, difference) for row, difference in judged if difference is not None]
    return [
        pytest.param(row, difference, id=f"{difference.name}-{row.number}", marks=[pytest.mark.slow] * is_run(row))
        for row, difference in named
    ]


def test_every_difference_has_a_name_and_a_reason_of_its_own() -> None:
    names = Counter(difference.name for difference in DIFFERENCES)

    assert [name for name, count in names.items() if count > 1] == []
    assert all(len(difference.reason) > 20 for difference in DIFFERENCES)


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.name)
def test_every_difference_concerns_a_row(difference: Difference) -> None:
    concerned = [row for row in ROWS if difference_of(row) is difference]

    assert concerned


@pytest.mark.parametrize(("row", "difference"), _differing())
def test_a_difference_concerns_no_row_that_we_reproduce(row: Row, difference: Difference) -> None:
    method, observations = _observed(row)
    difference.check(row, observations)

    with pytest.raises((AssertionError, KeyError, ValueError, TypeError, pytest.skip.Exception)):
        method.check(row, observations[AS_WRITTEN])


@pytest.mark.parametrize(("row", "difference"), _differing())
def test_the_check_of_a_difference_accepts_nothing_else(row: Row, difference: Difference) -> None:
    _, observations = _observed(row)
    accepted = []
    for way, spoiled in _spoiled(observations):
        try:
            difference.check(row, spoiled)
        except (AssertionError, KeyError, ValueError, TypeError, IndexError, AttributeError):
            continue
        accepted.append(way)

    assert accepted == []


def _observed(row: Row) -> tuple[Any, Observations]:
    method = method_of(row)
    assert method is not None
    return method, method.observe(row)


def _spoiled(observations: Observations) -> Iterator[tuple[str, Observations]]:
    """Yield the observations with one thing wrong, and what it is."""
    first = observations[AS_WRITTEN]
    for way, problems in _spoiled_problems(first.problems):
        yield way, {**observations, AS_WRITTEN: replace(first, problems=problems)}
    if first.values and not first.errors:
        yield "other values", {name: replace(seen, values=_other(seen.values)) for name, seen in observations.items()}
        yield "refused", {**observations, AS_WRITTEN: Observation(problems=(Problem("tests[0]", "refused"),))}
    if first.errors:
        scored = {**first.values, "scores": [{"name": "x", "value": 0.0}], "value": "something", "evaluators": []}
        yield "accepted", {**observations, AS_WRITTEN: Observation(values=scored)}


def _spoiled_problems(problems: tuple[Problem, ...]) -> Iterator[tuple[str, tuple[Problem, ...]]]:
    errors = [at for at, problem in enumerate(problems) if problem.severity == "error"]
    for at in errors:
        others = problems[:at], problems[at + 1 :]
        yield f"without error {at}", (*others[0], *others[1])
        yield f"error {at} elsewhere", (*others[0], replace(problems[at], field="tests[7].id"), *others[1])
        yield f"another error {at}", (*others[0], replace(problems[at], text="cannot be read"), *others[1])
        yield f"error {at} only a warning", (*others[0], replace(problems[at], severity="warning"), *others[1])
    if errors:
        yield "one more error", (*problems, Problem("tests[7].id", "required"))


def _other(value: Any) -> Any:
    """Return other values of the same shape: every number, text and truth value is another."""
    if isinstance(value, Mapping):
        return {name: _other(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_other(item) for item in value]
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value / 2 + 0.2
    return 0.5 if value is None else f"other {value}"
