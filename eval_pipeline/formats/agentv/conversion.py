"""Eval files → raw suites, and raw suites → YAML, JSONL or JSON.

YAML and JSON have one document; JSONL has a line for each test, and a file beside it with the fields of the suite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from eval_pipeline.errors import InputError, InputErrors
from eval_pipeline.fingerprints import to_json
from eval_pipeline.formats.agentv.case_tables import FIELD as TABLE
from eval_pipeline.formats.agentv.case_tables import table_tests
from eval_pipeline.formats.agentv.documents import RawTest
from eval_pipeline.formats.agentv.load_context import open_context
from eval_pipeline.formats.agentv.suite import TEST_KEYS
from eval_pipeline.formats.agentv.tests_field import raw_tests
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.parsing.fields import FieldCursor
from eval_pipeline.parsing.source import jsonl_source, show_path, yaml_source
from eval_pipeline.parsing.writing import jsonl_text, suite_yaml, yaml_text
from eval_pipeline.parsing.yaml_text import parse_yaml
from eval_pipeline.suites.conversion import (
    ConversionLoss,
    NewFile,
    RawRow,
    RawSuite,
    SuiteWriter,
    parse_json,
    pretty_json,
    read_text,
)
from eval_pipeline.suites.load import LoadOptions
from eval_pipeline.suites.names import default_name

BESIDE = (".yaml", ".yml", ".eval.yaml", ".eval.yml")
"""What the file beside a JSONL file may be called, after the JSONL file's own name."""

# Reading


def read_eval_file(path: Path) -> RawSuite:
    """Return a suite file as a raw suite. Raises InputError, or InputErrors for the lines of a JSONL file."""
    text = read_text(path)
    if path.suffix.lower() == ".jsonl":
        return _read_rows(path, text)
    source = yaml_source(path, text)
    document = parse_json(text, source) if path.suffix.lower() == ".json" else parse_yaml(text, source.shown)
    if not isinstance(document, Mapping):
        raise source.error((), "expected a mapping with a list of tests")
    key = next((key for key in (*TEST_KEYS, TABLE) if key in document), None)
    if key is None:
        raise source.error((), f"no tests: expected a list under '{TEST_KEYS[0]}'")
    comments = sum(line.lstrip().startswith("#") for line in text.splitlines()) if path.suffix != ".json" else 0
    return RawSuite(
        path=path,
        document={name: value for name, value in document.items() if name not in (*TEST_KEYS, TABLE)},
        tests=document[key],
        source=source,
        at=(key,),
        lost=(counted(comments, "line of comments", "lines of comments"),) if comments else (),
    )


def _read_rows(path: Path, text: str) -> RawSuite:
    source = jsonl_source(path)
    rows: list[RawRow] = []
    errors: list[InputError] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(_row(line, number))
        except ValueError as error:
            errors.append(source.error((number,), f"not valid JSON: {error}"))
    if errors:
        raise InputErrors(errors)
    document, beside = _beside(path)
    return RawSuite(path=path, document=document, tests=rows, source=source, beside=beside)


def _row(line: str, number: int) -> RawRow:
    value = orjson.loads(line)
    if not isinstance(value, dict):
        raise ValueError("expected an object")
    row = RawRow(value)
    row.line = number
    return row


def _beside(path: Path) -> tuple[Mapping[str, Any], Path | None]:
    """The suite-level fields in the file beside a JSONL file, and that file; a complete suite is no such file."""
    base = path.stem.removesuffix(".eval") or path.stem
    for file in (path.with_name(base + suffix) for suffix in BESIDE):
        document = parse_yaml(read_text(file), show_path(file)) if file.is_file() else None
        if isinstance(document, Mapping) and not any(key in document for key in TEST_KEYS):
            return document, file
    return {}, None


def with_tests_in_line(suite: RawSuite) -> RawSuite:
    """The suite with the tests of other files put in their place. Raises InputErrors for those that cannot be read."""
    tests = suite.tests
    if isinstance(tests, list) and not any(isinstance(test, str) for test in tests):
        return suite
    context = open_context(suite.path, LoadOptions(_AsWritten()))
    if suite.at == (TABLE,):
        in_files = list(table_tests({TABLE: tests}, FieldCursor(suite.source), context))
    else:
        in_files = list(raw_tests(tests, FieldCursor(suite.source, suite.at), context))
    errors = [test.raw for test in in_files if isinstance(test.raw, InputError)]
    if errors:
        raise InputErrors(errors)
    files = ", ".join(dict.fromkeys(show_path(file) for file in context.parts))
    moved = f"the tests of {files} now stand in the suite itself"
    return replace(suite, tests=[_plain(test) for test in in_files], moved=(moved,))


def _plain(test: RawTest) -> Any:
    return orjson.loads(to_json(test.raw))


class _AsWritten(dict[str, str]):
    """An environment that maps every placeholder to itself."""

    def __contains__(self, name: object) -> bool:
        return True

    def get(self, name: str, default: Any = None) -> str:
        return f"${{{{ {name} }}}}"


# Writing


def as_yaml(suite: RawSuite, target: Path) -> tuple[list[NewFile], ConversionLoss]:
    """Return the suite as one YAML file."""
    if isinstance(suite.tests, list):
        return [NewFile(target, suite_yaml(_named(suite, target), map(dict_of, suite.tests)))], ConversionLoss()
    return [NewFile(target, [yaml_text({**_named(suite, target), TEST_KEYS[0]: suite.tests})])], ConversionLoss()


def as_jsonl(suite: RawSuite, target: Path) -> tuple[list[NewFile], ConversionLoss]:
    """The suite as a JSONL file, and the file beside it when there are suite-level fields."""
    lost = ConversionLoss()
    tests = [test for test in suite.tests if isinstance(test, Mapping)]
    if len(tests) < len(suite.tests):
        number = len(suite.tests) - len(tests)
        lost.add(counted(number, "entry of 'tests' that is no test", "entries of 'tests' that are no tests"))
    document = _named(suite, target)
    base = target.stem.removesuffix(".eval") or target.stem
    beside = next(
        file for file in (target.with_name(base + end) for end in (".yaml", ".eval.yaml")) if file != suite.path
    )
    _tell_odd_numbers(tests, lost)
    files = [NewFile(target, jsonl_text(tests))]
    return [*files, NewFile(beside, [yaml_text(document)])] if document else files, lost


def as_json(suite: RawSuite, target: Path) -> tuple[list[NewFile], ConversionLoss]:
    """The suite as one JSON file of the same fields as YAML."""
    lost = ConversionLoss()
    _tell_odd_numbers(suite.tests, lost)
    return [NewFile(target, [pretty_json({**_named(suite, target), TEST_KEYS[0]: suite.tests})])], lost


def _tell_odd_numbers(tests: Iterable[Any], lost: ConversionLoss) -> None:
    for test in tests:
        if _has_odd_number(test):
            lost.add("numbers that JSON has not", test.get("id") if isinstance(test, Mapping) else None)


def _has_odd_number(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, int):
        return not -(2**63) <= value < 2**64
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(map(_has_odd_number, inner))


def dict_of(test: Any) -> Any:
    """A test as plain values."""
    return dict(test) if isinstance(test, Mapping) else test


def _named(suite: RawSuite, target: Path) -> dict[str, Any]:
    """Return the suite-level fields, with the name of a suite that is named after its file."""
    document = dict(suite.document)
    return document if suite.name == default_name(target) or "name" in document else {"name": suite.name, **document}


YAML = SuiteWriter(suffix=".yaml", write=as_yaml)
JSONL = SuiteWriter(suffix=".jsonl", write=as_jsonl, in_line=True)
JSON = SuiteWriter(suffix=".json", write=as_json)
