"""Warnings about suites, as `run` and `plan` show them: equal problems together and counted; with --strict errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from eval_pipeline.errors import InputError, InputErrors, SourceLocation
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.parsing.diagnostics import Diagnostic
from eval_pipeline.suites.model import Suite

MOST_WARNINGS = 20


def grouped_warnings(suites: Iterable[Suite]) -> list[str]:
    """Return a line for each problem that suites warn of, with its first place and the number of the others."""
    groups: dict[str, list[str]] = {}
    for warning in dict.fromkeys(_warnings(suites)):
        groups.setdefault(_problem(warning), []).append(str(warning))
    lines = [_line(places) for places in groups.values()]
    hidden = len(lines) - MOST_WARNINGS
    if hidden <= 0:
        return lines
    return [*lines[:MOST_WARNINGS], f"… and {counted(hidden, 'more problem')} (listed by eval-pipeline validate)"]


def and_more(number: int) -> str:
    """Return how many others there are like one that is shown, of `number` in all."""
    return f" (and {number - 1:,} more like this)" if number > 1 else ""


def require_no_warnings(suites: Iterable[Suite], others: Sequence[str]) -> None:
    """Raise InputErrors with every warning: that is what --strict means."""
    errors = [InputError(_problem(warning), _place(warning)) for warning in dict.fromkeys(_warnings(suites))]
    errors += [InputError(warning) for warning in others]
    if errors:
        raise InputErrors(errors)


def _warnings(suites: Iterable[Suite]) -> Iterator[str]:
    return (warning for suite in suites for warning in suite.warnings)


def _problem(warning: str) -> str:
    return warning.problem if isinstance(warning, Diagnostic) else warning


def _place(warning: str) -> SourceLocation:
    return warning.place if isinstance(warning, Diagnostic) else SourceLocation()


def _line(warnings: Sequence[str]) -> str:
    return warnings[0] + and_more(len(warnings))
