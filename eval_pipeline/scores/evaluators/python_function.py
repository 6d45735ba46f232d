"""`python`: a function of the suite author's, named `module:function`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict

from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.plugins import import_function
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Text
from eval_pipeline.scores.model import Outcome, Subject


@EVALUATORS.register("python")
@dataclass(frozen=True, slots=True, kw_only=True)
class PythonFunction:
    """Calls `function` (`module:function`, the module looked for beside the suite's file first).

    The function is given what its parameters name: `output` (text), `case`, `report`, and those of `arguments`. It
    returns a truth value, a number in [0, 1], an Outcome, a mapping with `score`, `reason` and `details`, or None for
    "could not tell". An AssertionError that it raises is a score of 0 with its message.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ("expected_output", "criteria", "metadata", "tags")
    function: Text
    arguments: dict[str, Any] = field(default_factory=dict)

    def content(self, folder: Path) -> Mapping[str, str]:
        """The fingerprint of the function's file."""
        function = import_function(self.function, folder, "function")
        file = getattr(sys.modules.get(function.__module__), "__file__", None)
        return {self.function: file_fingerprint(Path(file))} if file else {}

    def evaluate(self, subject: Subject) -> Outcome:
        function = import_function(self.function, subject.folder, "function")
        offered = {"output": subject.output, "case": subject.case, "report": subject.report, **self.arguments}
        parameters = inspect.signature(function).parameters
        try:
            found = function(**{name: offered[name] for name in parameters if name in offered})
        except AssertionError as failure:
            return Outcome(0.0, str(failure) or "assertion failed")
        return as_outcome(found)


def as_outcome(found: Any) -> Outcome:
    """What a user's function returned, as an outcome. Raises TypeError for anything else."""
    if isinstance(found, Outcome):
        return found
    if found is None:
        return Outcome(None, "the function could not tell")
    if isinstance(found, bool):
        return Outcome(float(found), "the function says yes" if found else "the function says no")
    if isinstance(found, (int, float)) and 0 <= found <= 1:
        return Outcome(float(found), f"the function scores {found:g}")
    if isinstance(found, Mapping) and "score" in found:
        outcome = as_outcome(found["score"])
        details = found.get("details") or {}
        kept = details if isinstance(details, Mapping) else {"details": details}
        return Outcome(outcome.value, str(found.get("reason", outcome.reason)), details=kept)
    raise TypeError(
        f"expected a truth value, a number from 0 to 1, an Outcome or a mapping with 'score', got {found!r}"
    )
