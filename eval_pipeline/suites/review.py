"""Optional review of a suite by its format: warnings about fields, and the locations of its evaluators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

from eval_pipeline.errors import SourceLocation
from eval_pipeline.parsing.diagnostics import Diagnostic
from eval_pipeline.parsing.source import FieldPath
from eval_pipeline.suites.load import FORMATS
from eval_pipeline.suites.model import Case, EvaluatorSpec, Suite

EvaluatorPlaces = Callable[[Case, EvaluatorSpec, FieldPath], SourceLocation | None]
"""Returns the place of an evaluator of a case, or of an argument of it; None where it is not known."""


@runtime_checkable
class ReviewedFormat(Protocol):
    """A suite format that reads a file again to report more about it."""

    def review(self, suite: Suite) -> Iterable[Diagnostic]:
        """Return warnings about a loaded suite."""

    def evaluator_places(self, suite: Suite) -> EvaluatorPlaces:
        """Return the locations of the evaluators of a suite's cases."""


def review(suite: Suite) -> Iterable[Diagnostic]:
    """Return warnings about a loaded suite; none for a format without a review."""
    format_ = _reviewed(suite)
    return format_.review(suite) if format_ is not None else ()


def evaluator_places(suite: Suite) -> EvaluatorPlaces:
    """Return the locations of evaluators in a suite's file, if its format provides them."""
    format_ = _reviewed(suite)
    return format_.evaluator_places(suite) if format_ is not None else lambda case, spec, argument: None


def _reviewed(suite: Suite) -> ReviewedFormat | None:
    make = FORMATS.find(suite.format)
    format_ = make() if make is not None else None
    return format_ if isinstance(format_, ReviewedFormat) else None
