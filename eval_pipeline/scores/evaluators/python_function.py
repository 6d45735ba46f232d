"""`python`: a function of the suite's author, named `module:function`, or code in the suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from eval_pipeline.errors import error_text
from eval_pipeline.executions.function_calls import (
    FunctionCall,
    FunctionError,
    OutcomeFields,
    TooMuchReturned,
    WorkerDied,
)
from eval_pipeline.executions.model import Isolation
from eval_pipeline.executions.user_functions import UserFunction
from eval_pipeline.executions.workers import WorkerPool
from eval_pipeline.parsing.imports import cached_fingerprint, import_roots
from eval_pipeline.parsing.user_modules import module_imports
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Limit, Text
from eval_pipeline.scores.evaluators.javascript import FILE_PREFIX, named_function
from eval_pipeline.scores.grading.grader import Share
from eval_pipeline.scores.model import Finding, Outcome, Subject, SubScore
from eval_pipeline.scores.programs import python_code
from eval_pipeline.scores.programs.command import DEFAULT_TIMEOUT_S
from eval_pipeline.scores.programs.python_code import compile_check, resolve_awaitable
from eval_pipeline.scores.programs.reply import OnError, apply_error_policy, protocol_outcome
from eval_pipeline.scores.programs.verdict import check_context, value_outcome

DEFAULT_FUNCTION = "get_assert"
_NOT_FINITE = ("nan", "inf", "-inf")
_CODE = f"{python_code.__name__}:{python_code.run_check.__name__}"


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

    The code runs in a worker process, for at most `timeout_s` seconds (default: the case's limit, else 300): if it
    exits, crashes or never returns, its score has no value. With `isolation: in-process` it runs in the process of the
    sweep, without a limit.
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
    timeout_s: Annotated[Limit, Field(gt=0)] | None = None
    isolation: Isolation | None = None

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
        called = self._function(folder, "process")
        file = called.facts(called.pool(shared=False, anew=True) if called.isolated else None).file
        return {**imported, name: cached_fingerprint(Path(file))} if file else imported

    def evaluate(self, subject: Subject) -> Outcome:
        try:
            pool, call = self._call(subject)
            if pool is None:
                return self._outcome(_call_here(self._function_for(subject), call))
            return self._outcome(pool.call_and_wait(call, self._limit_s(subject)))
        except Exception as error:  # noqa: BLE001 — the boundary to the author's code
            return self._failed(error, subject)

    async def evaluate_apart(self, subject: Subject) -> Outcome:
        """Return what `evaluate` returns; meanwhile other executions go on."""
        try:
            pool, call = self._call(subject)
            if pool is None:
                return self._outcome(_call_here(self._function_for(subject), call))
            return self._outcome(await pool.call(call, self._limit_s(subject)))
        except Exception as error:  # noqa: BLE001 — the boundary to the author's code
            return self._failed(error, subject)

    def _limit_s(self, subject: Subject) -> float:
        return self.timeout_s or subject.case.timeout_s or DEFAULT_TIMEOUT_S

    def _failed(self, error: Exception, subject: Subject) -> Outcome:
        """Return the score of an assertion that failed; other errors leave it without a value, or as `on_error` has it.

        Raises what the boundary to evaluators reports itself.
        """
        if isinstance(error, AssertionError) or (isinstance(error, FunctionError) and error.kind == "assertion"):
            message = error.details if isinstance(error, FunctionError) else str(error)
            return Outcome(0.0, message or "assertion failed")
        if isinstance(error, FunctionError):
            text = error.text
        elif isinstance(error, TimeoutError) and self._function_for(subject).isolated:
            text = f"it took longer than {self._limit_s(subject):g} s and was ended"
        elif isinstance(error, WorkerDied | TooMuchReturned):
            text = str(error)
        elif self.on_error == "fail":
            text = error_text(error)
        else:
            raise error
        if self.on_error == "fail":
            return apply_error_policy(Outcome(None, text), self.on_error)
        return Outcome(None, f"evaluator failed: {text}")

    def _outcome(self, value: Any) -> Outcome:
        return apply_error_policy(self._outcome_of(value), self.on_error)

    def _outcome_of(self, value: Any) -> Outcome:
        if self.value is None or value is None or isinstance(value, Outcome | OutcomeFields):
            return as_outcome(value)
        return value_outcome(value, self.threshold)

    def _function_for(self, subject: Subject) -> UserFunction:
        return self._function(subject.folder, subject.isolation)

    def _function(self, folder: Path, default: Isolation) -> UserFunction:
        isolation = self.isolation or default
        if self.value is not None and not self.value.startswith(FILE_PREFIX):
            return UserFunction(_CODE, Path(), "value", isolation)
        name, home = self._named(folder)
        return UserFunction(name, home, "value" if self.function is None else "function", isolation)

    def _named(self, folder: Path) -> tuple[str, Path]:
        """The function as `module:function`, and the folder that its module is looked for in."""
        if self.function is not None:
            return self.function, folder
        path, name = named_function(self.value or "", folder)
        return f"{path.stem}:{name or DEFAULT_FUNCTION}", path.parent

    def _call(self, subject: Subject) -> tuple[WorkerPool | None, FunctionCall]:
        """The workers that call the function, None where it is called here, and its arguments."""
        function = self._function_for(subject)
        pool = function.pool(shared=False) if function.isolated else None
        reference = function.reference
        if self.value is not None and not self.value.startswith(FILE_PREFIX):
            positional = self.value, subject.output, check_context(subject, self.config)
            return pool, FunctionCall(reference, positional, as_score=True)
        named = self._arguments_of(subject, [name for name, _ in function.facts(pool).parameters])
        return pool, FunctionCall(reference, (), named, as_score=True)

    def _arguments_of(self, subject: Subject, parameters: Sequence[str]) -> dict[str, Any]:
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
        if "context" in parameters:
            available = {"context": check_context(subject, self.config), **available}
        return {name: available[name] for name in parameters if name in available}


def _call_here(function: UserFunction, call: FunctionCall) -> Any:
    return resolve_awaitable(function.here(*call.positional, **call.keywords))


def _outcome_from(
    value: Any, reason: Any, findings: Any, details: Any, members: Any, passes: Any, *failure: Any
) -> Outcome:
    """Return the outcome of these fields. Raises what another number of fields raises."""
    return Outcome(
        float(value) if value in _NOT_FINITE else value,
        reason,
        tuple(Finding(*finding) for finding in findings),
        details,
        tuple(SubScore(*member) for member in members),
        passes,
        *failure,
    )


def as_outcome(value: Any) -> Outcome:
    """Convert a function's result to an outcome. Raises TypeError for an unsupported type."""
    if isinstance(value, OutcomeFields):
        return _outcome_from(*value.fields)
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
