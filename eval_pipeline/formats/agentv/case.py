"""One test of an eval file → Case, with what it inherits from its suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from eval_pipeline.errors import InputError, did_you_mean
from eval_pipeline.formats.agentv import settings
from eval_pipeline.formats.agentv.documents import RawTest
from eval_pipeline.formats.agentv.evaluators import default_grader, listed_under, read_evaluators, reads_criteria
from eval_pipeline.formats.agentv.load_context import Desk
from eval_pipeline.formats.agentv.messages import read_expected, read_messages, with_files
from eval_pipeline.formats.agentv.turns import conversation_evaluators, is_conversation, read_conversation
from eval_pipeline.formats.agentv.variables import TooLong
from eval_pipeline.formats.agentv.workspace import read_case_workspace
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.diagnostics import first_of_each
from eval_pipeline.parsing.fields import NOTHING, Map, Spot, kind
from eval_pipeline.suites.model import Case, EvaluatorSpec, Message
from eval_pipeline.suites.workspace import WorkspaceSpec

KEYS = frozenset({
    "id", "criteria", "expected_outcome", "input", "input_files", "expected_output", "execution", "workspace",
    "metadata", "tags", "note", "expected_fail", "timeout_s", "conversation_id", "suite", "vars", "depends_on",
    "on_dependency_failure", "mode", "turns", "on_turn_failure", "window_size", "aggregation", "repeat", "rubrics",
    "assertions", "assert", "evaluators",
})  # fmt: skip
NOT_YET = frozenset({"preprocessors"})
_ON_DEPENDENCY_FAILURE = ("skip", "fail", "run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """What the tests of a suite inherit. `templated` is the suite's own text, when it has variables to be filled in."""

    input: tuple[Message, ...] = ()
    input_files: tuple[str, ...] = ()
    evaluators: tuple[EvaluatorSpec, ...] = ()
    grader: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Map = field(default_factory=dict)
    variables: Map = field(default_factory=dict)
    workspace: WorkspaceSpec | None = None
    templated: Map | None = None
    spot: Spot


@dataclass(frozen=True, slots=True)
class Test:
    """A test being read: its mapping, where it stands, what it inherits."""

    __test__ = False  # no test class of pytest's

    raw: Map
    spot: Spot
    suite: Inherited
    desk: Desk

    @property
    def execution(self) -> Map:
        return settings.read_execution(self.raw, self.spot) if "execution" in self.raw else NOTHING

    @property
    def inherits(self) -> bool:
        if "execution" not in self.raw:
            return True
        return fields.flag(self.execution, "skip_defaults", self.spot.at("execution")) is not True


def read_case(test: RawTest, suite: Inherited, desk: Desk) -> Case:
    """The case of a test. Raises InputError, which says everything that is wrong with it."""
    reading = _begin(test, suite, desk)
    warn_unknown(reading.raw, KEYS, test.spot, desk, "test")
    _warn_of_criteria(reading)
    try:
        values = {name: read(reading) for name, read in _ALWAYS.items()}
        for key in _WHEN_GIVEN.keys() & reading.raw.keys():
            values.update(_WHEN_GIVEN[key](reading))
    except InputError:
        raise _everything_wrong(reading) from None
    case = Case(**values, line=test.spot.line, origin=_origin(test.spot, desk))
    _warn_of_unread_criteria(case, reading)
    return case


def case_id(raw: Any, spot: Spot) -> str:
    """The id of a test. Raises InputError."""
    value = raw.get("id")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**40:
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise spot.error(f"every test needs an id (a text), got {kind(value)}", "id")
    return str(value.strip())


def warn_unknown(raw: Map, known: frozenset[str], spot: Spot, desk: Desk, what: str) -> None:
    """Says which fields nobody reads. Raises InputError for one that would change what is measured."""
    if known.issuperset(raw):
        return
    for key in raw:
        if key in NOT_YET:
            raise spot.error(f"'{key}' is not supported yet", key)
        if key not in known:
            desk.warn_of_unknown(str(key), known, spot, f"{what} field")


def _begin(test: RawTest, suite: Inherited, desk: Desk) -> Test:
    raw = test.raw
    if isinstance(raw, InputError):
        raise raw
    if not isinstance(raw, Mapping):
        raise test.spot.error(f"expected a test (a mapping), got {kind(raw)}")
    variables = {**suite.variables, **fields.mapping(raw, "vars", test.spot)} if "vars" in raw else suite.variables
    if not variables:
        return Test(raw, test.spot, suite, desk)
    desk.has_filled = True
    try:
        raw = desk.variables.test(raw, variables)
        suite = _with_variables_filled_in(suite, variables, desk)
    except TooLong as error:
        raise test.spot.error(str(error), "vars") from None
    return Test(raw, test.spot, suite, desk)


def _with_variables_filled_in(suite: Inherited, variables: Map, desk: Desk) -> Inherited:
    if suite.templated is None:
        return suite
    document = desk.variables.shared(suite.templated, variables)
    return replace(suite, **{name: read(document, suite.spot, desk) for name, read in SHARED.items()})


def _shared_input(document: Map, spot: Spot, desk: Desk) -> tuple[Message, ...]:
    return read_messages(document["input"], spot.at("input"), desk) if document.get("input") is not None else ()


def _shared_files(document: Map, spot: Spot, desk: Desk) -> tuple[str, ...]:
    return fields.texts(document, "input_files", spot)


SHARED: Mapping[str, Callable[[Map, Spot, Desk], Any]] = {
    "input": _shared_input,
    "input_files": _shared_files,
    "evaluators": read_evaluators,
}
"""The fields of a suite that its tests inherit and that variables may stand in."""


def _everything_wrong(test: Test) -> InputError:
    errors: list[InputError] = []
    given = [read for key, read in _WHEN_GIVEN.items() if key in test.raw]
    for read in (*_ALWAYS.values(), *given):
        try:
            read(test)
        except InputError as error:
            errors.append(error)
    return first_of_each(errors)


def _origin(spot: Spot, desk: Desk) -> Any:
    return None if spot.source.path == desk.path else spot.source.path


def _id(test: Test) -> str:
    return case_id(test.raw, test.spot)


def _input(test: Test) -> tuple[Message, ...]:
    raw, spot = test.raw, test.spot
    prefix = test.suite.input if test.inherits else ()
    if "input" not in raw:
        if is_conversation(raw, spot) or (prefix and "vars" in raw):
            return prefix
        raise spot.error(f"test '{_name(raw)}' has no input{did_you_mean('input', map(str, raw))}", "input")
    own = read_messages(raw["input"], spot.at("input"), test.desk)
    files = fields.texts(raw, "input_files", spot) if raw.get("input_files") is not None else _inherited_files(test)
    return prefix + (with_files(own, files, _files_spot(test), test.desk) if files else own)


def _inherited_files(test: Test) -> tuple[str, ...]:
    return test.suite.input_files if test.inherits else ()


def _files_spot(test: Test) -> Spot:
    return (test.spot if test.raw.get("input_files") is not None else test.suite.spot).at("input_files")


def _criteria(test: Test) -> str | None:
    raw, spot = test.raw, test.spot
    criteria = fields.text(raw, "criteria", spot)
    older = fields.text(raw, "expected_outcome", spot)
    given = (text for text in (criteria, older) if text is not None and text.strip())
    return next(given, None)


def _expected_output(test: Test) -> dict[str, Any]:
    raw = test.raw["expected_output"]
    return {"expected_output": read_expected(raw, test.spot.at("expected_output"), test.desk)}


def _evaluators(test: Test) -> tuple[EvaluatorSpec, ...]:
    raw, spot = test.raw, test.spot
    specs = read_evaluators(raw, spot, test.desk)
    if test.inherits:
        specs += test.suite.evaluators
    if raw.get("turns") is not None:
        return conversation_evaluators(raw, spot, test.desk, specs, test.suite.grader)
    if specs:
        return specs
    if _criteria(test) or raw.get("expected_output") is not None:
        return (default_grader(test.suite.grader),)
    raise spot.error(f"test '{_name(raw)}' needs criteria, expected_output or assertions")


def _tags(test: Test) -> tuple[str, ...]:
    own = fields.texts(test.raw, "tags", test.spot)
    return tuple(dict.fromkeys(test.suite.tags + own)) if own else test.suite.tags


def _metadata(test: Test) -> Map:
    own = fields.mapping(test.raw, "metadata", test.spot)
    return {**test.suite.metadata, **own} if own else test.suite.metadata


def _execution(test: Test) -> dict[str, Any]:
    execution, at = test.execution, test.spot.at("execution")
    settings.warn_of_the_suites_own(execution, at, test.desk)
    return {
        "threshold": fields.share(execution, "threshold", at),
        "runners": settings.runners(execution, at) or None,
        "cache": fields.flag(execution, "cache", at),
        **settings.repeat_of(execution, at, ("trials", "repeat")),
    }


def _workspace(test: Test) -> WorkspaceSpec | None:
    raw = test.raw.get("workspace")
    if raw is None:
        return test.suite.workspace
    path = (*test.spot.path, "workspace")
    return read_case_workspace(raw, path, test.spot.source, test.desk.workspaces, test.suite.workspace)


def _conversation(test: Test) -> dict[str, Any]:
    return {"conversation": read_conversation(test.raw, test.spot, test.desk)}


def _depends_on(test: Test) -> dict[str, Any]:
    raw, spot = test.raw, test.spot
    failure = fields.choice(raw, "on_dependency_failure", spot, _ON_DEPENDENCY_FAILURE)
    names = fields.texts(raw, "depends_on", spot)
    return {"depends_on": tuple(dict.fromkeys(names)), "on_dependency_failure": failure or "skip"}


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
    "repeat": lambda test: {**settings.repeat_of(test.raw, test.spot, ("repeat",))},
    "timeout_s": lambda test: {"timeout_s": fields.positive(test.raw, "timeout_s", test.spot)},
    "expected_fail": lambda test: {"expected_fail": fields.flag(test.raw, "expected_fail", test.spot) or False},
    "mode": _conversation,
    "turns": _conversation,
    "depends_on": _depends_on,
    "on_dependency_failure": _depends_on,
    "conversation_id": lambda test: {"conversation_id": fields.text(test.raw, "conversation_id", test.spot)},
    "suite": lambda test: {"group": fields.text(test.raw, "suite", test.spot)},
}


def _warn_of_criteria(test: Test) -> None:
    raw, spot = test.raw, test.spot
    if isinstance(raw.get("criteria"), str) and not raw["criteria"].strip():
        test.desk.notices.add("criteria are empty", lambda: spot.place("criteria"), kind="empty criteria")
    if raw.get("expected_outcome") is not None:
        problem = "an older spelling of 'criteria'"
        test.desk.notices.add(problem, lambda: spot.place("expected_outcome"), kind="expected_outcome")


def _warn_of_unread_criteria(case: Case, test: Test) -> None:
    explicit = listed_under(test.raw) is not None or test.suite.evaluators
    if case.criteria and explicit and not any(map(reads_criteria, case.evaluators)):
        problem = (
            "nothing that evaluates this test reads its criteria; add an llm-grader or rubrics, or leave the criteria "
            "out if they are only a note"
        )
        test.desk.notices.add(problem, lambda: test.spot.place("criteria"), kind="unread criteria")


def _name(raw: Map) -> str:
    value = raw.get("id", "?")
    return str(value) if isinstance(value, (str, float, bool)) else "?"
