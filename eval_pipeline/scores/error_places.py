"""Where errors of evaluators are in the file of their suite."""

from __future__ import annotations

from functools import cached_property

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.parsing.source import FieldPath, show_path
from eval_pipeline.suites.model import Case, EvaluatorSpec, Suite
from eval_pipeline.suites.review import EvaluatorPlaces, evaluator_places


class ErrorPlaces:
    """The places of errors in a suite. Its file is read again at the first one."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite

    @cached_property
    def _place_of(self) -> EvaluatorPlaces:
        return evaluator_places(self._suite)

    def of_argument(self, case: Case, spec: EvaluatorSpec, error: InputError) -> SourceLocation | None:
        """Return the place of the argument that an error names, else of its evaluator; None: the file shows neither."""
        return self._place_of(case, spec, argument_of(case, spec, error))

    def of_case(self, case: Case, spec: EvaluatorSpec, error: InputError) -> SourceLocation:
        """Return the place of an error of a case, with the case's id as its field: the line is that of the argument,
        where the suite's own file has it, else of the case."""
        field = f"case '{case.id}'" + (f" {error.place.field}" if error.place.field else "")
        at = self.of_argument(case, spec, error)
        if at is not None and at.file is not None and at.line is not None:
            return SourceLocation(at.file, at.line, field)
        return SourceLocation(show_path(case.origin or self._suite.path), case.line, field)


def argument_of(case: Case, spec: EvaluatorSpec, error: InputError) -> FieldPath:
    """Return the argument that an error names, without the names of its case and evaluator; empty: none."""
    field = (error.place.field or "").removeprefix(f"case '{case.id}'").strip()
    steps = field.removeprefix(spec.type).strip().split(".")
    usable = all(step.isidentifier() or step.isdecimal() for step in steps)
    return tuple(int(step) if step.isdecimal() else step for step in steps) if usable else ()
