"""AgentV's rows about results of runs: verdicts, summaries, repeated tests, and what a session did in numbers.

Every row is a suite of one sweep. Its runner replays the recorded scores or messages; verdicts, views and exports are
compared with the row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from eval_pipeline import open_results
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations
from eval_pipeline_tests.conformance.public_verbs import ProjectOnDisk, Sweep, once
from eval_pipeline_tests.conformance.recorded_facts import Row, rows_of
from eval_pipeline_tests.conformance.row_outcomes import not_offered

Json = Mapping[str, Any]
GIVEN = {"type": "python", "name": "given", "value": "float(output)"}
ANY = {"type": "python", "name": "any", "value": "True"}


def observe(row: Row) -> Observations:
    """Return what the tables, views or exports hold of a row's suite."""
    skip_unreachable(row)
    return {AS_WRITTEN: Observation(values=_OBSERVERS[row.kind](row, _sweep()))}


def check(row: Row, seen: Observation) -> None:
    """Assert that it is what AgentV reports."""
    _CHECKS[row.kind](row, seen.values)


def skip_unreachable(row: Row) -> None:
    """Skip rows that set what no suite and no option sets."""
    if row.kind == "explorationRatio" and len(row.data["args"]) > 1:
        not_offered("tools of one's own choice that count as exploring")


@once
def _sweep() -> Sweep:
    project = ProjectOnDisk()
    for row in rows_of("agentv"):
        if row.kind in KINDS:
            document, answers = _BUILDERS[row.kind](row)
            project.add_suite(_name(row), document, answers)
    return project.run()


def _name(row: Row) -> str:
    return f"{row.file.replace('_', '-')}-{row.number}"


def _export(row: Row, sweep: Sweep) -> Json:
    line: Json = json.loads(sweep.export("agentv-jsonl", _name(row)))
    return line


# Verdicts


def _scored(score: float, threshold: float | None) -> tuple[Json, Sequence[Json]]:
    execution = {"execution": {"threshold": threshold}} if threshold is not None else {}
    return {**execution, "tests": [_test("t", GIVEN)]}, [{"case": "t", "output": str(score)}]


def _test(id_: str, *evaluators: Json) -> Json:
    return {"id": id_, "input": "a question", "assertions": list(evaluators)}


def _verdict(row: Row, sweep: Sweep) -> Json:
    return {"verdict": {"passed": "pass", "failed": "fail"}[sweep.suites[_name(row)].case.verdict["status"]]}


def _check_verdict(row: Row, values: Json) -> None:
    assert values["verdict"] == row.data["result"]


# Summaries


def _summarized(row: Row) -> tuple[Json, Sequence[Json]]:
    results, options = row.data["args"][0], (row.data["args"][1:] or [None])[0] or {}
    answers = [_answer_of_result(result) for result in results]
    threshold = {"execution": {"threshold": options["threshold"]}} if "threshold" in options else {}
    return {**threshold, "tests": [_test(result["testId"], GIVEN) for result in results]}, answers


def _answer_of_result(result: Json) -> Json:
    if result.get("executionStatus") == "execution_error":
        return {"case": result["testId"], "error": "as recorded"}
    return {"case": result["testId"], "output": str(result["score"])}


def _summary(row: Row, sweep: Sweep) -> Json:
    stats: Json = json.loads(sweep.export("json", _name(row)))["stats"]
    return stats


def _check_summary(row: Row, values: Json) -> None:
    expected = row.data["result"]

    counts = ("total", "passed", "failed", "errors")
    theirs = ("total", "passedCount", "qualityFailureCount", "executionErrorCount")
    assert [values[name] for name in counts] == [expected[name] for name in theirs]
    if not values["graded"]:
        return
    ours = [values[f"{name}_score"] for name in ("mean", "median", "min", "max")]
    assert ours == pytest.approx([expected[name] for name in ("mean", "median", "min", "max")])
    assert values["graded"] < 2 or values["standard_deviation"] == pytest.approx(expected["standardDeviation"])
    assert values["histogram"] == [bucket["count"] for bucket in expected["histogram"]]
    for ends, listed in (("top", "topResults"), ("bottom", "bottomResults")):
        assert [name.partition("/")[2] for name in values[ends]] == [result["testId"] for result in expected[listed]]


# Repeated tests


def _repeated(row: Row) -> tuple[Json, Sequence[Json]]:
    trials = row.data["trials"]
    settings = {"count": len(trials), "strategy": row.data["config"]["strategy"]}
    answers = [
        {"case": "t", "repetition": number, "output": str(trial["score"])}
        for number, trial in enumerate(trials, start=1)
    ]
    return {"execution": {"trials": settings}, "tests": [_test("t", GIVEN)]}, answers


def _result(row: Row, sweep: Sweep) -> Json:
    with open_results(sweep.root / "data") as connection:
        query = "SELECT score, mean_score, worst, best, graded, passed, status FROM case_results WHERE suite = ?"
        cursor = connection.execute(query, [_name(row)])
        (line,) = cursor.fetchall()
        return dict(zip((column[0] for column in cursor.description or ()), line, strict=True))


def _check_result(row: Row, values: Json) -> None:
    """AgentV's table of Student's t has three decimals."""
    assert values["score"] == pytest.approx(row.data["score"], abs=1e-3)
    observed = row.data.get("aggregation_observed") or {}
    names = {"mean": "mean_score", "min": "worst", "max": "best", "ci95Lower": "score", "passed_attempts": "passed",
             "passedAttempts": "passed"}  # fmt: skip
    for name in names.keys() & observed.keys():
        assert values[names[name]] == pytest.approx(observed[name], abs=1e-3)


# Sessions


def _talked(messages: Sequence[Json]) -> tuple[Json, Sequence[Json]]:
    return {"tests": [_test("t", ANY)]}, [{"case": "t", "messages": [_message(message) for message in messages]}]


def _message(message: Json) -> Json:
    """A recorded message as a recording holds it; one without a text has a word."""
    names = {"startTime": "start_time", "endTime": "end_time", "durationMs": "duration_ms"}
    renamed = {names.get(name, name): value for name, value in message.items() if name not in ("toolCalls", "role")}
    calls = [_message(call) for call in message.get("toolCalls") or ()]
    if "role" not in message:
        return renamed
    return {"role": message["role"], "content": "a word", **renamed, **({"tool_calls": calls} if calls else {})}


def _summarized_trace(trace: Json) -> tuple[Json, Sequence[Json]]:
    """A session that makes as many calls of each tool as a summary counts, as long as it says."""
    return _talked([{"role": "user"}, {"role": "assistant", "toolCalls": list(_calls(trace))}])


def _calls(trace: Json) -> Iterator[Json]:
    for tool, times in trace["toolCalls"].items():
        durations = (trace.get("toolDurations") or {}).get(tool) or []
        for number in range(times):
            yield {"tool": tool, **({"durationMs": durations[number]} if number < len(durations) else {})}


def _measured(row: Row) -> tuple[Json, Sequence[Json]]:
    """A summary of a session, and its tokens, cost and time."""
    first, *more = row.data["args"]
    metrics = (more[0] if more else None) or {}
    trace = first["trace"] if row.kind == "mergeExecutionMetrics" else first
    usage = metrics if row.kind == "tokensPerTool" else metrics.get("tokenUsage")
    measures = {"token_usage": usage, "cost_usd": metrics.get("costUsd"), "duration_ms": metrics.get("durationMs")}
    document, (answer,) = _summarized_trace(trace)
    return document, [{**answer, **{name: value for name, value in measures.items() if value is not None}}]


def _check_trace(row: Row, values: Json) -> None:
    expected, trace = row.data["result"], values["trace"]
    names = {"eventCount": "event_count", "toolCalls": "tool_calls", "errorCount": "error_count",
             "llmCallCount": "llm_call_count", "toolDurations": "tool_durations"}  # fmt: skip
    ours = {theirs: trace[name] for theirs, name in names.items() if name in trace}
    assert ours == expected["trace"]
    assert [trace.get("start_time"), trace.get("end_time")] == [expected.get("startTime"), expected.get("endTime")]


def _check_merged(row: Row, values: Json) -> None:
    expected = row.data["result"]

    assert values["trace"]["tool_calls"] == expected["trace"]["toolCalls"]
    theirs = [expected.get(name) for name in ("tokenUsage", "costUsd", "durationMs")]
    assert [values.get(name) for name in ("token_usage", "cost_usd", "duration_ms")] == theirs


def _check_number(name: str) -> Callable[[Row, Json], None]:
    def check_number(row: Row, values: Json) -> None:
        expected = row.data["result"]
        actual = values["trace"].get(name)
        assert actual == (None if expected is None else pytest.approx(expected))

    return check_number


_NUMBERS = {
    "explorationRatio": "exploration_ratio",
    "avgToolDurationMs": "mean_tool_ms",
    "tokensPerTool": "tokens_per_tool",
}
_BUILDERS: Mapping[str, Callable[[Row], tuple[Json, Sequence[Json]]]] = {
    "scoreToVerdict": lambda row: _scored(row.data["args"][0], (*row.data["args"], None)[1]),
    "calculateEvaluationSummary": _summarized,
    "trials": _repeated,
    "computeTraceSummary": lambda row: _talked(row.data["args"][0]),
    **dict.fromkeys((*_NUMBERS, "mergeExecutionMetrics"), _measured),
}
KINDS = frozenset(_BUILDERS)
_OBSERVERS: Mapping[str, Callable[[Row, Sweep], Json]] = {
    "scoreToVerdict": _verdict,
    "calculateEvaluationSummary": _summary,
    "trials": _result,
    **dict.fromkeys(("computeTraceSummary", "mergeExecutionMetrics", *_NUMBERS), _export),
}
_CHECKS: Mapping[str, Callable[[Row, Json], None]] = {
    "scoreToVerdict": _check_verdict,
    "calculateEvaluationSummary": _check_summary,
    "trials": _check_result,
    "computeTraceSummary": _check_trace,
    "mergeExecutionMetrics": _check_merged,
    **{kind: _check_number(name) for kind, name in _NUMBERS.items()},
}
