"""Results as files: exports written so that nobody ever finds half of one, and result files read back.

An AgentV run folder, its `index.jsonl`, and our own `json` and `jsonl` exports can stand in for a sweep.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.exports import FileChunk
from eval_pipeline.leaderboards.results import RESULT_COLUMNS, Results
from eval_pipeline.parsing.source import show_path
from eval_pipeline.reports.moments import parse_time
from eval_pipeline.scores.model import Status

INDEX = "index.jsonl"
_STATUSES = {"ok": Status.PASSED, "quality_failure": Status.FAILED, "execution_error": Status.ERROR}
_PASS_MARK = 0.8


def write_file(pieces: Iterable[FileChunk], path: Path) -> None:
    """Writes the one file of an export beside its place and moves it there; an older one is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with beside.open("wb") as file:
            file.writelines(piece.data for piece in pieces)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_folder(pieces: Iterable[FileChunk], path: Path) -> None:
    """Writes the files of an export into a new folder beside its place and moves it there.

    Raises InputError when there is something already: an export never mixes with another.
    """
    _check_free(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        beside.mkdir()
        for piece in pieces:
            _append(beside, piece)
        _check_free(path)
        beside.replace(path)  # also over an empty folder
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _check_free(path: Path) -> None:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"{show_path(path)} exists already; name a new folder")


def _append(folder: Path, piece: FileChunk) -> None:
    path = folder / piece.path
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    with os.fdopen(descriptor, "ab") as file:
        file.write(piece.data)


def read_result_file(path: Path, name: str | None = None) -> Results:
    """The results in an AgentV run folder or `index.jsonl`, or in a `json` or `jsonl` export. Raises InputError.

    Rows of the same suite, target and test are repetitions of it; a test that could not be executed has no score.
    """
    file = path / INDEX if path.is_dir() else path
    if not file.is_file():
        what = f"a run folder has an {INDEX}" if path.is_dir() else "expected a run folder or a file of results"
        raise InputError(what, SourceLocation(file=show_path(file)))
    counts: dict[tuple[str, str, str], int] = {}
    found, times = [], []
    for line, row in _rows(file):
        place = SourceLocation(file=show_path(file), line=line)
        cell = (_text(row, "suite", place, ""), _text(row, "target", place, ""), _text(row, "test_id", place))
        counts[cell] = counts.get(cell, 0) + 1
        status, score = _outcome(row, place)
        found.append((*cell[:2], cell[2], counts[cell], status, score, None))
        times.append(parse_time(row.get("timestamp") if isinstance(row.get("timestamp"), str) else None))
    frame = pl.DataFrame(found, schema=RESULT_COLUMNS, orient="row")
    began = min((time for time in times if time is not None), default=None)
    return Results(name or show_path(path), frame, began or _time_of_folder(file.parent.name))


def _rows(file: Path) -> Iterator[tuple[int | None, Mapping[str, Any]]]:
    data = file.read_bytes()
    if file.suffix == ".json":
        document = _json(data, SourceLocation(file=show_path(file)))
        listed = document.get("results") if isinstance(document, dict) else None
        if not isinstance(listed, list):
            raise InputError("expected a list", SourceLocation(file=show_path(file), field="results"))
        rows: Iterable[tuple[int | None, Any]] = ((None, row) for row in listed)
    else:
        lines = enumerate(data.split(b"\n"), start=1)
        rows = ((n, _json(line, SourceLocation(file=show_path(file), line=n))) for n, line in lines if line.strip())
    for line, row in rows:
        if not isinstance(row, dict):
            raise InputError(
                "expected an object with test_id and score", SourceLocation(file=show_path(file), line=line)
            )
        yield line, row


def _json(data: bytes, place: SourceLocation) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InputError(f"not JSON: {error}", place) from None


def _text(row: Mapping[str, Any], key: str, place: SourceLocation, default: str | None = None) -> str:
    """A name in a row; in camel case too, as AgentV's older files have it."""
    value = row.get(key, row.get(_CAMEL.get(key, key), default))
    if not isinstance(value, str):
        raise InputError(f"expected a text, got {orjson.dumps(value).decode()}", _field(place, key))
    return value


_CAMEL = {"test_id": "testId", "execution_status": "executionStatus"}


def _outcome(row: Mapping[str, Any], place: SourceLocation) -> tuple[str, float | None]:
    """Our status and score: ours where the row says it, else by AgentV's word, else by its usual pass mark."""
    said = row.get("execution_status", row.get("executionStatus"))
    ours = row.get("status")
    score = row.get("score")
    if said == "execution_error" or ours == Status.ERROR.value:
        return Status.ERROR.value, None
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        raise InputError(f"expected a number, got {orjson.dumps(score).decode()}", _field(place, "score"))
    if isinstance(ours, str) and ours in set(Status):
        return ours, float(score)
    passed = Status.PASSED if score >= _PASS_MARK else Status.FAILED
    return _STATUSES.get(str(said), passed).value, float(score)


def _field(place: SourceLocation, field: str) -> SourceLocation:
    return SourceLocation(file=place.file, line=place.line, field=field)


def _time_of_folder(name: str) -> datetime | None:
    """The time that a run folder's name says: `2026-03-01T10-00-00-000Z`."""
    try:
        return datetime.strptime(name, "%Y-%m-%dT%H-%M-%S-%fZ").replace(tzinfo=UTC)
    except ValueError:
        return None
