"""One test of an eval file → Case, including the fields inherited from its suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eval_pipeline.errors import InputError, nearest
from eval_pipeline.formats.agentv import settings
from eval_pipeline.formats.agentv.documents import RawTest
from eval_pipeline.formats.agentv.evaluators import (
    checking_evaluators,
    default_grader,
    listed_under,
    read_evaluators,
    reads_criteria,
)
from eval_pipeline.formats.agentv.field_hints import RENAMED, rename
from eval_pipeline.formats.agentv.load_context import LoadContext
from eval_pipeline.formats.agentv.messages import read_expected, read_messages, with_files
from eval_pipeline.formats.agentv.preprocessors import with_preprocessors
from eval_pipeline.formats.agentv.turns import conversation_evaluators, is_conversation, read_conversation
from eval_pipeline.formats.agentv.variables import TooLong, left_literal
from eval_pipeline.formats.agentv.workspace import read_case_workspace
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.diagnostics import first_of_each
from eval_pipeline.parsing.fields import NOTHING, FieldCursor, Map, kind
from eval_pipeline.suites.case_formats import claiming
from eval_pipeline.suites.fields import CASE
from eval_pipeline.suites.incomplete import read_incomplete
from eval_pipeline.suites.model import Case, EvaluatorSpec, Message
from eval_pipeline.suites.simulation_fields import (
    greeting,
    read_difficulty,
    read_mocks,
    read_state,
    read_status,
    read_user,
)
from eval_pipeline.suites.solutions import read_solution
from eval_pipeline.suites.triggers import read_triggers
from eval_pipeline.suites.workspace import WorkspaceSpec

_EVALUATED_BY = ("criteria", "expected_output", "assertions")
_ON_DEPENDENCY_FAILURE = ("skip", "fail", "run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """Fields that the tests of a suite inherit. `templated` has the fields with variables to replace."""

    input: tuple[Message, ...] = ()
    input_files: tuple[str, ...] = ()
    evaluators: tuple[EvaluatorSpec, ...] = ()
    grader: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Map = field(default_factory=dict)
    variables: Map = field(default_factory=dict)
    workspace: WorkspaceSpec | None = None
    preprocessors: tuple[Map, ...] = ()
    templated: Map | None = None
    cursor: FieldCursor


@dataclass(frozen=True, slots=True)
class Test:
    """A test being read: its mapping, its location, its inherited fields."""

    __test__ = False  # keeps pytest from collecting the class

    raw: Map
    cursor: FieldCursor
    suite: Inherited
    context: LoadContext

    @property
    def execution(self) -> Map:
        return settings.read_execution(self.raw, self.cursor) if "execution" in self.raw else NOTHING

    @property
    def inherits(self) -> bool:
        if "execution" not in self.raw:
            return True
        return fields.flag(self.execution, "skip_defaults", self.cursor.at("execution")) is not True


def read_case(test: RawTest, suite: Inherited, context: LoadContext) -> Case:
    """Return the case of a test, also of one in another format. Raises InputError with all its problems."""
    other = claiming(test.raw)
    if other is not None:
        case = other.read(test.raw, test.cursor, context.diagnostics)
        return replace(case, origin=_origin(test.cursor, context))
    reading = _begin(test, suite, context)
    warn_unknown(reading.raw, CASE.names | _reported_as_missing(reading), test.cursor, context, "test")
    _warn_of_criteria(reading)
    try:
        values = {name: read(reading) for name, read in _ALWAYS.items()}
        for key in _WHEN_GIVEN.keys() & reading.raw.keys():
            values.update(_WHEN_GIVEN[key](reading))
    except InputError:
        raise _everything_wrong(reading) from None
    case = Case(**values, line=test.cursor.line, origin=_origin(test.cursor, context))
    _warn_of_unread_criteria(case, reading)
    return case


def case_id(raw: Any, cursor: FieldCursor) -> str:
    """The id of a test. Raises InputError."""
    value = raw.get("id")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**40:
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise cursor.error(f"every test needs an id (a text), got {kind(value)}", "id")
    return str(value.strip())


def warn_unknown(raw: Map, known: frozenset[str], cursor: FieldCursor, context: LoadContext, what: str) -> None:
    """Warn of unknown fields."""
    if known.issuperset(raw):
        return
    for key in raw:
        if key not in known:
            context.warn_of_unknown(str(key), known, cursor, f"{what} field")


def _begin(test: RawTest, suite: Inherited, context: LoadContext) -> Test:
    raw = test.raw
    if isinstance(raw, InputError):
        raise raw
    if not isinstance(raw, Mapping):
        raise test.cursor.error(f"expected a test (a mapping), got {kind(raw)}")
    variables = {**suite.variables, **fields.mapping(raw, "vars", test.cursor)} if "vars" in raw else suite.variables
    if not variables:
        return Test(raw, test.cursor, suite, context)
    context.has_filled = True
    for name in sorted(left_literal(raw, variables) | left_literal(suite.templated or {}, variables)):
        problem = (
            f"{{{{ {name} }}}} in an evaluator is what graders call theirs; name the column otherwise than '{name}'"
        )
        context.diagnostics.add(problem, test.cursor.place)
    try:
        raw = context.variables.test(raw, variables)
        suite = _with_variables_filled_in(suite, variables, context)
    except TooLong as error:
        raise test.cursor.error(str(error), "vars") from None
    return Test(raw, test.cursor, suite, context)


def _with_variables_filled_in(suite: Inherited, variables: Map, context: LoadContext) -> Inherited:
    if suite.templated is None:
        return suite
    document = context.variables.shared(suite.templated, variables)
    return replace(suite, **{name: read(document, suite.cursor, context) for name, read in SHARED.items()})


def _shared_input(document: Map, cursor: FieldCursor, context: LoadContext) -> tuple[Message, ...]:
    return read_messages(document["input"], cursor.at("input"), context) if document.get("input") is not None else ()


def _shared_files(document: Map, cursor: FieldCursor, context: LoadContext) -> tuple[str, ...]:
    return fields.texts(document, "input_files", cursor)


SHARED: Mapping[str, Callable[[Map, FieldCursor, LoadContext], Any]] = {
    "input": _shared_input,
    "input_files": _shared_files,
    "evaluators": read_evaluators,
}
"""The fields of a suite that its tests inherit and that may contain variables."""


def _everything_wrong(test: Test) -> InputError:
    errors: list[InputError] = []
    given = [read for key, read in _WHEN_GIVEN.items() if key in test.raw]
    with checking_evaluators(test.context):
        for read in (*_ALWAYS.values(), *given):
            try:
                read(test)
            except InputError as error:
                errors.append(error)
    return first_of_each(errors)


def _origin(cursor: FieldCursor, context: LoadContext) -> Any:
    path = cursor.source.path
    return None if path is context.path or path == context.path else path


def _id(test: Test) -> str:
    return case_id(test.raw, test.cursor)


def _meant(names: Sequence[str], raw: Map) -> tuple[str, str] | None:
    """Return the first of these names for which a field of a test is a misspelling or another name, and that field."""
    other = [str(key) for key in raw if key not in CASE.names]
    for name in names:
        key = next((key for key in other if RENAMED.get(key) == name), None) or nearest(name, other)
        if key is not None:
            return name, key
    return None


def _missing(test: Test, problem: str, names: Sequence[str]) -> InputError:
    """The error of a test without any of these fields, at the field that is meant to be one, if there is one."""
    name, key = _meant(names, test.raw) or (None, None)
    cure = rename(name, key) if name is not None and key is not None else ""
    place = key or (names[0] if len(names) == 1 else None)
    return test.cursor.error(f"test '{_name(test.raw)}' {problem}{cure}", *([place] if place else []))


def _reported_as_missing(test: Test) -> frozenset[str]:
    """Return the unknown fields that the error of a missing one names; they need no warning of their own."""
    missing = [*([] if _has_input(test) else [("input",)]), *([] if _is_evaluated(test) else [_EVALUATED_BY])]
    meant = (_meant(names, test.raw) for names in missing)
    return frozenset(each[1] for each in meant if each is not None)


def _has_input(test: Test) -> bool:
    raw = test.raw
    has_turns = raw.get("user") is not None or not raw.keys().isdisjoint(("input", "turns", "mode"))
    return has_turns or bool(test.suite.input and "vars" in raw)


def _is_evaluated(test: Test) -> bool:
    raw = test.raw
    given = any(raw.get(key) is not None for key in (*_EVALUATED_BY, "expected_outcome", "rubrics", "turns", "user"))
    return given or listed_under(raw) is not None or bool(test.suite.evaluators)


def _input(test: Test) -> tuple[Message, ...]:
    raw, cursor = test.raw, test.cursor
    prefix = test.suite.input if test.inherits else ()
    if "input" not in raw:
        if raw.get("user") is not None or is_conversation(raw, cursor) or (prefix and "vars" in raw):
            return prefix + greeting(raw.get("user"))
        raise _missing(test, "has no input", ("input",))
    messages = read_messages(raw["input"], cursor.at("input"), test.context)
    files = fields.texts(raw, "input_files", cursor) if raw.get("input_files") is not None else _inherited_files(test)
    messages = with_files(messages, files, _files_place(test), test.context) if files else messages
    return prefix + messages + greeting(raw.get("user"))


def _inherited_files(test: Test) -> tuple[str, ...]:
    return test.suite.input_files if test.inherits else ()


def _files_place(test: Test) -> FieldCursor:
    return (test.cursor if test.raw.get("input_files") is not None else test.suite.cursor).at("input_files")


def _criteria(test: Test) -> str | None:
    raw, cursor = test.raw, test.cursor
    criteria = fields.text(raw, "criteria", cursor)
    older = fields.text(raw, "expected_outcome", cursor)
    given = (text for text in (criteria, older) if text is not None and text.strip())
    return next(given, None)


def _expected_output(test: Test) -> dict[str, Any]:
    raw = test.raw["expected_output"]
    return {"expected_output": read_expected(raw, test.cursor.at("expected_output"), test.context)}


def _evaluators(test: Test) -> tuple[EvaluatorSpec, ...]:
    return with_preprocessors(_listed_evaluators(test), test.suite.preprocessors)


def _listed_evaluators(test: Test) -> tuple[EvaluatorSpec, ...]:
    raw, cursor = test.raw, test.cursor
    specs = read_evaluators(raw, cursor, test.context)
    if test.inherits:
        specs += test.suite.evaluators
    if raw.get("turns") is not None:
        return conversation_evaluators(raw, cursor, test.context, specs, test.suite.grader)
    if specs:
        return specs
    if _criteria(test) or raw.get("expected_output") is not None:
        return (default_grader(test.suite.grader),)
    raise _missing(test, f"needs {', '.join(_EVALUATED_BY[:-1])} or {_EVALUATED_BY[-1]}", _EVALUATED_BY)


def _tags(test: Test) -> tuple[str, ...]:
    tags = fields.texts(test.raw, "tags", test.cursor)
    return tuple(dict.fromkeys(test.suite.tags + tags)) if tags else test.suite.tags


def _metadata(test: Test) -> Map:
    metadata = fields.mapping(test.raw, "metadata", test.cursor)
    if not metadata:
        return test.suite.metadata
    return test.context.shared({**test.suite.metadata, **metadata} if test.suite.metadata else metadata)


def _execution(test: Test) -> dict[str, Any]:
    execution, at = test.execution, test.cursor.at("execution")
    settings.warn_of_the_suites_own(execution, at, test.context)
    return {
        "threshold": fields.share(execution, "threshold", at),
        "runners": settings.runners(execution, at) or None,
        "cache": fields.flag(execution, "cache", at),
        "stop_on_error": fields.flag(execution, "fail_on_error", at),
        "budget_usd": settings.budget_of(execution, at),
        **settings.repeat_of(execution, at, test.context, settings.IN_EXECUTION),
    }


def _workspace(test: Test) -> WorkspaceSpec | None:
    raw = test.raw.get("workspace")
    if raw is None:
        return test.suite.workspace
    path = (*test.cursor.path, "workspace")
    return read_case_workspace(raw, path, test.cursor.source, test.context.workspaces, test.suite.workspace)


def _conversation(test: Test) -> dict[str, Any]:
    return {"conversation": read_conversation(test.raw, test.cursor, test.context)}


def _depends_on(test: Test) -> dict[str, Any]:
    raw, cursor = test.raw, test.cursor
    failure = fields.choice(raw, "on_dependency_failure", cursor, _ON_DEPENDENCY_FAILURE)
    names = fields.texts(raw, "depends_on", cursor)
    return {"depends_on": tuple(dict.fromkeys(names)), "on_dependency_failure": failure or "skip"}


def _solution(test: Test) -> dict[str, Any]:
    folder = test.context.workspaces.folder
    return {"solution": read_solution(test.raw["solution"], test.cursor.at("solution"), folder)}


def _should_trigger(test: Test) -> dict[str, Any]:
    try:
        return {"should_trigger": read_triggers(test.raw["should_trigger"])}
    except ValueError as error:
        raise test.cursor.error(str(error), "should_trigger") from None


_ALWAYS: Mapping[str, Callable[[Test], Any]] = {
    "id": _id,
    "input": _input,
    "criteria": _criteria,
    "evaluators": _evaluators,
    "tags": _tags,
    "metadata": _metadata,
    "workspace": _workspace,
}
_WHEN_GIVEN: Mapping[str, Callable[[Test], dict[str, Any]]] = {
    "expected_output": _expected_output,
    "execution": _execution,
    "repeat": lambda test: {**settings.repeat_of(test.raw, test.cursor, test.context)},
    "timeout_s": lambda test: {"timeout_s": fields.positive(test.raw, "timeout_s", test.cursor)},
    "max_steps": lambda test: {"max_steps": fields.count(test.raw, "max_steps", test.cursor)},
    "expected_fail": lambda test: {"expected_fail": fields.flag(test.raw, "expected_fail", test.cursor) or False},
    "incomplete": lambda test: {"incomplete": read_incomplete(test.raw, test.cursor)},
    "mode": _conversation,
    "turns": _conversation,
    "depends_on": _depends_on,
    "on_dependency_failure": _depends_on,
    "conversation_id": lambda test: {"conversation_id": fields.text(test.raw, "conversation_id", test.cursor)},
    "user": lambda test: {"user": read_user(test.raw["user"], test.cursor.at("user"))},
    "mocks": lambda test: {"mocks": read_mocks(test.raw["mocks"], test.cursor.at("mocks"))},
    "state": lambda test: {"state": read_state(test.raw["state"], test.cursor.at("state"))},
    "solution": _solution,
    "should_trigger": _should_trigger,
    "difficulty": lambda test: {"difficulty": read_difficulty(test.raw, test.cursor)},
    "status": lambda test: {"status": read_status(test.raw, test.cursor)},
    "suite": lambda test: {"group": fields.text(test.raw, "suite", test.cursor)},
}


def _warn_of_criteria(test: Test) -> None:
    raw, cursor = test.raw, test.cursor
    if isinstance(raw.get("criteria"), str) and not raw["criteria"].strip():
        test.context.diagnostics.add("criteria are empty", lambda: cursor.place("criteria"), kind="empty criteria")
    if raw.get("expected_outcome") is not None:
        problem = "an older spelling of 'criteria'"
        test.context.diagnostics.add(problem, lambda: cursor.place("expected_outcome"), kind="expected_outcome")


def _warn_of_unread_criteria(case: Case, test: Test) -> None:
    explicit = listed_under(test.raw) is not None or test.suite.evaluators
    if case.criteria and explicit and not any(map(reads_criteria, case.evaluators)):
        problem = (
            "nothing that evaluates this test reads its criteria; add an llm-grader or rubrics, or leave the criteria "
            "out if they are only a note"
        )
        test.context.diagnostics.add(problem, lambda: test.cursor.place("criteria"), kind="unread criteria")


def _name(raw: Map) -> str:
    value = raw.get("id", "?")
    return str(value) if isinstance(value, (str, float, bool)) else "?"
