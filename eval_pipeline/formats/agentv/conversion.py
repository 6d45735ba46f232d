"""A suite's text in one format → the same suite's text in another, as it was written: nothing is filled in or resolved.

YAML (or JSON) has one document; JSONL has a line for each test and a file beside it for what is said of all of them;
Agent-Skills' `evals.json` knows prompts, expected answers, files and assertions in words, and nothing else: what it
cannot say is told.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from eval_pipeline.errors import InputError, InputErrors, SourceLocation
from eval_pipeline.fingerprints import to_json
from eval_pipeline.formats.agentv.documents import RawTest
from eval_pipeline.formats.agentv.load_context import open_context
from eval_pipeline.formats.agentv.suite import TEST_KEYS, default_name
from eval_pipeline.formats.agentv.tests_field import raw_tests
from eval_pipeline.parsing.fields import FieldCursor
from eval_pipeline.parsing.source import FieldPath, Source, jsonl_source, show_path, yaml_source
from eval_pipeline.parsing.writing import jsonl_text, suite_yaml, yaml_text
from eval_pipeline.parsing.yaml_text import parse_yaml
from eval_pipeline.suites.load import LoadOptions

BESIDE = (".yaml", ".yml", ".eval.yaml", ".eval.yml")
"""What the file beside a JSONL file may be called, after the JSONL file's own name."""

Test = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawSuite:
    """A suite as it is written: `document` says what holds for all tests, `tests` is what stands under `tests`.

    `tests` may also be one text (a path), and its entries may be texts (`file://…`). `lost` is what reading it leaves
    out, `moved` what has been put somewhere else.
    """

    path: Path
    document: Mapping[str, Any]
    tests: Any
    source: Source
    at: FieldPath = ()
    lost: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name that the suite has."""
        name = self.document.get("name")
        return name if isinstance(name, str) and name.strip() else default_name(self.path)

    def entries(self) -> Iterator[tuple[FieldPath, Any]]:
        """Each test, with where it stands."""
        for index, test in enumerate(self.tests if isinstance(self.tests, list) else ()):
            yield (test.line,) if isinstance(test, _Row) else (*self.at, index), test


class _Row(dict[str, Any]):
    """A test that is a line of a JSONL file."""

    line: int


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file of a converted suite: its path, and its text in pieces."""

    path: Path
    text: Sequence[str] | Iterator[str]


@dataclass(slots=True)
class ConversionLoss:
    """What a format cannot carry over: each thing once, with the tests it was in."""

    said: dict[str, list[str]] = field(default_factory=dict)

    def add(self, what: str, test: object = None) -> None:
        self.said.setdefault(what, []).extend([] if test is None else [str(test)])

    def notes(self) -> Iterator[str]:
        for what, tests in self.said.items():
            shown = ", ".join(tests[:3]) + (f" and {len(tests) - 3} more" if len(tests) > 3 else "")
            yield f"{what} ({shown})" if tests else what


# Reading


def read_written(path: Path) -> RawSuite:
    """A suite file as it is written. Raises InputError, or InputErrors for the lines of a JSONL file."""
    text = _text(path)
    if path.suffix.lower() == ".jsonl":
        return _read_rows(path, text)
    source = yaml_source(path, text)
    document = _json(text, source) if path.suffix.lower() == ".json" else parse_yaml(text, source.shown)
    if not isinstance(document, Mapping):
        raise source.error((), "expected a mapping with a list of tests")
    if "evals" in document and not any(key in document for key in TEST_KEYS):
        return _from_agent_skills(document, path, source)
    key = next((key for key in TEST_KEYS if key in document), None)
    if key is None:
        raise source.error((), f"no tests: expected a list under '{TEST_KEYS[0]}'")
    comments = sum(line.lstrip().startswith("#") for line in text.splitlines()) if path.suffix != ".json" else 0
    return RawSuite(
        path=path,
        document={name: value for name, value in document.items() if name not in TEST_KEYS},
        tests=document[key],
        source=source,
        at=(key,),
        lost=(f"{comments} lines of comments",) if comments else (),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", SourceLocation(show_path(path))) from None


def _json(text: str, source: Source) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InputError(f"not valid JSON: {error.msg}", SourceLocation(source.shown, error.lineno)) from None


def _read_rows(path: Path, text: str) -> RawSuite:
    source = jsonl_source(path)
    rows: list[_Row] = []
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
    return RawSuite(path=path, document=_beside(path), tests=rows, source=source)


def _row(line: str, number: int) -> _Row:
    value = orjson.loads(line)
    if not isinstance(value, dict):
        raise ValueError("expected an object")
    row = _Row(value)
    row.line = number
    return row


def _beside(path: Path) -> Mapping[str, Any]:
    """What the file beside a JSONL file says of all its tests; a suite of its own is no such file."""
    base = path.stem.removesuffix(".eval") or path.stem
    for file in (path.with_name(base + suffix) for suffix in BESIDE):
        document = parse_yaml(_text(file), show_path(file)) if file.is_file() else None
        if isinstance(document, Mapping) and not any(key in document for key in TEST_KEYS):
            return document
    return {}


def with_tests_in_line(suite: RawSuite) -> RawSuite:
    """The suite with the tests of other files put in their place. Raises InputErrors for those that cannot be read."""
    tests = suite.tests
    if isinstance(tests, list) and not any(isinstance(test, str) for test in tests):
        return suite
    context = open_context(suite.path, LoadOptions(_AsWritten()))
    found = list(raw_tests(tests, FieldCursor(suite.source, suite.at), context))
    errors = [test.raw for test in found if isinstance(test.raw, InputError)]
    if errors:
        raise InputErrors(errors)
    files = ", ".join(dict.fromkeys(show_path(file) for file in context.parts))
    moved = f"the tests of {files} now stand in the suite itself"
    return replace(suite, tests=[_plain(test) for test in found], moved=(moved,))


def _plain(test: RawTest) -> Any:
    return orjson.loads(to_json(test.raw))


class _AsWritten(dict[str, str]):
    """An environment in which every placeholder stands for itself."""

    def __contains__(self, name: object) -> bool:
        return True

    def get(self, name: str, default: Any = None) -> str:
        return f"${{{{ {name} }}}}"


# Writing


def as_yaml(suite: RawSuite, target: Path) -> tuple[list[NewFile], ConversionLoss]:
    """The suite as one YAML file."""
    if isinstance(suite.tests, list):
        return [NewFile(target, suite_yaml(_named(suite, target), map(dict_of, suite.tests)))], ConversionLoss()
    return [NewFile(target, [yaml_text({**_named(suite, target), TEST_KEYS[0]: suite.tests})])], ConversionLoss()


def as_jsonl(suite: RawSuite, target: Path) -> tuple[list[NewFile], ConversionLoss]:
    """The suite as a JSONL file, and the file beside it when there is something to say of all tests."""
    lost = ConversionLoss()
    tests = [test for test in suite.tests if isinstance(test, Mapping)]
    if len(tests) < len(suite.tests):
        lost.add(f"{len(suite.tests) - len(tests)} entries of 'tests' that are no tests")
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
    return [NewFile(target, [_pretty({**_named(suite, target), TEST_KEYS[0]: suite.tests})])], lost


def _pretty(value: Any) -> str:
    return orjson.dumps(orjson.loads(to_json(value)), option=orjson.OPT_INDENT_2).decode() + "\n"


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
    """What holds for all tests; a suite that is named after its file keeps that name in another file."""
    document = dict(suite.document)
    return document if suite.name == default_name(target) or "name" in document else {"name": suite.name, **document}


# Agent-Skills


def _from_agent_skills(document: Mapping[str, Any], path: Path, source: Source) -> RawSuite:
    evals = document["evals"]
    if not isinstance(evals, list) or not all(isinstance(entry, Mapping) for entry in evals):
        raise source.error(("evals",), "expected a list of evals")
    lost = ConversionLoss()
    for name in _others(document, "skill_name", "evals"):
        lost.add(f"'{name}' of the file")
    tests = [_test_of(entry, lost) for entry in evals]
    skill = document.get("skill_name")
    own = {"name": skill} if isinstance(skill, str) else {}
    return RawSuite(path=path, document=own, tests=tests, source=source, at=("evals",), lost=tuple(lost.notes()))


def _others(mapping: Mapping[str, Any], *known: str) -> list[str]:
    return [name for name in mapping if name not in known]


def _test_of(entry: Test, lost: ConversionLoss) -> dict[str, Any]:
    """An eval as a test: what is expected is also what it is judged by, each assertion is the prompt of a grader."""
    for name in _others(entry, "id", "prompt", "expected_output", "files", "assertions"):
        lost.add(f"'{name}'", entry.get("id"))
    id_: Any = entry.get("id")
    expected = entry.get("expected_output")
    test: dict[str, Any] = {"id": str(id_) if isinstance(id_, int) else id_}
    if expected is not None:
        test["criteria"] = expected
    test["input"] = entry.get("prompt")
    if entry.get("files"):
        test["input_files"] = entry["files"]
    if expected is not None:
        test["expected_output"] = expected
    if isinstance(entry.get("assertions"), list):
        test["assertions"] = [
            {"name": f"assertion-{number}", "type": "llm-grader", "prompt": said}
            for number, said in enumerate(entry["assertions"], start=1)
        ]
    return test


def as_agent_skills(suite: RawSuite, target: Path) -> tuple[list[NewFile], ConversionLoss]:
    """The suite as `evals.json`; everything it has no word for is told in `Lost`."""
    lost = ConversionLoss()
    for name in _others(suite.document, "name", "assertions", "assert", "$schema"):
        lost.add(f"'{name}' of the suite")
    shared = _assertions(suite.document, lost, None)
    tests = [test for test in suite.tests if isinstance(test, Mapping)]
    evals = [_eval_of(test, number, shared, lost) for number, test in enumerate(tests, start=1)]
    document = {"skill_name": suite.name, "evals": evals}
    return [NewFile(target, [_pretty(document)])], lost


def _eval_of(test: Test, number: int, shared: list[str], lost: ConversionLoss) -> dict[str, Any]:
    id_ = test.get("id")
    for name in _others(test, "id", "input", "criteria", "expected_output", "input_files", "assertions", "assert"):
        lost.add(f"'{name}'", id_)
    written: dict[str, Any] = {"id": _number(id_, number, lost), "prompt": _prompt(test, lost)}
    if (expected := _expected(test, lost)) is not None:
        written["expected_output"] = expected
    if test.get("input_files"):
        written["files"] = test["input_files"]
    said = [*_assertions(test, lost, id_), *shared]
    return {**written, "assertions": said} if said else written


def _number(id_: object, number: int, lost: ConversionLoss) -> int:
    if isinstance(id_, int) or (isinstance(id_, str) and id_.isdecimal() and str(int(id_)) == id_):
        return int(id_)
    lost.add("ids that are no numbers (they are counted instead)", id_)
    return number


def _prompt(test: Test, lost: ConversionLoss) -> str:
    """The words of the user: of several messages all of them, their roles lost."""
    given = test.get("input")
    if isinstance(given, str):
        return given
    messages = given if isinstance(given, list) else [given]
    if len(messages) != 1 or not isinstance(messages[0], Mapping) or messages[0].get("role") != "user":
        lost.add("the roles of several messages", test.get("id"))
    return "\n\n".join(
        _words(message.get("content") if isinstance(message, Mapping) else message) for message in messages
    )


def _expected(test: Test, lost: ConversionLoss) -> str | None:
    expected, criteria = test.get("expected_output"), test.get("criteria")
    if expected is None:
        return criteria if isinstance(criteria, str) else None
    if criteria not in (None, expected):
        lost.add("'criteria' beside an expected output", test.get("id"))
    last = expected[-1] if isinstance(expected, list) and expected else expected
    if last is not expected:
        lost.add("all but the last expected message", test.get("id"))
    return _words(last.get("content") if isinstance(last, Mapping) and "role" in last else last)


def _words(value: Any) -> str:
    """The text of a message's content; what is no text as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_words(part.get("value") if isinstance(part, Mapping) else part) for part in value)
    return to_json(value).decode()


def _assertions(holder: Mapping[str, Any], lost: ConversionLoss, id_: object) -> list[str]:
    """The assertions of a test in words: a grader's prompt and criteria as they are, any other as what it asks for."""
    listed = holder.get("assertions", holder.get("assert"))
    return [words for entry in (listed if isinstance(listed, list) else ()) for words in _in_words(entry, lost, id_)]


def _in_words(entry: Any, lost: ConversionLoss, id_: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
        return
    given = dict(entry) if isinstance(entry, Mapping) else {}
    kind = str(given.pop("type", "")).replace("_", "-")
    if kind == "llm-grader" and isinstance(given.get("prompt"), str):
        if given.keys() - {"name", "prompt"}:
            lost.add("settings of graders (weights, targets, gates)", id_)
        yield given["prompt"]
    elif kind == "rubrics" and isinstance(given.get("criteria"), list):
        lost.add("weights and gates of rubrics", id_)
        yield from (_criterion(criterion) for criterion in given["criteria"])
    else:
        lost.add(f"that '{kind}' is computed (it becomes a sentence for a grader)", id_)
        given.pop("name", None)
        asked = ", ".join(f"{name}: {_words(value)}" for name, value in given.items())
        yield f"The answer passes the check {kind}" + (f" ({asked})" if asked else "")


def _criterion(criterion: Any) -> str:
    if isinstance(criterion, Mapping):
        return str(criterion.get("outcome") or criterion.get("description") or _words(criterion))
    return _words(criterion)
