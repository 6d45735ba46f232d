"""What a deliberate difference is, and what is observed of a row."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_pipeline_tests.conformance.recorded_facts import Row

AS_WRITTEN = "as written"


@dataclass(frozen=True, slots=True)
class Problem:
    """An error or warning about a file: its field (`tests[0].input`, without the file) and its text."""

    field: str
    text: str
    severity: str = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What came of one form of a row: the problems that were reported, and the values that a table or command gave."""

    problems: tuple[Problem, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")


Observations = Mapping[str, Observation]
"""Observations of the forms of a row by name: `AS_WRITTEN`, and what a difference asks for besides."""
Check = Callable[[Row, Observations], None]


@dataclass(frozen=True, slots=True)
class Difference:
    """One deliberate difference.

    `concerns` states which rows, by what is in the row (never its number: rows that nobody has seen go through the same
    table); `check` asserts what we do instead. `forms` are changes of the row's test that `check` also observes, by
    name.
    """

    name: str
    reason: str
    concerns: Callable[[Row], bool]
    check: Check
    forms: Mapping[str, Callable[[Row, Any], Any]] = field(default_factory=dict)


Expected = tuple[str, str]
"""The field and a pattern of the text of an error."""


def refuses(expected: Callable[[Row], Sequence[Expected]]) -> Check:
    """Return a check that exactly these errors are reported, each at its field with its text, and nothing is scored."""

    def check(row: Row, observations: Observations) -> None:
        observation = observations[AS_WRITTEN]
        assert_errors(observation, expected(row))
        assert not observation.values.get("scores"), observation

    return check


def assert_errors(observation: Observation, expected: Sequence[Expected]) -> None:
    """Assert that exactly these errors are reported, in any order."""
    errors = observation.errors
    assert sorted(error.field for error in errors) == sorted(place for place, _ in expected), (errors, expected)
    for place, pattern in expected:
        assert any(error.field == place and re.search(pattern, error.text) for error in errors), (errors, pattern)
