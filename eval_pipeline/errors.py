"""Every error a caller can cause, and nothing else.

What the system under test does wrong is not here: that is a row with a failure class (`failures.py`).

    EvalPipelineError
    ├── InputError      a suite, runners file, recording or option says something that cannot be used
    │   └── UnknownName a name that nothing answers to
    ├── InputErrors     several of them, reported together
    └── WarehouseError  the store cannot be opened or is of a newer version
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """Where in the user's text something stands: file, 1-based line, dotted field path; each None when unknown."""

    file: str | None = None
    line: int | None = None
    field: str | None = None

    def __str__(self) -> str:
        location = self.file or ""
        if self.line is not None:
            location += f":{self.line}" if location else f"line {self.line}"
        return ": ".join(part for part in (location, self.field) if part)


NOWHERE = SourceLocation()


class EvalPipelineError(Exception):
    """Base of all errors that are shown to a user as one message and never as a stack trace."""


class InputError(EvalPipelineError):
    """Something the user wrote cannot be used; names culprit, place and cure."""

    def __init__(self, problem: str, place: SourceLocation = NOWHERE) -> None:
        self.problem = problem
        self.place = place
        super().__init__(f"{place}: {problem}" if str(place) else problem)

    def at(self, place: SourceLocation) -> InputError:
        """The same problem, said of another place."""
        return InputError(self.problem, place)


class InputErrors(EvalPipelineError):
    """Several input errors, one a line."""

    def __init__(self, errors: Sequence[InputError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(str(error) for error in errors))


class UnknownName(InputError):
    """A name that nothing answers to; lists what there is and the nearest one."""

    def __init__(self, kind: str, name: str, known: Iterable[str], place: SourceLocation = NOWHERE) -> None:
        there_are = sorted(known)
        listing = f"there are: {', '.join(there_are)}" if there_are else "there are none"
        super().__init__(f"no {kind} '{name}'; {listing}{did_you_mean(name, there_are)}", place)


class WarehouseError(EvalPipelineError):
    """The warehouse cannot be opened, read or brought to this version."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` when a known name is close, else nothing."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""
