"""Errors that a caller can cause.

Failures of the system under test are not errors: they are rows with a failure class (`failures.py`).

    EvalPipelineError
    ├── InputError      a suite, runners file, recording or option holds an unusable value
    │   └── UnknownName a name that is not registered or defined
    ├── InputErrors     several input errors, reported together
    └── WarehouseError  the store cannot be opened or has a newer version
        └── NoResults   nothing is published yet
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MOST_LISTED = 20
_EXAMPLES = 6
_CLOSE = 0.65
MOST_COMPARED = 5_000


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """Location in the user's text: file, 1-based line and dotted field path; each is None when unknown."""

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
    """Base class of errors that are shown to a user as one message, never as a stack trace."""


class InputError(EvalPipelineError):
    """User input that cannot be used. The message names the culprit, its location and the cure."""

    def __init__(self, problem: str, place: SourceLocation = NOWHERE) -> None:
        self.problem = problem
        self.place = place
        super().__init__(f"{place}: {problem}" if str(place) else problem)

    def at(self, place: SourceLocation) -> InputError:
        """Return the same problem at another location."""
        return InputError(self.problem, place)


class InputErrors(EvalPipelineError):
    """Several input errors, one per line of the message."""

    def __init__(self, errors: Sequence[InputError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(str(error) for error in errors))


class UnknownName(InputError):
    """A name that does not exist. The message lists the known names and the nearest one.

    Of many names it has the nearest one first, then a few, and `listed_by`: the command that lists all.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        known: Iterable[str],
        place: SourceLocation = NOWHERE,
        listed_by: str | None = None,
    ) -> None:
        names = sorted(set(known))
        if len(names) > MOST_LISTED:
            listing = _of_many(name, names, listed_by)
        else:
            listing = (f"there are: {', '.join(names)}" if names else "there are none") + did_you_mean(name, names)
        super().__init__(f"no {kind} '{name}'; {listing}", place)


class WarehouseError(EvalPipelineError):
    """The warehouse cannot be opened, read or migrated to this version."""


class NoResults(WarehouseError):
    """Nothing is published yet."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` when a known name is close, else an empty string.

    Thousands of names are not compared: each takes tens of microseconds.
    """
    near = nearest(name, known)
    return f"; did you mean '{near}'?" if near is not None else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is close to a wrong one; None without any, and among thousands."""
    names = list(known)
    if len(names) > MOST_COMPARED:
        return None
    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=_CLOSE)), None)


def _of_many(name: str, names: Sequence[str], listed_by: str | None) -> str:
    guess = did_you_mean(name, names).removeprefix("; ")
    few = names if len(names) <= MOST_COMPARED else names[:_EXAMPLES]
    similar = difflib.get_close_matches(name, few, n=_EXAMPLES, cutoff=0.0)
    command = f"; all: {listed_by}" if listed_by else ""
    return f"{guess}{' ' if guess else ''}there are {len(names):,}, such as {', '.join(similar)}{command}"


def error_text(error: BaseException) -> str:
    """Return the type and the message, if it has any, of an exception of foreign code, whose `__str__` may itself
    raise."""
    try:
        text = str(error)
        return f"{type(error).__name__}: {text}" if text.strip() else type(error).__name__
    except Exception as second:  # noqa: BLE001 — see above
        return f"{type(error).__name__}, whose message cannot be read ({type(second).__name__})"
