"""AgentV's result files: export of rows under its names, and readers of its run folders and result files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.exports.json import Json
from eval_pipeline.exports.jsonl import JsonLines
from eval_pipeline.exports.result_files import json_rows, number_field, results_of, text_field
from eval_pipeline.formats.agentv.results import result_json
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.leaderboards.results import Results
from eval_pipeline.parsing.source import show_path
from eval_pipeline.scores.model import Status

INDEX = "index.jsonl"
_STATUSES = {"ok": Status.PASSED, "quality_failure": Status.FAILED, "execution_error": Status.ERROR}
_CAMEL = {"testId": "test_id", "executionStatus": "execution_status"}
_PASS_MARK = 0.8


class AgentVJson(Json):
    """`{"results": [...], "stats": {...}}` with rows under AgentV's names."""

    def row(self, record: ResultRow) -> Mapping[str, Any]:
        return result_json(record)


class AgentVJsonLines(JsonLines):
    """One row per line under AgentV's names, as its `--output results.jsonl` writes them."""

    def row(self, record: ResultRow) -> Mapping[str, Any]:
        return result_json(record)


class AgentVResultFile:
    """Reader of a run folder, its `index.jsonl`, or a file of AgentV's rows; older files have camelCase keys."""

    def claims(self, path: Path, first: Mapping[str, Any] | None) -> bool:
        named = first is not None and ("test_id" in first or "testId" in first)
        return named or path.is_dir() or path.name == INDEX

    def read(self, path: Path, name: str) -> Results:
        file = path / INDEX if path.is_dir() else path
        if not file.is_file():
            raise InputError(f"a run folder has an {INDEX}", SourceLocation(file=show_path(file)))
        return results_of(name, _rows(file), _time_of_folder(file.parent.name))


def _rows(file: Path) -> Iterator[tuple[tuple[Any, ...], Any]]:
    for line, given in json_rows(file, "test_id and score"):
        place = SourceLocation(file=show_path(file), line=line)
        row = {**{_CAMEL.get(key, key): value for key, value in given.items()}, **given}
        suite, target = text_field(row, "suite", place, ""), text_field(row, "target", place, "")
        names = (suite, target, text_field(row, "test_id", place))
        listed = row.get("trials")
        for each in listed if isinstance(listed, list) and listed else (row,):
            if not isinstance(each, Mapping):
                raise InputError("expected a list of mappings", replace(place, field="trials"))
            yield (*names, *_outcome(each, place)), row.get("timestamp")


def _outcome(row: Mapping[str, Any], place: SourceLocation) -> tuple[str, float | None]:
    """Return status and score: ours if present, else AgentV's, else by its default pass mark."""
    theirs, ours = row.get("execution_status"), row.get("status")
    if theirs == "execution_error" or ours == Status.ERROR.value:
        return Status.ERROR.value, None
    score = number_field(row, "score", place)
    if isinstance(ours, str) and ours in set(Status):
        return ours, score
    passed = Status.PASSED if score >= _PASS_MARK else Status.FAILED
    return _STATUSES.get(str(theirs), passed).value, score


def _time_of_folder(name: str) -> datetime | None:
    """Return the time in the name of a run folder: `2026-03-01T10-00-00-000Z`."""
    try:
        return datetime.strptime(name, "%Y-%m-%dT%H-%M-%S-%fZ").replace(tzinfo=UTC)
    except ValueError:
        return None
