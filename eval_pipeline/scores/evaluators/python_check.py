"""`python-check`: the check of a case in a Python suite, called in a worker process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from eval_pipeline.errors import InputError, SourceLocation, error_text
from eval_pipeline.executions.function_calls import FunctionCall, FunctionError, TooMuchReturned, WorkerDied
from eval_pipeline.executions.user_functions import installed
from eval_pipeline.executions.workers import WorkerPool, pool_for
from eval_pipeline.failures import ASSERT_HOOK, failure_class
from eval_pipeline.parsing.data_files import data_fingerprints
from eval_pipeline.parsing.file_search import is_file
from eval_pipeline.parsing.imports import cached_fingerprint, import_fingerprints, import_roots
from eval_pipeline.parsing.source import show_path
from eval_pipeline.parsing.user_modules import FunctionReference, function_reference
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Limit, Text
from eval_pipeline.scores.model import Finding, Outcome, Subject, Verdict
from eval_pipeline.scores.programs import suite_module

TIME_LIMIT_S = 60.0
_LIMITS = f"the limit is timeout_ms of the case, {TIME_LIMIT_S:g} s without one"
SHORTEST_LIMIT_S = 1.0
"""Of a check whose case has a shorter limit: an agent may end before a process has answered."""


def module_pool(file: Path, data: Iterable[Path] | None = None) -> tuple[WorkerPool, FunctionReference]:
    """Return the workers of a Python suite and the reference of its module: other workers after an edit of the module,
    of what it imports from its folder, or of its `data` files. Raises InputError."""
    reference = function_reference(f"{file.stem}:suite", file.parent, "file")
    if reference is None or reference.private is None or reference.file is None:
        raise InputError(f"no such file: {show_path(file)}", SourceLocation(field="file"))
    return pool_for(reference, shared=False, files=data), reference


def module_call(function: str, reference: FunctionReference, *arguments: Any) -> FunctionCall:
    """Return the call of a function of ours in a worker that has the module of a suite, or loads it."""
    module = (reference.private, reference.file, reference.folder)
    return FunctionCall(installed(f"{suite_module.__name__}:{function}"), (*module, *arguments))


@EVALUATORS.register("python-check")
@dataclass(frozen=True, slots=True, kw_only=True)
class PythonCheck:
    """Call `check(report, ctx)` of the case with the same id in the Python suite `file`.

    A check that raises an AssertionError scores 0 with its message; one that raises anything else, exits, crashes or
    takes longer than `timeout_s` seconds (the timeout of its case, 60 without one) leaves the score without a value.
    `classifies` is whether the case has a
    function `classify_failure`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ("id",)
    sees_workspace: ClassVar[bool] = True
    file: Text
    timeout_s: Annotated[Limit, Field(gt=0)] | None = None
    classifies: bool = False

    def content(self, folder: Path) -> Mapping[str, str]:
        """Return the fingerprints of the module, of what it imports from its folder and of the data files that these
        name. Raises InputError."""
        path = folder / self.file
        if not is_file(path):
            raise InputError(f"no such file: {show_path(path)}", SourceLocation(field="file"))
        roots = import_roots(path.parent)
        read = data_fingerprints(path, roots) | import_fingerprints([path], roots)
        return {**read, self.file: cached_fingerprint(path)}

    def evaluate(self, subject: Subject) -> Outcome:
        try:
            pool, call = self._call(subject)
            return _as_outcome(pool.call_and_wait(call, self._limit_s(subject)))
        except Exception as error:  # noqa: BLE001 — the boundary to the author's code
            return self._crashed(error, subject)

    async def evaluate_apart(self, subject: Subject) -> Outcome:
        """Return what `evaluate` returns; meanwhile other executions go on."""
        try:
            pool, call = self._call(subject)
            return _as_outcome(await pool.call(call, self._limit_s(subject)))
        except Exception as error:  # noqa: BLE001 — the boundary to the author's code
            return self._crashed(error, subject)

    def reclassify(self, subject: Subject, verdict: Verdict) -> Verdict:
        """Return the verdict of an execution that did not complete with the class that the case gives it."""
        if not self.classifies or verdict.failure_class is None:
            return verdict
        fields = {
            "class_id": verdict.failure_class,
            "class_label": verdict.failure_label,
            "failure_origin": verdict.failure_class,
            "error_name": failure_class(verdict.failure_class).label,
            "message": verdict.reason,
            "duration_ms": subject.report.duration_ms,
        }
        try:
            pool, reference = module_pool(subject.folder / self.file)
            arguments = (subject.case.id, fields, subject.report)
            answer = pool.call_and_wait(module_call("classify_case", reference, *arguments), self._limit_s(subject))
        except Exception as error:  # noqa: BLE001 — the boundary to the author's code
            return replace(verdict, reason=f"{verdict.reason}; {self._crashed(error, subject).reason}")
        id_, label = _tag(answer)
        note = f"; {answer['note']}" if answer.get("note") else ""
        if id_ is None:
            return replace(verdict, reason=verdict.reason + note)
        return replace(verdict, failure_class=id_, failure_label=label or failure_class(id_).label)

    def _limit_s(self, subject: Subject) -> float:
        """Return the time limit of a check: its own, that of its case, or 60 s."""
        of_case = subject.case.timeout_s
        usual = TIME_LIMIT_S if of_case is None else max(of_case, SHORTEST_LIMIT_S)
        return self.timeout_s or usual

    def _call(self, subject: Subject) -> tuple[WorkerPool, FunctionCall]:
        pool, reference = module_pool(subject.folder / self.file)
        facts = {"case_id": subject.case.id, "workspace": subject.workspace}
        return pool, module_call("check_case", reference, subject.case.id, subject.report, facts)

    def _crashed(self, error: Exception, subject: Subject) -> Outcome:
        """Return the outcome of a check that did not end by itself."""
        texts: Mapping[type[Exception], Any] = {
            FunctionError: partial(getattr, error, "text", ""),
            TimeoutError: lambda: f"it took longer than {self._limit_s(subject):g} s and was ended; {_LIMITS}",
            WorkerDied: partial(str, error),
            TooMuchReturned: partial(str, error),
        }
        kind = next((kind for kind in texts if isinstance(error, kind)), None)
        text = texts[kind]() if kind is not None else error_text(error)
        return Outcome(None, f"check crashed: {text}", failure_class=ASSERT_HOOK.id, failure_label=ASSERT_HOOK.label)


def _tag(answer: Mapping[str, Any]) -> tuple[str | None, str | None]:
    id_, label = answer.get("class") or (None, None)
    return id_, label


def _as_outcome(answer: Mapping[str, Any]) -> Outcome:
    if answer["status"] == "passed":
        return Outcome(1.0, "the check passed")
    id_, label = _tag(answer)
    reason = answer["message"] + (f"; {answer['note']}" if answer.get("note") else "")
    details = {name: answer[name] for name in ("questions", "source") if answer.get(name)}
    findings = tuple(Finding(text, False) for text in answer["failures"])
    if answer["status"] == "crashed":
        id_, label = id_ or ASSERT_HOOK.id, label if id_ else ASSERT_HOOK.label
        return Outcome(None, reason, findings, details, failure_class=id_, failure_label=label)
    return Outcome(0.0, reason, findings, details, failure_class=id_, failure_label=label)
