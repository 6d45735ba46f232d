"""A raw suite → the same suite in another format: placeholders and paths stay unresolved.

Reading is a method of the format (`ConvertibleFormat`); writing is a `SuiteWriter`, registered under the name of the
format that it writes. Between them is a `RawSuite`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import orjson

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.source import FieldPath, Source, show_path
from eval_pipeline.plugins import Registry
from eval_pipeline.suites.load import format_of
from eval_pipeline.suites.names import default_name


class RawRow(dict[str, Any]):
    """A test from one line of a JSONL file."""

    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RawSuite:
    """A suite before interpolation: `document` has the suite-level fields, `tests` the value of `tests`.

    `tests` may also be one text (a path), and its entries may be texts (`file://…`). `lost` lists what reading
    drops, `moved` what it relocates. `beside` is a second file that belongs to the suite.
    """

    path: Path
    document: Mapping[str, Any]
    tests: Any
    source: Source
    at: FieldPath = ()
    lost: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    beside: Path | None = None

    @property
    def name(self) -> str:
        """The name of the suite."""
        name = self.document.get("name")
        return name if isinstance(name, str) and name.strip() else default_name(self.path)

    def entries(self) -> Iterator[tuple[FieldPath, Any]]:
        """Each test with its place."""
        for index, test in enumerate(self.tests if isinstance(self.tests, list) else ()):
            yield (test.line,) if isinstance(test, RawRow) else (*self.at, index), test


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file of a converted suite: its path, and its text in chunks."""

    path: Path
    text: Sequence[str] | Iterator[str]


@dataclass(frozen=True, slots=True)
class ProjectConverter:
    """Converts the configuration of another system into files of ours. `convert` returns the files beside it, and what
    could not be carried over; `find` returns the configuration that a folder has, or the nearest above it. Both raise
    InputError."""

    recognizes: Callable[[Path], bool]
    find: Callable[[Path], Path]
    convert: Callable[[Path], tuple[list[NewFile], Sequence[str]]]


PROJECT_CONVERTERS: Registry[ProjectConverter] = Registry(
    "converter of projects", folder=None, entry_point_group="eval_pipeline.project_converters"
)


@dataclass(slots=True)
class ConversionLoss:
    """A field that a format cannot represent, with the tests that have it."""

    tests: dict[str, list[str]] = field(default_factory=dict)

    def add(self, what: str, test: object = None) -> None:
        self.tests.setdefault(what, []).extend([] if test is None else [str(test)])

    def notes(self) -> Iterator[str]:
        for what, tests in self.tests.items():
            shown = ", ".join(tests[:3]) + (f" and {len(tests) - 3} more" if len(tests) > 3 else "")
            yield f"{what} ({shown})" if tests else what


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteWriter:
    """Writer of suites in one format.

    `suffix` ends its file names. `in_line` formats cannot refer to tests in other files. A suite in a `lossless` format
    loads the same as before.
    """

    suffix: str
    write: Callable[[RawSuite, Path], tuple[list[NewFile], ConversionLoss]]
    in_line: bool = False
    lossless: bool = True


SUITE_WRITERS: Registry[SuiteWriter] = Registry(
    "format to convert to", folder=None, entry_point_group="eval_pipeline.suite_writers"
)


@runtime_checkable
class ConvertibleFormat(Protocol):
    """A suite format whose files can be converted into another."""

    def read_raw(self, path: Path) -> RawSuite:
        """Return the raw suite. Raises InputError, or InputErrors for the lines of a file."""

    def in_line(self, suite: RawSuite) -> RawSuite:
        """The suite with the tests of other files in their places. Raises InputErrors for tests that cannot be read."""


def read_raw(path: Path) -> RawSuite:
    """Return a suite file as a raw suite. Raises InputError."""
    return _convertible(path).read_raw(path)


def in_line(suite: RawSuite) -> RawSuite:
    """The suite with the tests of other files in their places. Raises InputErrors."""
    return _convertible(suite.path).in_line(suite)


def _convertible(path: Path) -> ConvertibleFormat:
    format_ = format_of(path)
    if not isinstance(format_, ConvertibleFormat):
        raise InputError("suites of this format cannot be converted", SourceLocation(show_path(path)))
    return format_


def read_text(path: Path) -> str:
    """The text of a suite file. Raises InputError."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", SourceLocation(show_path(path))) from None


def parse_json(text: str, source: Source) -> Any:
    """The value of a JSON text. Raises InputError with the line."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InputError(f"not valid JSON: {error.msg}", SourceLocation(source.shown, error.lineno)) from None


def pretty_json(value: Any) -> str:
    """A value as indented JSON."""
    return orjson.dumps(orjson.loads(to_json(value)), option=orjson.OPT_INDENT_2).decode() + "\n"
