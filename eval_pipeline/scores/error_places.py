"""Where errors of evaluators are in the file of their suite."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.parsing.diagnostics import first_of_each
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

    def located(self, case: Case, problems: Sequence[tuple[EvaluatorSpec, InputError]]) -> InputError:
        """Return one error with all problems of a case, at the place of the first."""
        error = first_of_each([problem for _, problem in problems])
        return error.at(self.of_case(case, problems[0][0], error))

    def of_evaluator(self, case: Case, spec: EvaluatorSpec, error: InputError) -> SourceLocation:
        """Return the place of the argument that an error names, else of its evaluator, else of the case."""
        place = self._place_of(case, spec, _argument_of(spec, error))
        return place if place is not None else self._beside(case, error)

    def of_case(self, case: Case, spec: EvaluatorSpec, error: InputError) -> SourceLocation:
        """Return the place of an error of a case, with the case's id as its field: the line is that of the argument,
        where the suite's own file has it, else of the case."""
        at, beside = self.of_evaluator(case, spec, error), self._beside(case, error)
        return beside if at.file is None or at.line is None else SourceLocation(at.file, at.line, beside.field)

    def _beside(self, case: Case, error: InputError) -> SourceLocation:
        field = f"case '{case.id}'" + (f" {error.place.field}" if error.place.field else "")
        return SourceLocation(show_path(case.origin or self._suite.path), case.line, field)


def _argument_of(spec: EvaluatorSpec, error: InputError) -> FieldPath:
    """Return the argument that an error names, without the name of its evaluator; empty: none."""
    steps = (error.place.field or "").removeprefix(spec.type).strip().split(".")
    usable = all(step.isidentifier() or step.isdecimal() for step in steps)
    return tuple(int(step) if step.isdecimal() else step for step in steps) if usable else ()
