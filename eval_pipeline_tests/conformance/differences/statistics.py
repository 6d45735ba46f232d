"""Differences about statistics: what cannot be known is None, never a number."""

from __future__ import annotations

import json
import re

import pytest

from eval_pipeline.reports.moments import parse_time
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Difference, Observations
from eval_pipeline_tests.conformance.peers_repetitions import is_mismatched, is_no_rating, is_unknown_level
from eval_pipeline_tests.conformance.recorded_facts import Row

_SHOWING = 5
"""Fewer cases that all move alike do so by chance in more than 5 % of times."""


def _of_one_value(row: Row) -> bool:
    return row.kind in ("variance", "ci_t") and len(row.data["input"]["values"]) == 1


def _is_unknown(row: Row, observations: Observations) -> None:
    """The mean of one value is known, its spread is not."""
    values = observations[AS_WRITTEN].values
    spread = values["value"] if row.kind == "variance" else values["interval"]
    assert spread is None
    assert row.kind == "variance" or values["mean"] is not None


def _more_tries_than_repetitions(row: Row) -> bool:
    if row.kind != "pass_at_k":
        return False
    given = row.data["input"]
    return bool(given["c"] <= given["n"] < given["k"])


def _no_value(row: Row, observations: Observations) -> None:
    assert observations[AS_WRITTEN].values == {"value": None}


def _nothing_to_pair(row: Row) -> bool:
    return row.kind == "determineMatrixExitCode" and not row.data["args"][0]["pairwise"]


def _has_its_exit_code(row: Row, observations: Observations) -> None:
    assert observations[AS_WRITTEN].values == {"code": 3}


def _trend_of_few(row: Row) -> bool:
    if row.kind != "analyzeTrend":
        return False
    summary = row.data["result"]["summary"]
    return bool(summary["direction"] != "stable" and summary["matchedTestCount"] < _SHOWING)


def _shows_no_trend(row: Row, observations: Observations) -> None:
    """The line is AgentV's; that so few cases show a direction is not claimed."""
    summary, expected = observations[AS_WRITTEN].values["summary"], row.data["result"]["summary"]
    assert [round(summary[name], 3) for name in ("slope", "intercept")] == [expected["slope"], expected["intercept"]]
    assert (summary["direction"], summary["decision"]) == ("stable", "INCONCLUSIVE")
    assert observations[AS_WRITTEN].values["code"] == 0


def _without_an_end(row: Row) -> bool:
    return row.kind == "computeTraceSummary" and not {"startTime", "endTime"} <= row.data["result"].keys()


def _last_known_time(row: Row, observations: Observations) -> None:
    """Without any time of the session, those of its execution; without an end, the last time that is known."""
    values, expected = observations[AS_WRITTEN].values, row.data["result"]
    trace = values["trace"]
    if "startTime" in expected:
        starts = re.findall(r'"startTime": "([^"]+)"', json.dumps(row.data["args"]))
        assert [trace["start_time"], parse_time(trace["end_time"])] == [expected["startTime"], parse_time(max(starts))]
    else:
        assert trace["start_time"] <= trace["end_time"] <= values["end_time"]
    assert trace["tool_calls"] == expected["trace"]["toolCalls"]


def _reduces_what_is_there(row: Row, observations: Observations) -> None:
    """Each value is reduced over the repetitions that have it."""
    given, reduced = row.data["input"]["values"], observations[AS_WRITTEN].values["value"]
    named = [value if isinstance(value, dict) else dict(enumerate(value)) for value in given]
    present = {part: [value[part] for value in named if part in value] for part in {**named[0], **named[1]}}
    means = [sum(values) / len(values) for values in present.values()]
    assert len({len(values) for values in present.values()}) > 1
    assert reduced == pytest.approx(means, abs=1e-9)


def _is_not_rated(row: Row, observations: Observations) -> None:
    assert observations[AS_WRITTEN].values == {"value": None}


def _names_the_levels(row: Row, observations: Observations) -> None:
    values = observations[AS_WRITTEN].values
    assert values["code"] == 2
    assert "krippendorffs_alpha" in values["error"]


STATISTICS = (
    Difference(
        "values that repetitions lack",
        "the peer refuses to reduce repetitions that have not the same values; here each evaluator's scores are "
        "reduced over the repetitions that it could grade, and the others are counted as ungraded",
        is_mismatched,
        _reduces_what_is_there,
    ),
    Difference(
        "ratings that are no numbers",
        "the peer raises for texts on a scale of numbers; here a grader whose reply has no score has not rated, its "
        "sub-score says why, and agreement is over those that did",
        is_no_rating,
        _is_not_rated,
    ),
    Difference(
        "levels without an alpha",
        "the peer raises for a level that it does not have; here levels are columns of a view, and a column that it "
        "does not have is an error of the query which names those that it has",
        is_unknown_level,
        _names_the_levels,
    ),
    Difference(
        "end of a session",
        "AgentV knows no times of a session whose messages do not report them; here they are those of its execution, "
        "and a session without an end ends with the last thing that is known of it",
        _without_an_end,
        _last_known_time,
    ),
    Difference(
        "a trend of few cases",
        "AgentV calls a trend degrading by its slope alone, which unchanged runners reach in many runs; here the cases "
        "have to show it",
        _trend_of_few,
        _shows_no_trend,
    ),
    Difference(
        "nothing to pair",
        "AgentV ends with 0 when no two targets have a test in common; that nothing was compared is exit code 3",
        _nothing_to_pair,
        _has_its_exit_code,
    ),
    Difference(
        "spread of one value",
        "the peer gives one value a variance of 0 and an interval without width; of one value neither is known",
        _of_one_value,
        _is_unknown,
    ),
    Difference(
        "too few repetitions",
        "the peer raises for more tries than repetitions; a board of many suites reports the others and no value here",
        _more_tries_than_repetitions,
        _no_value,
    ),
)
