"""The cases of a sweep that did not pass, as its end and the page of its run show them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

from eval_pipeline.failures import failure_class

FAILED_CASES_SHOWN = 10
"""How many failed cases the end of a sweep shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCase:
    """A case that a runner did not pass: `failed` of its `repetitions`, with class and reason of the first of them.

    `workspace` is the folder it worked in, or should have, where that was kept. `line` are the file and line of the
    check that failed, where it is known.
    """

    suite: str
    case_id: str
    runner: str
    status: str
    failure_class: str | None
    reason: str | None
    failed: int
    repetitions: int
    failure_label: str | None = None
    workspace: str | None = None
    line: tuple[str, int] | None = None

    @property
    def label(self) -> str:
        """The failure class for people; the status where there is none."""
        if self.failure_label is not None:
            return self.failure_label
        return failure_class(self.failure_class).label if self.failure_class is not None else self.status

    @property
    def command(self) -> str:
        """The command that shows all of it."""
        return f"eval-pipeline show {shlex.quote(f'{self.suite}/{self.case_id}')} --runner {shlex.quote(self.runner)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCases:
    """The first failed cases by suite, case and runner, and how many there are in all."""

    cases: tuple[FailedCase, ...] = ()
    total: int = 0

    @property
    def hidden(self) -> int:
        """How many are not among the first."""
        return self.total - len(self.cases)

    def first(self, most: int = FAILED_CASES_SHOWN) -> FailedCases:
        """Return the same with no more than the first of these."""
        return replace(self, cases=self.cases[:most])
