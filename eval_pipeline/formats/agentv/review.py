"""Warnings about a valid suite, from a second reading of its file without interpolation.

Errors of a case and unknown fields are reported when the suite is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from eval_pipeline.errors import EvalPipelineError, SourceLocation
from eval_pipeline.formats.agentv.evaluators import SPELLINGS
from eval_pipeline.parsing.diagnostics import Diagnostic
from eval_pipeline.parsing.source import FieldPath, show_path
from eval_pipeline.plugins import canonical_name
from eval_pipeline.suites.conversion import RawSuite
from eval_pipeline.suites.model import Case, EvaluatorSpec, Suite

ReadRaw = Callable[[Path], RawSuite]
_ROLE_MARKER = re.compile(r"@\[(?:System|User|Assistant|Tool)\]:", re.IGNORECASE)
_EMPTY_LIST = re.compile(r":\s*\[\s*\]")
_OF_PROJECT = frozenset({"on_error", "on_missing", "payload"})
"""Arguments that a project gives to evaluators whose entries do not have them."""
_ASSERTIONS = ("assertions", "assert", "evaluators")


def review(suite: Suite, read: ReadRaw) -> Iterator[Diagnostic]:
    """Return the warnings about a loaded suite."""
    written = _written(suite.path, read)
    if written is not None:
        yield from _of_fields(written.document, (), written)
        for path, test in written.entries():
            if isinstance(test, Mapping):
                yield from _of_fields(test, path, written)
    for case in suite.cases:
        yield from _empty_files(case, suite.path)


class WrittenEvaluators:
    """The locations of evaluators that a suite's file lists."""

    def __init__(self, suite: Suite, read: ReadRaw) -> None:
        try:
            self._written: RawSuite | None = read(suite.path)
        except EvalPipelineError:
            self._written = None
        self._tests: dict[str, tuple[FieldPath, Mapping[str, Any]]] = {}
        for path, test in self._written.entries() if self._written is not None else ():
            if isinstance(test, Mapping):
                self._tests.setdefault(str(test.get("id")).strip(), (path, test))

    def place(self, case: Case, spec: EvaluatorSpec, argument: FieldPath) -> SourceLocation | None:
        """Return the location of an evaluator, or of its argument, in the case or in the suite-level evaluators."""
        if self._written is None:
            return None
        of_case = [self._tests[case.id]] if case.id in self._tests else []
        lists = [
            ((*path, *steps), entry)
            for path, raw in (*of_case, ((), self._written.document))
            for steps, entry in _listed_evaluators(raw)
        ]
        for given in (spec.config, {key: value for key, value in spec.config.items() if key not in _OF_PROJECT}):
            for steps, entry in lists:
                if _is_written_as(spec.type, given, entry):
                    return self._written.source.place((*steps, *argument))
        return None


def _listed_evaluators(raw: Mapping[str, Any]) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the entries of a test's or a suite's lists of evaluators, each with its path."""
    for steps in SPELLINGS:
        holder = raw if len(steps) == 1 else raw.get(steps[0])
        entries = holder.get(steps[-1]) if isinstance(holder, Mapping) else None
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            yield (*steps, index), entry


def _is_written_as(type_: str, config: Mapping[str, Any], entry: Any) -> bool:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("type"), str):
        return False
    return canonical_name(entry["type"]) == type_ and _is_part_of(config, entry)


def _is_part_of(read: Any, written: Any) -> bool:
    """Return whether a value is what was written, but for fields that are passed over."""
    if isinstance(read, Mapping) and isinstance(written, Mapping):
        return all(_is_part_of(value, written.get(key)) for key, value in read.items())
    if isinstance(read, list) and isinstance(written, list):
        return len(read) == len(written) and all(map(_is_part_of, read, written))
    return bool(read == written)


def _written(path: Path, read: ReadRaw) -> RawSuite | None:
    """Return the raw suite if its text contains a searched word, else None: reading a large suite is slow."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        return read(path) if _ROLE_MARKER.search(text) or _EMPTY_LIST.search(text) else None
    except (EvalPipelineError, OSError, UnicodeDecodeError):
        return None  # already reported by loading


def _of_fields(raw: Mapping[str, Any], path: FieldPath, written: RawSuite) -> Iterator[Diagnostic]:
    for name in _ASSERTIONS:
        if raw.get(name) == []:
            problem = "the list is empty: a test without evaluators is judged by a model"
            yield Diagnostic(problem, written.source.place((*path, name)))
    for name in ("input", "expected_output"):
        for at, text in _texts(raw.get(name), (*path, name)):
            if (marker := _ROLE_MARKER.search(text)) is not None:
                problem = (
                    f"'{marker[0]}' inside a text is no role, but looks like one to a model; write a list of messages"
                )
                yield Diagnostic(problem, written.source.place(at))


def _texts(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    """Yield the texts of messages: the value itself, or the contents of messages and their parts."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name in ("content", "value"):
            yield from _texts(value.get(name), (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*path, index))


def _empty_files(case: Case, suite: Path) -> Iterator[Diagnostic]:
    for file in map(Path, case.files):
        if file.is_file() and not file.stat().st_size:
            place = SourceLocation(show_path(case.origin or suite), case.line, f"case '{case.id}'")
            yield Diagnostic(f"the attached file {show_path(file)} is empty", place)
