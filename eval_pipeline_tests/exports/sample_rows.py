"""Records to export and results to compare, as short as a test needs them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from eval_pipeline.exports import EXPORTS, ExportOptions, FileChunk
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.leaderboards.results import RESULT_COLUMNS, Results
from eval_pipeline.reports.model import MessageEvent, SessionReport, ToolCallEvent, ToolResultEvent, Usage
from eval_pipeline.scores.model import Score, Status, Verdict

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def a_score(evaluator: str = "polite", value: float | None = 1.0, **fields: Any) -> Score:
    given = {"execution_id": "e1", "spec_key": evaluator, "type": "contains", "reason": f"{evaluator} was looked at"}
    return Score(evaluator=evaluator, value=value, **{**given, **fields})


def a_verdict(status: Status = Status.PASSED, score: float | None = None, **fields: Any) -> Verdict:
    """A verdict whose score and failure class follow from its status unless given."""
    value = {Status.PASSED: 1.0, Status.UNEXPECTED_PASSED: 1.0, Status.ERROR: None}.get(status, 0.0)
    classes = {Status.PASSED: None, Status.ERROR: "timeout", Status.UNEXPECTED_PASSED: "unexpected-passed"}
    given = {
        "score": value if score is None else score,
        "ungated_score": value if score is None else score,
        "threshold": 0.8,
        "failure_class": classes.get(status, "assertion"),
        "reason": f"it is {status.value}",
    }
    return Verdict(status=status, **{**given, **fields})


def a_report(**fields: Any) -> SessionReport:
    """A session of a second with one tool call between two answers, and its tokens."""
    events = (
        MessageEvent(role="assistant", text="let me look", phase="commentary", at="2026-03-01T12:00:00.100Z"),
        ToolCallEvent(tool="Read", call_id="1", arguments={"path": "a.txt"}, at="2026-03-01T12:00:00.200Z"),
        ToolResultEvent(tool="Read", call_id="1", output="four", is_error=False, at="2026-03-01T12:00:00.450Z"),
        MessageEvent(role="assistant", text="4", phase="final", at="2026-03-01T12:00:00.900Z"),
    )
    usage = Usage(input_tokens=110, cached_input_tokens=10, output_tokens=5, cost_usd=0.002, cost_source="reported")
    given = {"final_output": "4", "model": "gpt-5", "usage": usage, "events": events, "duration_ms": 1_000.0,
             "model_calls": 2}  # fmt: skip
    return SessionReport(execution_id="e1", **{**given, **fields})


def a_record(case: str = "sum", runner: str = "solver", status: Status = Status.PASSED, **fields: Any) -> ResultRow:
    """A cell at noon: one case of suite `maths`, answered in a second, one evaluator."""
    repetition = fields.pop("repetition", 1)
    given: dict[str, Any] = {
        "suite": "maths",
        "execution_id": f"{case}-{runner}-{repetition}",
        "verdict": a_verdict(status),
        "suite_path": "suites/maths.yaml",
        "adapter": "chat",
        "started_at": NOON,
        "finished_at": NOON + SECOND,
        "input": [{"role": "user", "content": "What is 2 + 2?", "name": None, "tool_calls": []}],
        "report": a_report(),
        "scores": (a_score(value=a_verdict(status).score),),
    }
    return ResultRow(case_id=case, runner=runner, repetition=repetition, **{**given, **fields})


def exported(format_: str, *records: ResultRow, content: bool = False) -> dict[str, bytes]:
    """The files of an export by path; the only file of a format has the empty path."""
    format_class = EXPORTS.get(format_)
    return joined(format_class().pieces(iter(records), ExportOptions(name="current", at=NOON, content=content)))


def spans(*records: ResultRow, content: bool = False, format_: str = "otel") -> list[dict[str, Any]]:
    """The spans of an OpenTelemetry export."""
    document = json.loads(exported(format_, *records, content=content)[""])
    (resource,) = document["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    actual: list[dict[str, Any]] = scope["spans"]
    return actual


def joined(pieces: Iterable[FileChunk]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for path, data in pieces:
        files[path] = files.get(path, b"") + data
    return files


def results(name: str, scores: Mapping[str, float | None], **fields: Any) -> Results:
    """Results of suite `s` by runner `r`; a case passes from 0.8, without a score it could not be graded."""
    rows = [
        {"suite": "s", "runner": "r", "case_id": case, "repetition": 1, "score": score, "content": None,
         "status": "error" if score is None else "passed" if score >= 0.8 else "failed", **fields}
        for case, score in scores.items()
    ]  # fmt: skip
    return Results(name, pl.DataFrame(rows, schema=RESULT_COLUMNS))
