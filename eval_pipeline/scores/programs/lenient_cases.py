"""Cases of a Python suite that are made with wrong arguments: each is kept with what is wrong, so that the module goes
on and every problem of it is reported. Elsewhere a wrong argument raises where the case is made."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from eval_pipeline.errors import did_you_mean
from eval_pipeline.suites.model import Case

Wrong = list[tuple[str | None, str]]
"""Field and problem of each wrong argument; no field where a case has none of its name."""
Problems = list[tuple[Case, Wrong]]
_ARGUMENTS = ("id", "prompt", "tags", "timeout_ms", "max_steps", "expected_fail", "classify_failure",
              "check", "metadata", "runners", "repetitions", "on_failure", "criteria", "should_trigger", "evaluators",
              "threshold", "incomplete")  # fmt: skip
_KNOWN = frozenset(inspect.signature(Case).parameters)
_REFUSED = ("timeout_ms", "prompt")
"""Arguments that a case is not made with where they are wrong."""


@contextmanager
def keeping_wrong_cases() -> Iterator[Problems]:
    """Make cases without their wrong arguments inside; yield the list of those that had some."""
    problems: Problems = []
    usual: Any = Case.__init__

    def make(case: Case, *positional: Any, **given: Any) -> None:
        given.setdefault("line", sys._getframe(1).f_lineno)
        wrong = _without_wrong(usual, case, positional, given)
        if wrong:
            problems.append((case, wrong))

    Case.__init__ = make  # type: ignore[assignment, method-assign]
    try:
        yield problems
    finally:
        Case.__init__ = usual  # type: ignore[method-assign]


def _without_wrong(usual: Any, case: Case, positional: Sequence[Any], given: dict[str, Any]) -> Wrong:
    """Make a case; return its wrong arguments."""
    wrong: Wrong = [(None, _unknown(name)) for name in given if name not in _KNOWN]
    kept = {name: value for name, value in given.items() if name in _KNOWN}
    if "id" not in kept:
        kept["id"] = ""
    while True:
        try:
            usual(case, *positional, **kept)
        except (TypeError, ValueError) as error:
            refused = next((name for name in _REFUSED if name in kept and str(error).startswith(name)), None)
            if refused is None:
                raise
            wrong.append((refused, str(error).removeprefix(f"{refused} of a case: ")))
            del kept[refused]
        else:
            return wrong


def _unknown(name: str) -> str:
    snake = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()
    hint = did_you_mean(snake, _ARGUMENTS) or f"; there are: {', '.join(_ARGUMENTS)}"
    return f"unknown field '{name}' of a Case{hint}"
