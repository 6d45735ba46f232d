"""`python`: a function of the suite's author, named `module:function`, or code in the suite."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict

from eval_pipeline.parsing.imports import cached_fingerprint, import_roots
from eval_pipeline.parsing.user_modules import import_function, module_imports
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Text
from eval_pipeline.scores.evaluators.javascript import FILE_PREFIX, named_function
from eval_pipeline.scores.grading.grader import Share
from eval_pipeline.scores.model import Outcome, Subject
from eval_pipeline.scores.programs.python_code import compile_check, resolve_awaitable
from eval_pipeline.scores.programs.reply import OnError, apply_error_policy, protocol_outcome
from eval_pipeline.scores.programs.verdict import check_context, value_outcome

DEFAULT_FUNCTION = "get_assert"


@EVALUATORS.register("python")
@dataclass(frozen=True, slots=True, kw_only=True)
class PythonFunction:
    """Call `function` (`module:function`; the suite's folder is searched first), or evaluate `value`.

    The function receives what its parameters name: `output` (text), `case`, `report`, `expected_output`, `criteria`,
    `metadata`, `context`, `workspace` (the folder as the target left it, or None), and those of `arguments`; it may be
    async. It returns a truth value, a number in [0, 1], an Outcome, a mapping with `score` (or `pass`), `reason` and
    `details`, or None for no score. An AssertionError yields a score of 0 with its message.

    `value` is an expression of `output` and `context`, a function body, or `file://check.py` with a function
    `get_assert` (`file://check.py:name`: another function); its numbers are clipped to [0, 1], and `threshold` is the
    minimum that passes. Code that fails leaves the score without a value (`on_error: fail`: 0, as in AgentV).
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ("expected_output", "criteria", "metadata", "tags")
    sees_workspace: ClassVar[bool] = True
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
            compile_check(self.value)

    def content(self, folder: Path) -> Mapping[str, str]:
        """Return the fingerprints of the function's file and of what it imports from the suite's folders."""
        name = self.function or self.value or ""
        if self.function is None and not name.startswith(FILE_PREFIX):
            return {}
        function, home = self._named(folder)
        imported = module_imports(function, home, import_roots(folder))
        file = getattr(sys.modules.get(self._load(folder).__module__), "__file__", None)
        return {**imported, name: cached_fingerprint(Path(file))} if file else imported

    def evaluate(self, subject: Subject) -> Outcome:
        try:
            return apply_error_policy(self._outcome(subject), self.on_error)
        except AssertionError as failure:
            return Outcome(0.0, str(failure) or "assertion failed")
        except Exception as error:
            # An exception in the author's code leaves the score without a value, unless `on_error` is `fail`.
            if self.on_error == "fail":
                return apply_error_policy(Outcome(None, f"{type(error).__name__}: {error}"), self.on_error)
            raise

    def _outcome(self, subject: Subject) -> Outcome:
        if self.value is None:
            return as_outcome(self._call(self._load(subject.folder), subject))
        if self.value.startswith(FILE_PREFIX):
            return self._value_outcome(self._call(self._load(subject.folder), subject))
        return self._value_outcome(compile_check(self.value)(subject.output, check_context(subject, self.config)))

    def _load(self, folder: Path) -> Callable[..., Any]:
        name, home = self._named(folder)
        return import_function(name, home, "value" if self.function is None else "function")

    def _named(self, folder: Path) -> tuple[str, Path]:
        """The function as `module:function`, and the folder that its module is looked for in."""
        if self.function is not None:
            return self.function, folder
        path, name = named_function(self.value or "", folder)
        return f"{path.stem}:{name or DEFAULT_FUNCTION}", path.parent

    def _call(self, function: Callable[..., Any], subject: Subject) -> Any:
        case = subject.case
        available = {
            "output": subject.output,
            "case": case,
            "report": subject.report,
            "expected_output": case.expected_output[-1].text if case.expected_output else None,
            "criteria": case.criteria,
            "metadata": case.metadata,
            "workspace": subject.workspace,
            **self.arguments,
        }
        parameters = inspect.signature(function).parameters
        if "context" in parameters:
            available = {"context": check_context(subject, self.config), **available}
        return resolve_awaitable(function(**{name: available[name] for name in parameters if name in available}))

    def _value_outcome(self, value: Any) -> Outcome:
        if value is None or isinstance(value, Outcome):
            return as_outcome(value)
        return value_outcome(value, self.threshold)


def as_outcome(value: Any) -> Outcome:
    """Convert a function's result to an outcome. Raises TypeError for an unsupported type."""
    if isinstance(value, Outcome):
        return value
    if value is None:
        return Outcome(None, "the function returned no score")
    if isinstance(value, bool):
        return Outcome(float(value), "the function returned true" if value else "the function returned false")
    if isinstance(value, (int, float)) and 0 <= value <= 1:
        return Outcome(float(value), f"the function scores {value:g}")
    if isinstance(value, Mapping) and ("score" in value or "pass" in value):
        if value.get("score", 0) is None:
            return Outcome(None, str(value.get("reason", "the function returned no score")))
        return protocol_outcome(value)
    raise TypeError(
        f"expected a truth value, a number from 0 to 1, an Outcome or a mapping with 'score', got {value!r}"
    )
