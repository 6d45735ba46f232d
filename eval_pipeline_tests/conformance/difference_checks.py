"""The check of a difference, tried: it concerns no row that we reproduce, and accepts no other observation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Difference, Observation, Observations, Problem
from eval_pipeline_tests.conformance.differences.table import difference_of
from eval_pipeline_tests.conformance.judging import method_of
from eval_pipeline_tests.conformance.recorded_facts import Row


def differing(rows: Iterable[Row]) -> list[Any]:
    """A pytest parameter for each row that falls under a difference: the row and the difference."""
    judged = ((row, difference_of(row)) for row in rows)
    named = [(row, difference) for row, difference in judged if difference is not None]
    return [pytest.param(row, difference, id=f"{difference.name}-{row.number}") for row, difference in named]


def assert_is_not_reproduced(row: Row, difference: Difference) -> None:
    """Assert what the difference says of the row, and that the row itself would not hold."""
    method, observations = _observed(row)
    difference.check(row, observations)
    with pytest.raises((AssertionError, KeyError, ValueError, TypeError, pytest.skip.Exception)):
        method.check(row, observations[AS_WRITTEN])


def accepted_though_spoiled(row: Row, difference: Difference) -> list[str]:
    """Return the ways to spoil the row's observations that the check of its difference does not notice."""
    _, observations = _observed(row)
    accepted = []
    for way, spoiled in _spoiled(observations):
        try:
            difference.check(row, spoiled)
        except (AssertionError, KeyError, ValueError, TypeError, IndexError, AttributeError):
            continue
        accepted.append(way)
    return accepted


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
