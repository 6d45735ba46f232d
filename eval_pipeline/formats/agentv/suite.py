"""An eval file → Suite: its fields, its tests, and warnings about both.

Source of the meaning: AgentV's *Tests* page (seed 001). Every problem is an InputError of its field; a
test that cannot be read becomes an entry of `Suite.errors` and the others are loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.formats.agentv.case import SHARED, Inherited, read_case, warn_unknown
from eval_pipeline.formats.agentv.case_tables import FIELD, is_table, table_tests
from eval_pipeline.formats.agentv.dependencies import broken_dependencies
from eval_pipeline.formats.agentv.documents import RawTest
from eval_pipeline.formats.agentv.evaluators import default_grader
from eval_pipeline.formats.agentv.load_context import LoadContext
from eval_pipeline.formats.agentv.preprocessors import read_preprocessors
from eval_pipeline.formats.agentv.settings import suite_settings
from eval_pipeline.formats.agentv.tests_field import raw_tests
from eval_pipeline.formats.agentv.variables import VARIABLE
from eval_pipeline.formats.agentv.versions import is_compatible, version_problem
from eval_pipeline.formats.agentv.workspace import read_workspace
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.diagnostics import first_of_each
from eval_pipeline.parsing.fields import FieldCursor, Map
from eval_pipeline.parsing.interpolation import with_texts_changed
from eval_pipeline.parsing.source import show_path
from eval_pipeline.suites.case_list import case_list
from eval_pipeline.suites.fields import SUITE
from eval_pipeline.suites.model import Case, ContentHash, Message, Suite, content_revision
from eval_pipeline.suites.names import category_of, default_name
from eval_pipeline.suites.workspace import WorkspaceSpec

TEST_KEYS = ("tests", "eval_cases", "evalcases")
MOST_WRONG_TESTS = 20
"""How many wrong tests are reported of a suite whose own fields are wrong."""
_SUITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_AGENTV_NAME = re.compile(r"[a-z0-9-]{1,64}\Z")
_CARRIED = ("version", "author", "license", "requires", "governance")
_TEMPLATED = ("input", "input_files", "assertions", "assert", "evaluators", "execution")


def read_suite(
    document: Map, cursor: FieldCursor, context: LoadContext, format_: str, tests: Iterable[RawTest] | None = None
) -> Suite:
    """Return the suite of a document; its tests are `tests`, or those of the document's field `tests`.

    Raises InputError when a suite-level field is wrong; a wrong test is counted in `Suite.errors` instead.
    """
    warn_unknown(document, SUITE.names, cursor, context, "suite")
    context.grader_versions.require_of_suite(document)
    try:
        inherited = {name: read(document, cursor, context) for name, read in _INHERITED.items()}
        values = {name: read(document, cursor, context) for name, read in _OWN_FIELDS.items()}
    except InputError:
        raise _everything_wrong(document, cursor, context, tests) from None
    _warn_of_requirements(document, cursor, context)
    content = ContentHash({key: value for key, value in document.items() if key not in (*TEST_KEYS, FIELD)})
    read = _Tests(Inherited(**inherited, templated=_templated(document), cursor=cursor), context, content)
    cases = read.all(tests if tests is not None else _own_tests(document, cursor, context))
    return Suite(
        **values,
        path=context.path,
        format=format_,
        revision=content.revision(*sorted(context.included.values())),
        cases=cases,
        category=category_of(show_path(context.path)),
        tags=inherited["tags"],
        metadata={**_carried(document), **inherited["metadata"]},
        errors=tuple(read.errors),
        warnings=context.diagnostics.all(),
        parts=tuple(context.parts),
    )


def _everything_wrong(
    document: Map, cursor: FieldCursor, context: LoadContext, tests: Iterable[RawTest] | None
) -> InputError:
    """Return the errors of all suite-level fields, and of the first wrong tests."""
    errors: list[InputError] = []
    inherited = dict(_HARMLESS)
    for name, read in (*_INHERITED.items(), *_OWN_FIELDS.items()):
        try:
            value = read(document, cursor, context)
            inherited.update({name: value} if name in _INHERITED else {})
        except InputError as error:
            errors.append(error)
    if "variables" in inherited:  # else texts of tests are not what they would be
        read_tests = _Tests(Inherited(**inherited, cursor=cursor), context, ContentHash({}))
        try:
            read_tests.all(tests if tests is not None else _own_tests(document, cursor, context))
        except InputError as error:
            errors.append(error)
        errors += read_tests.errors[:MOST_WRONG_TESTS]
    return first_of_each(errors)


def _own_tests(document: Map, cursor: FieldCursor, context: LoadContext) -> Iterator[RawTest]:
    key = next((key for key in TEST_KEYS if key in document), None)
    if is_table(document):
        if key is not None:
            raise cursor.error(f"a suite has '{key}' or a table of cases, not both", FIELD)
        return table_tests(document, cursor, context)
    if key is None:
        raise cursor.error(f"no tests: expected a list under '{TEST_KEYS[0]}'", TEST_KEYS[0])
    if key != TEST_KEYS[0]:
        context.diagnostics.add("an older spelling of 'tests'", cursor.place(key))
    return raw_tests(document[key], cursor.at(key), context)


def _templated(document: Map) -> Map | None:
    """Return the inherited fields that contain variables."""
    shared = {key: document[key] for key in _TEMPLATED if key in document}
    return shared if _has_variables(shared) else None


def _has_variables(value: Any) -> bool:
    has_variable: list[bool] = []

    def look(text: str) -> str:
        has_variable.append(VARIABLE.search(text) is not None)
        return text

    with_texts_changed(value, look)
    return any(has_variable)


def _workspace(document: Map, cursor: FieldCursor, context: LoadContext) -> WorkspaceSpec | None:
    raw = document.get("workspace")
    if raw is None:
        return None
    return read_workspace(raw, (*cursor.path, "workspace"), cursor.source, context.workspaces)


def _warn_of_requirements(document: Map, cursor: FieldCursor, context: LoadContext) -> None:
    required = fields.text(fields.mapping(document, "requires", cursor), "agentv", cursor.at("requires"))
    if required is not None and is_compatible(required) is not True:
        context.diagnostics.add(version_problem(required), cursor.place("requires", "agentv"))


def _carried(document: Map) -> Map:
    """Return the fields of a suite that are stored with its metadata but have no effect."""
    return {key: document[key] for key in _CARRIED if document.get(key) is not None}


class _Tests:
    """Reader of the tests of a suite, one after the other: no more than a case's id and line is kept here."""

    def __init__(self, inherited: Inherited, context: LoadContext, content: ContentHash) -> None:
        self.errors: list[InputError] = []
        self._inherited = inherited
        self._context = context
        self._content = content
        self._lines: dict[str, int | None] = {}
        self._origins: dict[str, Path] = {}
        self._depends_on: dict[str, tuple[str, ...]] = {}
        self._spots: dict[str, FieldCursor] = {}
        self._refused: set[str] = set()

    def all(self, tests: Iterable[RawTest]) -> Sequence[Case]:
        """Return the usable cases; the others join `errors`."""
        cases = case_list(case for test in tests if (case := self._read(test)) is not None)
        broken = broken_dependencies(self._lines, self._depends_on, self._refused, self._dependency_error)
        self.errors += broken.values()
        return case_list(case for case in cases if case.id not in broken) if broken else cases

    def _read(self, test: RawTest) -> Case | None:
        try:
            case = read_case(test, self._inherited, self._context)
            if case.id in self._lines:
                raise test.cursor.error(f"case id '{case.id}' is taken (first {self._where(case.id, test)})", "id")
        except InputError as error:
            self._refuse(test, error)
            return None
        self._content.add(_content(test.raw, case))
        self._lines[case.id] = case.line
        if case.origin is not None:
            self._origins[case.id] = case.origin
        if case.depends_on:
            self._depends_on[case.id] = case.depends_on
            self._spots[case.id] = test.cursor
        return case

    def _where(self, case_id: str, test: RawTest) -> str:
        if str(test.cursor.path[-1]).startswith("row "):  # all rows of a table have the line of `cases`
            return "in an earlier row"
        line, origin = self._lines[case_id], self._origins.get(case_id)
        return f"at line {line}" if origin is None else f"in {show_path(origin)}, line {line}"

    def _refuse(self, test: RawTest, error: InputError) -> None:
        self.errors.append(error)
        self._content.add(error.problem if isinstance(test.raw, InputError) else content_revision(test.raw))
        if isinstance(test.raw, Mapping) and isinstance(test.raw.get("id"), (str, int)):
            self._refused.add(str(test.raw["id"])[:1000])

    def _dependency_error(self, case_id: str, problem: str) -> InputError:
        return self._spots[case_id].error(problem, "depends_on")


def _content(raw: Any, case: Case) -> str:
    """Return the content of a test for its revision, including the files that it names."""
    if case.workspace is None and not case.files:
        return content_revision(raw)
    return content_revision(raw, case.fingerprint_fields())


def _suite_name(document: Map, cursor: FieldCursor, context: LoadContext) -> str:
    given = document.get("name")
    written = given.strip() if isinstance(given, str) and given.strip() else None
    name = written or default_name(context.path)
    if _SUITE_NAME.match(name):
        if written is not None and not _AGENTV_NAME.match(name):
            problem = f"AgentV itself takes only 1 to 64 lower-case letters, digits and hyphens, not '{name}'"
            context.diagnostics.add(problem, cursor.place("name"))
        return name
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "suite"
    context.diagnostics.add(f"'{name}' is kept as '{plain}' (letters, digits, . _ -)", cursor.place("name"))
    return plain


_Reader = Callable[[Map, FieldCursor, LoadContext], Any]
_INHERITED: Mapping[str, _Reader] = {
    **SHARED,
    "grader": lambda document, cursor, context: fields.text(document, "evaluator", cursor),
    "tags": lambda document, cursor, context: fields.texts(document, "tags", cursor),
    "metadata": lambda document, cursor, context: fields.mapping(document, "metadata", cursor),
    "variables": lambda document, cursor, context: fields.mapping(document, "vars", cursor),
    "workspace": _workspace,
    "preprocessors": read_preprocessors,
}
_HARMLESS: Mapping[str, Any] = {
    "input": (Message(role="user", content=""),), "input_files": (), "evaluators": (default_grader(None),),
    "grader": None, "tags": (), "metadata": {}, "workspace": None, "preprocessors": (),
}  # fmt: skip
"""Values in place of wrong fields, with which no test becomes wrong."""
_OWN_FIELDS: Mapping[str, _Reader] = {
    "name": _suite_name,
    "description": lambda document, cursor, context: fields.text(document, "description", cursor),
    "settings": suite_settings,
}
