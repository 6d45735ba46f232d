"""Readers of result files, for comparisons and trends: the registry, and the reader of our own formats.

A reader is a class with `claims` and `read`; readers of other systems register in the entry-point group
`eval_pipeline.result_files`. Our own reads `json` and `jsonl` exports, and reports the errors of a file that no
other reader claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson
import polars as pl

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.leaderboards.results import RESULT_COLUMNS, Results
from eval_pipeline.parsing.source import show_path
from eval_pipeline.plugins import Registry
from eval_pipeline.reports.moments import parse_time
from eval_pipeline.scores.model import Status

JsonMap = Mapping[str, Any]


class ResultFile(Protocol):
    """Reader of the result files of one system."""

    def claims(self, path: Path, first: JsonMap | None) -> bool:
        """Return whether a file or folder is of this system. `first` is its first row; None when it has none."""
        ...

    def read(self, path: Path, name: str) -> Results:
        """Return the results under a name. Raises InputError naming the place of what cannot be read."""
        ...


RESULT_FILES: Registry[type[ResultFile]] = Registry(
    "result file", folder=None, entry_point_group="eval_pipeline.result_files"
)


def read_result_file(path: Path, name: str | None = None) -> Results:
    """Return the results in a file or folder of any known system. Raises InputError."""
    first = _first_row(path)
    reader = next((reader for _, kind in RESULT_FILES if (reader := kind()).claims(path, first)), OwnResultFile())
    return reader.read(path, name or show_path(path))


def _first_row(path: Path) -> JsonMap | None:
    try:
        return next((row for _, row in json_rows(path, "rows")), None) if path.is_file() else None
    except (InputError, OSError):
        return None


def json_rows(file: Path, expected: str) -> Iterator[tuple[int | None, JsonMap]]:
    """Yield the rows of a JSON document (its `results`) or of JSON lines, each with its line where there is one.

    Raises InputError for what is not JSON, or not an object (`expected` describes one).
    """
    data = file.read_bytes() if file.suffix == ".json" else b""
    for line, row in _document(file, data) if file.suffix == ".json" else _lines(file):
        if not isinstance(row, dict):
            raise InputError(f"expected an object with {expected}", SourceLocation(show_path(file), line))
        yield line, row


def _document(file: Path, data: bytes) -> Iterable[tuple[int | None, Any]]:
    document = _json(data, SourceLocation(show_path(file)))
    listed = document.get("results") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise InputError("expected a list", SourceLocation(file=show_path(file), field="results"))
    return ((None, row) for row in listed)


def _lines(file: Path) -> Iterator[tuple[int | None, Any]]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, _json(line, SourceLocation(show_path(file), number))


def _json(data: bytes, place: SourceLocation) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InputError(f"not JSON: {error}", place) from None


def text_field(row: JsonMap, key: str, place: SourceLocation, default: str | None = None) -> str:
    """Return a text of a row. Raises InputError."""
    value = row.get(key, default)
    if not isinstance(value, str):
        raise InputError(f"expected a text, got {orjson.dumps(value).decode()}", field_place(place, key))
    return value


def number_field(row: JsonMap, key: str, place: SourceLocation) -> float:
    """Return a number of a row. Raises InputError."""
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"expected a number, got {orjson.dumps(value).decode()}", field_place(place, key))
    return float(value)


def field_place(place: SourceLocation, field: str) -> SourceLocation:
    """Return the place of a field of a row."""
    return SourceLocation(file=place.file, line=place.line, field=field)


def results_of(name: str, rows: Iterable[tuple[tuple[Any, ...], Any]], at: Any = None) -> Results:
    """Return results of rows (suite, runner, case_id, status, score), each with its time (ISO 8601 or anything).

    Rows of the same suite, runner and case are repetitions of it. Results begin at the first known time, else `at`.
    """
    counts: dict[tuple[str, str, str], int] = {}
    listed, times = [], []
    for (suite, runner, case_id, status, score), time in rows:
        key = (suite, runner, case_id)
        counts[key] = counts.get(key, 0) + 1
        listed.append((*key, counts[key], status, score, None, None))
        times.append(parse_time(time if isinstance(time, str) else None))
    frame = pl.DataFrame(listed, schema=RESULT_COLUMNS, orient="row")
    return Results(name, frame, min((time for time in times if time is not None), default=at))


class OwnResultFile:
    """Reader of our `json` and `jsonl` exports."""

    def claims(self, path: Path, first: JsonMap | None) -> bool:
        return first is not None and "case_id" in first

    def read(self, path: Path, name: str) -> Results:
        if not path.is_file():
            raise InputError("expected a file of results", SourceLocation(file=show_path(path)))
        return results_of(name, _own_rows(path))


def _own_rows(path: Path) -> Iterator[tuple[tuple[Any, ...], Any]]:
    for line, row in json_rows(path, "case_id and score"):
        place = SourceLocation(show_path(path), line)
        status = text_field(row, "status", place)
        if status not in set(Status):
            raise InputError(f"expected one of {', '.join(Status)}, got '{status}'", field_place(place, "status"))
        score = None if status == Status.ERROR.value else number_field(row, "score", place)
        names = [text_field(row, name, place) for name in ("suite", "runner", "case_id")]
        yield (*names, status, score), row.get("finished_at") or row.get("decided_at")
