"""The side of a Python suite that runs in a worker: it loads the user's module, lists its cases and calls their checks.

Light, because it is imported where a check runs. What it returns is JSON. A module is loaded once per process and
version; what it prints while it is loaded is returned, what its checks print goes to standard error with their names.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from eval_pipeline.errors import did_you_mean, error_text
from eval_pipeline.parsing.module_files import importing_from, run_module
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.assertions.case_result import CaseResult, FailureError
from eval_pipeline.scores.assertions.context import AssertionContext
from eval_pipeline.scores.assertions.failed_checks import (
    LONGEST_FAILURE,
    ClassTag,
    as_tag,
    class_of,
    collecting,
    cut,
    message_of,
    questions_of,
    source_of,
    traceback_line,
)
from eval_pipeline.scores.programs.case_problems import wrong_fields
from eval_pipeline.scores.programs.labelled_output import labelled_output
from eval_pipeline.scores.programs.lenient_cases import Problems, Wrong, keeping_wrong_cases
from eval_pipeline.scores.programs.plain_asserts import RewritingLoader, rewriting_asserts
from eval_pipeline.suites.model import Case
from eval_pipeline.suites.triggers import read_triggers

Json = dict[str, Any]
SUITE = "suite"
_MOST_PRINTED = 2_000
_LONGEST_MESSAGE = 10_000
"""Of a check, in characters: several failures may make it up."""
_MOST_FAILURES = 100
"""Failures that are listed one by one, and questions about them."""
_NEVER_AWAITED = "was never awaited"
_HINT = "did you mean"
_IMPORTED = re.compile(r"cannot import name '(\w+)' from '(eval_pipeline)'")
_OPTIONS = ("workspace", "snapshots")
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_CASES: dict[str, dict[str, Case]] = {}
"""Cases by id, by the private name of their module."""
_PRINTED: dict[str, str] = {}
_WRONG: dict[str, Problems] = {}
"""Cases with wrong arguments, by the private name of their module."""


def describe_suite(private: str, file: str, folder: str) -> Json:
    """Return the cases and settings of a module, and its problems: `line`, `field` and `problem` of each.

    An error of the module itself is its only problem.
    """
    begun = private in sys.modules
    try:
        module = _module(private, file, folder)
    except BaseException as error:  # noqa: BLE001 — the boundary to the user's module: whatever it raises is a problem
        return {"cases": [], "problems": [_module_problem(error, file)], "printed": "", "loaded": True}
    cases, problems = _read_cases(module, _WRONG[private])
    _CASES[private] = {case.id: case for case in cases}
    options = {name: getattr(module, name) for name in _OPTIONS if getattr(module, name, None) is not None}
    problems += [_problem(f"expected a mapping, got {type(value).__name__}", name) for name, value in options.items()
                 if not isinstance(value, Mapping)]  # fmt: skip
    return {
        "cases": [_case_fields(case) for case in cases],
        "problems": problems,
        "printed": _PRINTED.get(private, ""),
        "loaded": not begun,
        **{name: dict(value) for name, value in options.items() if isinstance(value, Mapping)},
    }


def _module(private: str, file: str, folder: str) -> ModuleType:
    if private in sys.modules:
        return sys.modules[private]
    printed = io.StringIO()
    output = labelled_output(file), contextlib.redirect_stdout(printed)
    with importing_from(folder), rewriting_asserts(folder), output[0], output[1], keeping_wrong_cases() as wrong:
        module = run_module(private, file, RewritingLoader(private, file))
    _WRONG[private] = wrong
    _PRINTED[private] = printed.getvalue()[:_MOST_PRINTED]
    if folder not in sys.path:
        sys.path.append(folder)  # for checks that import when they are called
    return module


def _problem(problem: str, field: str | None = None, line: int | None = None, case: int | None = None) -> Json:
    return {"problem": problem, "field": field, "line": line, "case": case}


def _module_problem(error: BaseException, file: str) -> Json:
    """Return why a module cannot be loaded, with the line of the user's file."""
    if isinstance(error, SyntaxError):
        return _problem(f"is no Python: {error.msg}", None, error.lineno)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if isinstance(error, SystemExit):
        return _problem(f"exits while it is loaded (exit {error.code})", None, lines[-1] if lines else None)
    innermost = traceback_line(error.__traceback__)
    place = f" ({innermost.path}:{innermost.line})" if innermost is not None and innermost.path != file else ""
    return _problem(
        f"cannot be loaded: {_no_such_import(error) or error_text(error)}{place}", None, lines[-1] if lines else None
    )


def _no_such_import(error: BaseException) -> str | None:
    """Return what is wrong with the import of a name that the public face does not have, with the nearest one."""
    found = _IMPORTED.match(str(error)) if isinstance(error, ImportError) else None
    if found is None:
        return None
    face = sys.modules[found[2]]
    return f"{found[2]} has no '{found[1]}'{did_you_mean(found[1], face.__all__)}"


def _read_cases(module: ModuleType, wrong: Problems) -> tuple[list[Case], list[Json]]:
    listed = getattr(module, SUITE, None)
    if isinstance(listed, Mapping):
        listed = list(listed.values())
    if not isinstance(listed, Sequence) or isinstance(listed, str | bytes):
        return [], [_problem(f"expected a list or a mapping of Case, got {type(listed).__name__}", SUITE)]
    wrong_arguments = {id(case): each for case, each in wrong}
    cases: list[Case] = []
    problems: list[Json] = []
    lines: dict[str, int | None] = {}
    for number, case in enumerate(listed):
        found = list(_problems_of(case, wrong_arguments.get(id(case), []), lines))
        line = getattr(case, "line", None)
        place = f"{SUITE}[{number}]"
        problems += [_problem(text, None if name is None else f"{place}{name and '.'}{name}", line, number)
                     for name, text in found]  # fmt: skip
        if not found:
            cases.append(case)
            lines[case.id] = case.line
    return cases, problems


def _problems_of(case: Any, wrong: Wrong, lines: Mapping[str, int | None]) -> Iterator[tuple[str | None, str]]:
    """Yield field and problem of what is wrong with a case; `wrong` are its arguments that are."""
    if not isinstance(case, Case):
        yield "", f"expected a Case, got {type(case).__name__}"
        return
    yield from wrong
    hints = [text for name, text in wrong if name is None]
    for name, problem in wrong_fields(case):
        if not any(name == other for other, _ in wrong) and not any(f"'{name}'?" in hint for hint in hints):
            yield name, problem
    if isinstance(case.id, str) and case.id in lines:
        yield "id", f"'{case.id}' is the id of the case in line {lines[case.id]}, too"


def _case_fields(case: Case) -> Json:
    """Return the fields of a case that JSON can hold; tags once each, in order."""
    return {
        "id": case.id,
        "input": [[message.role, message.content] for message in case.input],
        "tags": list(dict.fromkeys(tag.strip() for tag in case.tags)),
        "criteria": case.criteria,
        "metadata": dict(case.metadata),
        "timeout_s": case.timeout_s,
        "max_steps": case.max_steps,
        "expected_fail": case.expected_fail,
        "threshold": case.threshold,
        "runners": None if case.runners is None else list(case.runners),
        "repetitions": case.repetitions,
        "on_failure": case.on_failure,
        "should_trigger": read_triggers(case.should_trigger),
        "incomplete": case.incomplete,
        "line": case.line,
        "checks": case.check is not None,
        "classifies": case.classify_failure is not None,
        "evaluators": [
            [spec.type, spec.name, spec.weight, spec.minimum, spec.negate, spec.failure_class, dict(spec.config)]
            for spec in case.evaluators
        ],
    }


# Checks.


def check_case(private: str, file: str, folder: str, case_id: str, report: SessionReport, facts: Json) -> Json:
    """Call the check of a case, and return its outcome: `status` (passed, failed or crashed), `message`, `class`,
    `questions`, `source` and `failures`."""
    case = _case(private, file, folder, case_id)
    started = time.perf_counter()
    whole = report if report.final_output is not None else replace(report, final_output="")
    with labelled_output(file, case_id):
        error = _checked(case, whole, AssertionContext(whole, **facts))
        if error is None:
            return {"status": "passed"}
        failed = isinstance(error, AssertionError)
        tag = class_of(error)
        outcome = _outcome(error, "failed" if failed else "crashed", tag)
        usual = ClassTag("assertion", "Assertion failure") if failed else ClassTag("assert-hook", "Assert hook crash")
        result = CaseResult(
            case_id=case.id, passed=False, status="failed", failure_origin=usual.id, failure_class=tag or usual,
            error=FailureError(type(error).__name__, outcome["message"]), report=whole,
            duration_ms=(time.perf_counter() - started) * 1000, runner=facts.get("runner"),
        )  # fmt: skip
        return {**outcome, **_reclassified(case, result)}


def classify_case(private: str, file: str, folder: str, case_id: str, fields: Json, report: SessionReport) -> Json:
    """Call `classify_failure` of a case whose execution failed before its check; return `class` and `note`."""
    case = _case(private, file, folder, case_id)
    tag = ClassTag(fields.pop("class_id"), fields.pop("class_label"))
    error = FailureError(fields.pop("error_name"), fields.pop("message"))
    result = CaseResult(case_id=case.id, passed=False, status="failed", failure_class=tag, error=error, report=report,
                        **fields)  # fmt: skip
    with labelled_output(file, case_id):
        return _reclassified(case, result)


def _case(private: str, file: str, folder: str, case_id: str) -> Case:
    """Return a case of a module, which is loaded where it is not. Raises LookupError."""
    if private not in _CASES:
        cases, _ = _read_cases(_module(private, file, folder), _WRONG[private])
        _CASES[private] = {case.id: case for case in cases}
    try:
        return _CASES[private][case_id]
    except KeyError:
        known = list(_CASES[private])
        raise LookupError(f"the module has no case '{case_id}' now; there are: {', '.join(known[:20])}") from None


def _checked(case: Case, report: SessionReport, context: AssertionContext) -> BaseException | None:
    """Call a check; return what it raised."""
    assert case.check is not None  # a case without one has no evaluator of this kind
    try:
        with collecting(), _awaited_all():
            _finish(case.check(*_taken(case.check, report, context)))
    except (Exception, SystemExit) as error:  # noqa: BLE001 — the boundary to the user's check
        return error
    return None


def _taken(check: Callable[..., Any], *arguments: Any) -> Sequence[Any]:
    """Return as many of the arguments as a check has parameters for: `check(report)` and `check()` are checks, too."""
    try:
        parameters = inspect.signature(check).parameters.values()
    except (TypeError, ValueError):  # a callable that does not say what it takes
        return arguments
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return arguments
    return arguments[: sum(parameter.kind in _BY_POSITION for parameter in parameters)]


@contextlib.contextmanager
def _awaited_all() -> Iterator[None]:
    """Raise TypeError for a coroutine that a check created and never awaited: what it checks was not checked."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RuntimeWarning)
        yield
    lost = [str(each.message) for each in caught if _NEVER_AWAITED in str(each.message)]
    if lost:
        raise TypeError(f"{lost[0]}; write `async def check` and `await` it")


def _finish(value: Any) -> None:
    """Carry out what a check returned, where that has to be awaited. Raises TypeError for a generator, which never
    ran."""
    if hasattr(value, "__await__"):
        import asyncio  # noqa: PLC0415 — takes 40 ms, and most checks are synchronous

        async def awaited() -> Any:
            return await value

        value = asyncio.run(awaited())
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        name = value.__qualname__.rpartition(".")[2]
        raise TypeError(f"the check returned the generator '{name}', which never ran; write the check without `yield`")


def _outcome(error: BaseException, status: str, tag: ClassTag | None) -> Json:
    source = source_of(error)
    if status == "failed":
        message = message_of(error) or _unsaid(source)
    else:
        message = f"check crashed{_place(source)}: {error_text(error)}{_near(error)}"
    failures: Sequence[AssertionError] = getattr(error, "failures", ())
    most = _LONGEST_MESSAGE if failures else LONGEST_FAILURE
    return {
        "status": status,
        "message": cut(message, most),
        "class": None if tag is None else list(tag),
        "questions": [
            {"question": asked.text, "source": asked.source and f"{asked.source.path}:{asked.source.line}"}
            for asked in questions_of(error)[:_MOST_FAILURES]
        ],
        "source": None if source is None else list(source),
        "failures": [
            cut(message_of(failure) or _unsaid(source_of(failure)), LONGEST_FAILURE)
            for failure in failures[:_MOST_FAILURES]
        ],
    }


def _place(source: Any) -> str:
    return f" ({source.path.rpartition('/')[2]}:{source.line})" if source is not None else ""


def _near(error: BaseException) -> str:
    """Return the nearest name that a value has where an attribute of another name was read."""
    if not isinstance(error, AttributeError) or not error.name or error.obj is None or _HINT in str(error):
        return ""
    name = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", error.name).lower()
    return did_you_mean(name, [each for each in dir(error.obj) if not each.startswith("_")])


def _unsaid(source: Any) -> str:
    """Return the line of the user's file in place of the message of a plain assert."""
    if source is None:
        return "assertion failed"
    import linecache  # noqa: PLC0415 — only where an assert has no message

    line = linecache.getline(source.path, source.line).strip()
    return f"assertion failed: {line}" if line else "assertion failed"


def _reclassified(case: Case, result: CaseResult) -> Json:
    """Return the class that `classify_failure` gives to a result; one that raises changes nothing but the message."""
    classify: Callable[[CaseResult], Any] | None = case.classify_failure
    if classify is None:
        return {}
    try:
        value = classify(result)
        return {} if value is None else {"class": list(as_tag(value))}
    except (Exception, SystemExit) as error:  # noqa: BLE001 — the boundary to the user's function
        return {"note": f"classify_failure raised {error_text(error)}"}
