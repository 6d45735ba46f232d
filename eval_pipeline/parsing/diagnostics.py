"""Warnings with source locations, and the errors of one case."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eval_pipeline.errors import NOWHERE, InputError, SourceLocation

_SHOWN = 5
_KINDS = 200
_OTHERS = "others"


class Diagnostic(str):
    """A warning: a text (`file:line: field: problem`) with its parts as attributes."""

    __slots__ = ("place", "problem")

    problem: str
    place: SourceLocation

    def __new__(cls, problem: str, place: SourceLocation = NOWHERE) -> Diagnostic:
        warning = super().__new__(cls, f"{place}: {problem}" if str(place) else problem)
        warning.problem = problem
        warning.place = place
        return warning


class Diagnostics:
    """The warnings about one suite: the first few of each kind, and the number of the others."""

    def __init__(self) -> None:
        self._by_kind: dict[str, list[Diagnostic]] = {}
        self._more: dict[str, int] = {}

    def add(
        self,
        problem: str | Callable[[], str],
        place: Callable[[], SourceLocation] | SourceLocation,
        kind: str | None = None,
    ) -> None:
        """Add a warning; `kind` groups similar warnings (default: the problem itself).

        A problem or place that takes time to compute is passed as a function, which is called only when needed.
        """
        if kind is None:
            kind = problem if isinstance(problem, str) else problem()
        if kind not in self._by_kind and len(self._by_kind) == _KINDS:
            kind = _OTHERS
        shown = self._by_kind.setdefault(kind, [])
        if len(shown) == _SHOWN:
            self._more[kind] = self._more.get(kind, 0) + 1
            return
        text = problem if isinstance(problem, str) else problem()
        warning = Diagnostic(text, place() if callable(place) else place)
        if warning not in shown:
            shown.append(warning)

    def all(self) -> tuple[Diagnostic, ...]:
        """Return every warning, grouped by kind in order of first occurrence."""
        return tuple(warning for kind, shown in self._by_kind.items() for warning in (*shown, *self._rest(kind, shown)))

    def _rest(self, kind: str, shown: Sequence[Diagnostic]) -> Sequence[Diagnostic]:
        more = self._more.get(kind, 0)
        like = "" if kind == _OTHERS else f" like this: {shown[-1].problem}"
        return [Diagnostic(f"{more:,} more{like or ' warnings'}", SourceLocation(shown[-1].place.file))] if more else []


class CaseErrors(InputError):
    """All errors of one case: the location of the first, the texts of all."""

    def __init__(self, problems: Sequence[InputError]) -> None:
        self.problems = tuple(problems)
        first, *others = problems
        also = "".join(f"; also {error.place.field or 'the test'}: {error.problem}" for error in others)
        super().__init__(first.problem + also, first.place)


def problems_of(error: InputError) -> tuple[InputError, ...]:
    """Return the single problems of an error, each with its location."""
    return error.problems if isinstance(error, CaseErrors) else (error,)


def first_of_each(errors: Sequence[InputError]) -> InputError:
    """Return one error with the distinct problems of all `errors`."""
    single = (problem for error in errors for problem in problems_of(error))
    different = list({str(error): error for error in single}.values())
    return different[0] if len(different) == 1 else CaseErrors(different)
