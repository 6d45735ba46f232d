"""`csv` and `parquet`: a row for each plan, with the same columns in both. Unknown is empty."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import polars as pl

from eval_pipeline.exports import EXPORTS, ExportOptions, FileChunk
from eval_pipeline.fingerprints import to_json
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.parsing.visible import visible_cell
from eval_pipeline.reports.usage import Usage
from eval_pipeline.warehouse.parquet_files import ROWS_OF_BATCH, write_frames

_TIME = pl.Datetime("us", "UTC")
_TEXT, _WHOLE, _NUMBER = pl.String, pl.Int64, pl.Float64
_USAGE = ("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
COLUMNS: dict[str, Any] = {
    "suite": _TEXT, "case_id": _TEXT, "runner": _TEXT, "repetition": _WHOLE, "status": _TEXT, "score": _NUMBER,
    "failure_class": _TEXT, "reason": _TEXT, "output": _TEXT, "model": _TEXT, "adapter": _TEXT, "tags": pl.List(_TEXT),
    "started_at": _TIME, "finished_at": _TIME, "decided_at": _TIME, "duration_ms": _NUMBER,
    **dict.fromkeys(_USAGE, _WHOLE), "cost_usd": _NUMBER, "attempts": _WHOLE, "error": _TEXT, "execution_id": _TEXT,
    "sweep_id": _TEXT, "suite_revision": _TEXT, "runner_revision": _TEXT,
    "scores": pl.List(pl.Struct({"evaluator": _TEXT, "type": _TEXT, "value": _NUMBER, "reason": _TEXT})),
}  # fmt: skip
_CHUNK_BYTES = 1 << 20
_NAMES_OF_ROW = (
    "suite", "case_id", "runner", "repetition", "output", "model", "adapter", "started_at", "finished_at", "decided_at",
    "duration_ms", "attempts", "error", "execution_id", "sweep_id", "suite_revision", "runner_revision",
)  # fmt: skip
_OF_ROW = attrgetter(*_NAMES_OF_ROW)


def flat_row(record: ResultRow) -> dict[str, Any]:
    """Return the values of a plan by column."""
    verdict, report = record.verdict, record.report
    usage = report.usage if report is not None else Usage()
    scores = [
        {"evaluator": score.evaluator, "type": score.type, "value": score.value, "reason": score.reason}
        for score in record.scores
    ]
    return {
        **dict(zip(_NAMES_OF_ROW, _OF_ROW(record), strict=True)),
        "status": verdict.status.value, "score": verdict.score, "failure_class": verdict.failure_class,
        "reason": verdict.reason, "tags": list(record.tags), "scores": scores,
        "cost_usd": report.cost_usd if report is not None else None,
        **{name: getattr(usage, name) for name in _USAGE},
    }  # fmt: skip


@EXPORTS.register("csv")
class Csv:
    """A line for each plan; lists are JSON, and a text that a spreadsheet would take for a formula gets a `'`."""

    folder: ClassVar[bool] = False

    def pieces(self, records: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]:
        yield _lines([list(COLUMNS)])
        for record in records:
            row = flat_row(record)
            yield _lines([[visible_cell(_cell(row[name])) for name in COLUMNS]])


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return to_json(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else value


def _lines(rows: list[list[Any]]) -> FileChunk:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return FileChunk("", out.getvalue().encode())


@EXPORTS.register("parquet")
class Parquet:
    """A row for each plan, with typed columns; `scores` is a list of evaluators with value and reason."""

    folder: ClassVar[bool] = False
    binary: ClassVar[bool] = True

    def pieces(self, records: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]:
        frames = (pl.DataFrame(rows, schema=COLUMNS, orient="row") for rows in _batches(records))
        with TemporaryDirectory() as folder:
            path = Path(folder, "rows.parquet")
            write_frames(frames, COLUMNS, path)
            with path.open("rb") as file:
                yield from (FileChunk("", data) for data in iter(lambda: file.read(_CHUNK_BYTES), b""))


def _batches(records: Iterable[ResultRow]) -> Iterator[list[tuple[Any, ...]]]:
    rows: list[tuple[Any, ...]] = []
    for record in records:
        row = flat_row(record)
        rows.append(tuple(_valid(row[name]) for name in COLUMNS))
        if len(rows) == ROWS_OF_BATCH:
            yield rows
            rows = []
    if rows:
        yield rows


def _valid(value: Any) -> Any:
    """Return a value whose texts are UTF-8: halves of characters become escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {name: _valid(item) for name, item in value.items()}
    return [_valid(item) for item in value] if isinstance(value, list) else value
