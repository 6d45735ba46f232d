"""AgentV's rows about results: comparing, trends, exit codes, summaries, and what a session did in numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import polars as pl
import pytest

from eval_pipeline.exports.tool_calls import TraceSummary, summarize_trace, trace_json
from eval_pipeline.formats.agentv.results import result_json
from eval_pipeline.leaderboards.comparisons import Comparison, compare, got_worse, matrix, outcome_of
from eval_pipeline.leaderboards.results import RESULT_COLUMNS, Results
from eval_pipeline.leaderboards.trends import direction_of, trend
from eval_pipeline.reports.model import Event, MessageEvent, SessionReport, ToolCallEvent, ToolResultEvent, Usage
from eval_pipeline.reports.moments import iso, parse_time
from eval_pipeline.scores.model import at_least
from eval_pipeline.statistics.distributions import distribution
from eval_pipeline.statistics.repetitions import reduce_repetitions
from eval_pipeline_tests.conformance.recorded_facts import Row
from eval_pipeline_tests.exports.sample_rows import a_record

PASS_MARK = 0.8
DIGITS = 3


def check_output(row: Row) -> None:
    """We answer as the row says."""
    if row.kind == "trials":
        _repeated(row)
    else:
        CHECKS[row.kind](*row.data["args"], expected=row.data["result"])


def _repeated(row: Row) -> None:
    """How several trials become one score. AgentV's table of Student's t has three decimals."""
    scores = [trial["score"] for trial in row.data["trials"]]
    reducer = REDUCER_OF_STRATEGY[row.data["config"]["strategy"]]

    assert reduce_repetitions(scores, reducer) == pytest.approx(row.data["score"], abs=1e-3)
    observed = row.data.get("aggregation_observed") or {}
    for name in {"mean", "min", "max"} & set(observed):
        assert reduce_repetitions(scores, name) == pytest.approx(observed[name])


REDUCER_OF_STRATEGY = {
    "pass_at_k": "max", "pass_any": "max", "pass_all": "min", "mean": "mean", "confidence_interval": "lower_bound",
}  # fmt: skip


def _results(name: str, rows: Sequence[Mapping[str, Any]]) -> Results:
    actual = [
        ("suite", "runner", row["testId"], number, "passed", row["score"], None) for number, row in enumerate(rows)
    ]
    return Results(name, pl.DataFrame(actual, schema=RESULT_COLUMNS, orient="row"))


def _as_agentv(comparison: Comparison) -> dict[str, Any]:
    """A comparison in AgentV's shape, without its count of rows."""
    summary = comparison.summary
    names = {"testId": "case_id", "score1": "score_baseline", "score2": "score_candidate", "delta": "delta",
             "outcome": "outcome"}  # fmt: skip
    paired = comparison.cases.filter(pl.col("delta").is_not_null())
    return {
        "matched": [{theirs: row[ours] for theirs, ours in names.items()} for row in paired.iter_rows(named=True)],
        "unmatched": {"file1": summary.only_baseline, "file2": summary.only_candidate},
        "summary": {
            "matched": summary.paired,
            "wins": summary.wins,
            "losses": summary.losses,
            "ties": summary.ties,
            "meanDelta": round(summary.mean_delta or 0.0, DIGITS),
        },
    }


def _without_total(expected: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {name: value for name, value in expected["summary"].items() if name != "total"}
    return {**{name: expected[name] for name in ("matched", "unmatched")}, "summary": numbers}


def _compared(
    first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]], threshold: float = 0.1, *, expected: Any
) -> None:
    comparison = compare(_results("1", first), _results("2", second), threshold=threshold)

    theirs = _without_total(expected)
    theirs["matched"] = sorted(theirs["matched"], key=lambda one: str(one["testId"]))
    assert _as_agentv(comparison) == theirs


def _matrix(sides: Mapping[str, Any], threshold: float = 0.1, *, expected: Any) -> None:
    results = [_results(name, rows) for name, rows in sorted(sides["__map"])]

    rows = matrix(results).iter_rows(named=True)
    pairs = [compare(*sides, threshold=threshold) for sides in combinations(results, 2)]

    names = [side.name for side in results]
    assert names == expected["targets"]
    assert [
        {"testId": row["case_id"], "scores": {name: row[name] for name in names if row[name] is not None}}
        for row in rows
    ] == sorted(expected["matrix"], key=lambda one: str(one["testId"]))
    assert [(pair.baseline, pair.candidate, _as_agentv(pair)) for pair in pairs] == [
        (pair["baseline"], pair["candidate"], _without_total(pair)) for pair in expected["pairwise"]
    ]


def _classified(delta: float, threshold: float = 0.1, *, expected: Any) -> None:
    assert pl.select(outcome_of(pl.lit(delta), threshold)).item() == expected


def _exit_code(mean_delta: float, *, expected: Any) -> None:
    assert int(got_worse([("a", "b", mean_delta)], "a")) == expected


def _matrix_exit_code(found: Mapping[str, Any], baseline: str | None = None, *, expected: Any) -> None:
    deltas = [(pair["baseline"], pair["candidate"], pair["summary"]["meanDelta"]) for pair in found["pairwise"]]

    assert int(baseline is not None and got_worse(deltas, baseline)) == expected


def _trend(asked: Mapping[str, Any], *, expected: Any) -> None:
    """The files of the run are gone; what is recorded of each is its mean over so many tests."""
    sweeps = [
        _results(run["label"], [{"testId": f"t{n}", "score": run["meanScore"]} for n in range(run["matchedTestCount"])])
        for run in expected["runs"]
    ]

    result = trend(sweeps, slope_threshold=asked["slopeThreshold"], allow_missing=asked["allowMissingTests"])

    theirs, line = expected["summary"], result.line
    assert result.direction == theirs["direction"]
    if {run["matchedTestCount"] for run in expected["runs"]} == {theirs["matchedTestCount"]}:  # rows, and ids of tests
        assert result.matched == theirs["matchedTestCount"]
    assert (line.slope, line.intercept) == pytest.approx((theirs["slope"], theirs["intercept"]), abs=5e-4)
    assert line.r_squared is None or line.r_squared == pytest.approx(theirs["rSquared"], abs=5e-4)
    triggered = asked["failOnDegrading"] and result.direction == "degrading"
    assert triggered == expected["regression"]["triggered"]


def _direction(slope: float, threshold: float = 0.01, *, expected: Any) -> None:
    assert direction_of(slope, threshold) == expected


def _trend_exit_code(direction: str, fail_on_degrading: bool = False, *, expected: Any) -> None:
    assert int(fail_on_degrading and direction == "degrading") == expected


def _summary(results: Sequence[Mapping[str, Any]], options: Mapping[str, Any] | None = None, *, expected: Any) -> None:
    graded = [(one["testId"], one["score"]) for one in results if one.get("executionStatus") != "execution_error"]

    actual = distribution(graded, (options or {}).get("threshold", PASS_MARK))

    assert (actual.count, actual.passed) == (
        expected["total"] - expected["executionErrorCount"],
        expected["passedCount"],
    )
    assert actual.count - actual.passed == expected["qualityFailureCount"]
    if graded:
        theirs = [expected[name] for name in ("mean", "median", "min", "max")]
        assert [actual.mean, actual.median, actual.least, actual.most] == pytest.approx(theirs)
        assert list(actual.buckets) == [bucket["count"] for bucket in expected["histogram"]]
        assert list(actual.top) == [one["testId"] for one in expected["topResults"]]
        assert list(actual.bottom) == [one["testId"] for one in expected["bottomResults"]]
    if len(graded) > 1:
        assert actual.deviation == pytest.approx(expected["standardDeviation"])


def _verdict(score: float, threshold: float = PASS_MARK, *, expected: Any) -> None:
    assert ("pass" if at_least(score, threshold) else "fail") == expected


def _trace_of(messages: Sequence[Mapping[str, Any]], *, expected: Any) -> None:
    ends = [message["endTime"] for message in messages if "endTime" in message]
    report = SessionReport(
        execution_id="e",
        events=tuple(event for message in messages for event in _events(message)),
        model_calls=sum(message["role"] == "assistant" for message in messages),
        ended_at=max(ends, default=None),
    )

    trace = summarize_trace(report)

    assert trace is not None
    theirs = expected["trace"]
    names = {"eventCount": "event_count", "toolCalls": "tool_calls", "errorCount": "error_count",
             "llmCallCount": "llm_call_count", "toolDurations": "tool_durations"}  # fmt: skip
    assert trace_json(trace) == {ours: theirs[name] for name, ours in names.items() if name in theirs}
    # Where AgentV knows no end, or something began after it, ours is the last time that is known.
    began = [iso(parse_time(one["startTime"])) for one in _timed(messages) if "startTime" in one]
    assert iso(trace.started_at) == expected.get("startTime")
    if "endTime" in expected and all(time <= expected["endTime"] for time in began if time is not None):
        assert iso(trace.ended_at) == expected["endTime"]


def _timed(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [*messages, *(call for message in messages for call in message.get("toolCalls") or ())]


def _events(message: Mapping[str, Any]) -> list[Event]:
    events: list[Event] = [MessageEvent(role=message["role"], text="said", at=message.get("startTime"))]
    for call in message.get("toolCalls") or ():
        events.append(ToolCallEvent(tool=call["tool"], at=call.get("startTime")))
        if "durationMs" in call or "endTime" in call:
            events.append(
                ToolResultEvent(tool=call["tool"], at=call.get("endTime"), duration_ms=call.get("durationMs"))
            )
    return events


def _summary_of(trace: Mapping[str, Any], usage: Usage | None = None) -> TraceSummary:
    return TraceSummary(
        tool_calls=trace["toolCalls"],
        tool_durations=trace.get("toolDurations") or {},
        error_count=trace["errorCount"],
        model_calls=trace.get("llmCallCount"),
        usage=usage or Usage(),
    )


def _usage(counted: Mapping[str, Any] | None) -> Usage:
    """AgentV's input is without what came from a cache, ours with it."""
    if counted is None:
        return Usage()
    cached = counted.get("cached")
    return Usage(
        input_tokens=counted["input"] + (cached or 0),
        cached_input_tokens=cached,
        output_tokens=counted["output"],
        reasoning_tokens=counted.get("reasoning"),
    )


def _exploration(trace: Mapping[str, Any], *tools: Sequence[str], expected: Any) -> None:
    assert _summary_of(trace).exploration_ratio(*tools) == (None if expected is None else pytest.approx(expected))


def _tokens_per_tool(trace: Mapping[str, Any], counted: Mapping[str, Any] | None = None, *, expected: Any) -> None:
    assert _summary_of(trace, _usage(counted)).tokens_per_tool == expected


def _mean_duration(trace: Mapping[str, Any], *, expected: Any) -> None:
    assert _summary_of(trace).mean_tool_ms == (None if expected is None else pytest.approx(expected))


def _merged(computed: Mapping[str, Any], metrics: Mapping[str, Any] | None = None, *, expected: Any) -> None:
    """What a session did and what it cost stand in one record; what was not measured is not there."""
    trace, measured = computed["trace"], metrics or {}
    calls = [ToolCallEvent(tool=tool) for tool, count in trace["toolCalls"].items() for _ in range(count)]
    report = SessionReport(
        execution_id="e",
        events=tuple(calls),
        duration_ms=measured.get("durationMs"),
        usage=replace(_usage(measured.get("tokenUsage")), cost_usd=measured.get("costUsd")),
    )

    actual = result_json(a_record(report=report))

    assert actual["trace"]["tool_calls"] == expected["trace"]["toolCalls"]
    theirs = [expected.get(name) for name in ("tokenUsage", "costUsd", "durationMs")]
    assert [actual.get(name) for name in ("token_usage", "cost_usd", "duration_ms")] == theirs


CHECKS: Mapping[str, Callable[..., None]] = {
    "compareResults": _compared,
    "compareMatrix": _matrix,
    "classifyOutcome": _classified,
    "determineExitCode": _exit_code,
    "determineMatrixExitCode": _matrix_exit_code,
    "analyzeTrend": _trend,
    "classifyTrendDirection": _direction,
    "determineTrendExitCode": _trend_exit_code,
    "calculateEvaluationSummary": _summary,
    "scoreToVerdict": _verdict,
    "computeTraceSummary": _trace_of,
    "explorationRatio": _exploration,
    "avgToolDurationMs": _mean_duration,
    "tokensPerTool": _tokens_per_tool,
    "mergeExecutionMetrics": _merged,
}
OUTPUT_KINDS = frozenset({*CHECKS, "trials"})
