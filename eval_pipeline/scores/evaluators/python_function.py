"""`python`: a function of the suite author's, named `module:function`, or code that stands in the suite."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict

from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.plugins import import_function
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Text
from eval_pipeline.scores.evaluators.javascript import FILE_PREFIX, named_function
from eval_pipeline.scores.grading.grader import Share
from eval_pipeline.scores.model import Outcome, Subject
from eval_pipeline.scores.programs.python_code import awaited, compiled
from eval_pipeline.scores.programs.reply import OnError, counted, protocol_outcome
from eval_pipeline.scores.programs.verdict import said_context, said_outcome

DEFAULT_FUNCTION = "get_assert"


@EVALUATORS.register("python")
@dataclass(frozen=True, slots=True, kw_only=True)
class PythonFunction:
    """Calls `function` (`module:function`, the module looked for beside the suite's file first), or takes `value`.

    The function is given what its parameters name: `output` (text), `case`, `report`, `expected_output`, `criteria`,
    `metadata`, `context`, and those of `arguments`; it may be async. It returns a truth value, a number in [0, 1], an
    Outcome, a mapping with `score` (or `pass`), `reason` and `details`, or None for "could not tell". An
    AssertionError that it raises is a score of 0 with its message. `value` is an expression of `output` and `context`,
    the lines of a function's body, or `file://check.py` with a function `get_assert` (`file://check.py:name`: another);
    of it, numbers are put into [0, 1], and `threshold` is the least that passes. Code that breaks leaves the score open
    (`on_error: fail`: 0, as in AgentV).
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ("expected_output", "criteria", "metadata", "tags")
    function: Text | None = None
    value: Text | None = None
    threshold: Share | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    on_error: OnError = "unscored"

    def __post_init__(self) -> None:
        if (self.function is None) == (self.value is None):
            raise ValueError("needs function (module:function) or value (code), and not both")
        if self.value is not None and not self.value.startswith(FILE_PREFIX):
            compiled(self.value)

    def content(self, folder: Path) -> Mapping[str, str]:
        """The fingerprint of the function's file."""
        name = self.function or self.value or ""
        if self.function is None and not name.startswith(FILE_PREFIX):
            return {}
        file = getattr(sys.modules.get(self._named(folder).__module__), "__file__", None)
        return {name: file_fingerprint(Path(file))} if file else {}

    def evaluate(self, subject: Subject) -> Outcome:
        try:
            return counted(self._outcome(subject), self.on_error)
        except AssertionError as failure:
            return Outcome(0.0, str(failure) or "assertion failed")
        except Exception as error:
            # What the author's code raises leaves the score open, unless the author wants it to count.
            if self.on_error == "fail":
                return counted(Outcome(None, f"{type(error).__name__}: {error}"), self.on_error)
            raise

    def _outcome(self, subject: Subject) -> Outcome:
        if self.value is None:
            return as_outcome(self._called(self._named(subject.folder), subject))
        if self.value.startswith(FILE_PREFIX):
            return self._judged(self._called(self._named(subject.folder), subject))
        return self._judged(compiled(self.value)(subject.output, said_context(subject, self.config)))

    def _named(self, folder: Path) -> Callable[..., Any]:
        if self.function is not None:
            return import_function(self.function, folder, "function")
        path, name = named_function(self.value or "", folder)
        return import_function(f"{path.stem}:{name or DEFAULT_FUNCTION}", path.parent, "value")

    def _called(self, function: Callable[..., Any], subject: Subject) -> Any:
        case = subject.case
        offered = {
            "output": subject.output,
            "case": case,
            "report": subject.report,
            "expected_output": case.expected_output[-1].text if case.expected_output else None,
            "criteria": case.criteria,
            "metadata": case.metadata,
            **self.arguments,
        }
        parameters = inspect.signature(function).parameters
        if "context" in parameters:
            offered = {"context": said_context(subject, self.config), **offered}
        return awaited(function(**{name: offered[name] for name in parameters if name in offered}))

    def _judged(self, found: Any) -> Outcome:
        if found is None or isinstance(found, Outcome):
            return as_outcome(found)
        return said_outcome(found, self.threshold)


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
    if isinstance(found, Mapping) and ("score" in found or "pass" in found):
        if found.get("score", 0) is None:
            return Outcome(None, str(found.get("reason", "the function could not tell")))
        return protocol_outcome(found)
    raise TypeError(
        f"expected a truth value, a number from 0 to 1, an Outcome or a mapping with 'score', got {found!r}"
    )
