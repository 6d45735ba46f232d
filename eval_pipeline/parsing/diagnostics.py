"""What a suite's author should know and what stops nothing: warnings with their place, and the errors of one case."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eval_pipeline.errors import NOWHERE, InputError, SourceLocation

_SHOWN = 5
_KINDS = 200
_OTHERS = "others"


class Diagnostic(str):
    """A warning: its own text (`file:line: field: problem`), which also knows its parts."""

    __slots__ = ("place", "problem")

    problem: str
    place: SourceLocation

    def __new__(cls, problem: str, place: SourceLocation = NOWHERE) -> Diagnostic:
        notice = super().__new__(cls, f"{place}: {problem}" if str(place) else problem)
        notice.problem = problem
        notice.place = place
        return notice


class Diagnostics:
    """The warnings about one suite: of each kind the first few, and how many more there are."""

    def __init__(self) -> None:
        self._said: dict[str, list[Diagnostic]] = {}
        self._more: dict[str, int] = {}

    def add(
        self,
        problem: str | Callable[[], str],
        place: Callable[[], SourceLocation] | SourceLocation,
        kind: str | None = None,
    ) -> None:
        """Says `problem`; `kind` is what it has in common with others like it (the problem itself when not given).

        What takes time to say is given as a function: it is only asked when it is going to be said.
        """
        if kind is None:
            kind = problem if isinstance(problem, str) else problem()
        if kind not in self._said and len(self._said) == _KINDS:
            kind = _OTHERS
        said = self._said.setdefault(kind, [])
        if len(said) == _SHOWN:
            self._more[kind] = self._more.get(kind, 0) + 1
            return
        text = problem if isinstance(problem, str) else problem()
        notice = Diagnostic(text, place() if callable(place) else place)
        if notice not in said:
            said.append(notice)

    def all(self) -> tuple[Diagnostic, ...]:
        """Every warning, those of one kind together, in the order in which their kinds came up."""
        return tuple(notice for kind, said in self._said.items() for notice in (*said, *self._rest(kind, said)))

    def _rest(self, kind: str, said: Sequence[Diagnostic]) -> Sequence[Diagnostic]:
        more = self._more.get(kind, 0)
        like = "" if kind == _OTHERS else f" like this: {said[-1].problem}"
        return [Diagnostic(f"{more:,} more{like or ' warnings'}", SourceLocation(said[-1].place.file))] if more else []


class CaseErrors(InputError):
    """Everything that is wrong with one case: the first problem's place, all problems' texts."""

    def __init__(self, problems: Sequence[InputError]) -> None:
        self.problems = tuple(problems)
        first, *others = problems
        also = "".join(f"; also {error.place.field or 'the test'}: {error.problem}" for error in others)
        super().__init__(first.problem + also, first.place)


def problems_of(error: InputError) -> tuple[InputError, ...]:
    """The single problems that an error speaks of, each with its own place."""
    return error.problems if isinstance(error, CaseErrors) else (error,)


def first_of_each(errors: Sequence[InputError]) -> InputError:
    """One error that says all of `errors`, none of them twice."""
    single = (problem for error in errors for problem in problems_of(error))
    different = list({str(error): error for error in single}.values())
    return different[0] if len(different) == 1 else CaseErrors(different)
