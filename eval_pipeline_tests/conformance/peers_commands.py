"""Peers' rows about paired tests, intervals, gates and ratings: results files on disk, and what `compare` reports."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from eval_pipeline.leaderboards.regressions import RegressionRules, regression
from eval_pipeline.statistics.clusters import clustered_error, clustered_interval
from eval_pipeline.statistics.student import t_quantile
from eval_pipeline_tests.conformance.connexity_comparisons import measured
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations
from eval_pipeline_tests.conformance.public_verbs import CommandResult, command, new_folder, result_row, write_results
from eval_pipeline_tests.conformance.recorded_facts import Row
from eval_pipeline_tests.conformance.row_outcomes import not_offered

SCALE = 10.0
"""Values of rows reach to 9 and more; scores are in [0, 1]."""
_MIDDLE, _STEP = 0.5, 0.01


def compared(baseline: Sequence[Mapping[str, Any]], candidate: Sequence[Mapping[str, Any]], *options: object) -> Any:
    """Return what `compare --json` prints of two sets of rows."""
    folder = new_folder()
    sides = [write_results(folder, name, rows) for name, rows in (("before", baseline), ("after", candidate))]
    result = command("compare", *sides, "--json", *options)
    assert result.code in (0, 1, 3), result.err
    return result.json


def _scores(values: Sequence[float], **fields: Any) -> list[dict[str, Any]]:
    return [result_row(f"case-{number}", value, **fields) for number, value in enumerate(values)]


def near(row: Row, value: Any) -> Any:
    return pytest.approx(value, abs=row.data.get("tolerance", 1e-9), rel=row.data.get("tolerance_rel"))


# Intervals


def _student(row: Row) -> Observation:
    """The mean change of a case from 0 to each value; in tenths, because a score is at most 1."""
    values = [value / SCALE for value in row.data["input"]["values"]]
    summary = compared(_scores([0.0] * len(values)), _scores(values))["summary"]
    return Observation(values={"interval": summary["student_interval"], "mean": summary["mean_delta"]})


def _check_student(row: Row, seen: Observation) -> None:
    expected = row.data["expect"]

    assert seen.values["interval"] is not None
    assert [end * SCALE for end in seen.values["interval"]] == near(row, [expected["lower"], expected["upper"]])


def _quantile(row: Row) -> Observation:
    """The number of standard errors that the interval of `compare` reaches, over one more case than degrees."""
    count = row.data["input"]["df"] + 1
    after = [_MIDDLE + _STEP * (1 if number % 2 else -1) for number in range(count)]
    summary = compared(_scores([_MIDDLE] * count), _scores(after))["summary"]
    low, high = summary["student_interval"]
    error = statistics.stdev(value - _MIDDLE for value in after) / math.sqrt(count)
    return Observation(values={"quantile": (high - low) / 2 / error})


def _check_quantile(row: Row, seen: Observation) -> None:
    assert seen.values["quantile"] == near(row, row.data["expect"])


def _grouped(row: Row) -> Observation:
    given = row.data["input"]
    pairs = enumerate(zip(given["values"], given["groups"], strict=True))
    rows = [result_row(f"case-{number}", value / SCALE, suite=group) for number, (value, group) in pairs]
    result = compared(rows, rows)
    by_suite = {suite["suite"]: suite["mean_baseline"] * SCALE for suite in result["suites"]}
    return Observation(values={**by_suite, "all": result["summary"]["mean_baseline"] * SCALE})


def _check_grouped(row: Row, seen: Observation) -> None:
    assert seen.values == near(row, row.data["expect"])


def _clustered(row: Row) -> Observation:
    """Values of any range go through the functions that the interval of `compare` is computed with."""
    given = row.data["input"]
    clusters = [math.nan if name == "NaN" else name for name in given["clusters"]]
    try:
        error = clustered_error(given["values"], clusters)
    except ValueError as refused:
        return Observation(values={"refused": str(refused)})
    interval = clustered_interval(given["values"], clusters, given.get("level", 0.95))
    return Observation(values={"error": error, "interval": interval, "clusters": len(set(clusters))})


def _check_error(row: Row, seen: Observation) -> None:
    expected = row.data["expect"]
    if isinstance(expected, str):
        assert "has no cluster" in seen.values["refused"]
    else:
        assert seen.values["error"] == near(row, expected)


def _check_clustered_interval(row: Row, seen: Observation) -> None:
    """The row holds a formula: mean ± Student's quantile (clusters - 1) × clustered error."""
    given, values = row.data["input"], seen.values
    half = t_quantile(values["clusters"] - 1, given["level"]) * values["error"]
    middle = statistics.fmean(given["values"])

    assert "t(0.975,g-1)*clustered_stderr" in row.data["expect"]["formula"]
    assert list(values["interval"]) == near(row, [middle - half, middle + half])


# Paired tests


def _flipped(baseline: Sequence[float], candidate: Sequence[float]) -> Observation:
    result = compared(_scores(baseline), _scores(candidate))
    passes = result["summary"]["passes"]
    same = [case["pass_rate_baseline"] for case in result["matched"] if case["outcome"] == "tie"]
    return Observation(
        values={
            **passes,
            "paired": result["summary"]["paired"],
            "evidence": result["evidence_of_regression"],
            "stable_correct": same.count(1.0),
            "stable_wrong": same.count(0.0),
        }
    )


def _flips(row: Row) -> Observation:
    return _flipped(row.data["input"]["baseline"], row.data["input"]["candidate"])


def _check_flips(row: Row, seen: Observation) -> None:
    expected, values = row.data["expect"], seen.values

    names = {"n_paired": "paired", "n_regressions": "downs", "n_improvements": "ups",
             "n_stable_correct": "stable_correct", "n_stable_wrong": "stable_wrong"}  # fmt: skip
    assert {name: values[names[name]] for name in expected if name in names} == {
        name: value for name, value in expected.items() if name in names
    }
    assert values["downs"] / values["paired"] == near(row, expected["regression_rate"])


def _counted(row: Row) -> Observation:
    """As many cases that fell, rose and stayed as the row counts."""
    given = row.data["input"]
    downs, ups = given["regressions"], given["improvements"]
    ties = max(0, given.get("n", downs + ups) - downs - ups)
    return _flipped([1.0] * downs + [0.0] * ups + [1.0] * ties, [0.0] * downs + [1.0] * ups + [1.0] * ties)


def _check_mcnemar(row: Row, seen: Observation) -> None:
    expected, values = row.data["expect"], seen.values

    assert values["p_worse"] == near(row, expected["p_value"])
    assert values["ups"] + values["downs"] == expected.get("n_discordant", values["ups"] + values["downs"])
    assert "effect_size" not in expected or values["effect"] == near(row, expected["effect_size"])
    significant = expected.get("significant", expected["p_value"] < 0.05)
    assert values["evidence"] == ("regressed" if significant else "none")


def _check_verdict(row: Row, seen: Observation) -> None:
    """Their `PASS`, `WARN` and `INCONCLUSIVE` are all that a regression is not shown."""
    expected = row.data["expect"]

    allowed = set(expected.get("verdict_in") or [expected["verdict"]])
    assert (seen.values["evidence"] == "regressed") == (allowed == {"BLOCK"})


def _signs(row: Row) -> Observation:
    """A case falls from pass to fail, rises, or stays: whether it rose or fell is all that the test sees."""
    deltas = row.data["input"]["deltas"]
    return _flipped([float(delta < 0) for delta in deltas], [float(delta > 0) for delta in deltas])


def _check_signs(row: Row, seen: Observation) -> None:
    expected, values = row.data["expect"], seen.values

    tails = (values["p_value"], values["p_worse"])  # the row does not say which
    assert values["ties"] == expected.get("n_ties", values["ties"])
    assert "p_value" not in expected or any(value == near(row, expected["p_value"]) for value in tails)
    if "significant" in expected:
        assert expected["significant"] in [value < 0.05 for value in tails]


# Ratings and gates


def _ratings(row: Row) -> Observation:
    """Each win is a case that only the two sides have."""
    wins = row.data["input"]["wins"]
    sides: dict[str, list[dict[str, Any]]] = {}
    for winner, loser, times in wins:
        for number in range(times):
            case = f"{winner}-over-{loser}-{number}"
            sides.setdefault(winner, []).append(result_row(case, 1.0))
            sides.setdefault(loser, []).append(result_row(case, 0.0))
    folder = new_folder()
    files = {name: write_results(folder, name, rows) for name, rows in sorted(sides.items())}
    result = command("compare", *files.values(), "--ratings", "--json")
    strengths = result.json["ratings"]
    return Observation(values={name: strengths[str(path)] for name, path in files.items()})


def _check_ratings(row: Row, seen: Observation) -> None:
    assert seen.values == near(row, row.data["expect"]["powers_geomean_1"])


_SIDES = ("base", "cand")
_BREACHES = {"GO": 0, "NO-GO": 1, "BREACH": 1, "BREACH (relative)": 1}


def _gate(row: Row) -> Observation:
    given, expected = row.data["input"], row.data["expect"]
    if expected not in _BREACHES:
        not_offered(f"a gate that says {expected}")
    if given.get("direction") == "lower_is_better":
        return _slower(given)
    relative = given.get("max_relative_drop")
    absolute = ["--max-drop", given.get("max_drop", 0), *(["--advisory"] if given.get("tier") == "advisory" else [])]
    options = [*absolute, *(["--max-relative-drop", relative] if relative is not None else [])]
    return Observation(values={"code": _gated(given, options).code, "absolute": _gated(given, absolute).code})


def _slower(given: Mapping[str, Any]) -> Observation:
    """The measure of which less is better is the time of an answer, and its limit a share of the time before: what
    `compare --max-latency-increase` decides by."""
    sides = [
        [{"case": f"c{n}", "passed": True, "latency_ms": given[name]} for n in range(given["n"])] for name in _SIDES
    ]
    rules = RegressionRules(max_latency_increase=given["max_drop"] / given["base"])
    before, after = map(measured, sides)
    found = regression(before, after, rules)
    return Observation(values={"code": int(found.detected)})


def _gated(given: Mapping[str, Any], options: Sequence[object]) -> CommandResult:
    folder = new_folder()
    sides = [write_results(folder, name, _scores([given[name]] * given["n"])) for name in _SIDES]
    return command("compare", *sides, "--json", *options)


def _check_gate(row: Row, seen: Observation) -> None:
    expected = row.data["expect"]

    assert seen.values["code"] == _BREACHES[expected]
    if expected == "BREACH (relative)":
        assert seen.values["absolute"] == 0, "the absolute limit alone refuses it"


OBSERVERS: Mapping[str, Callable[[Row], Observation]] = {
    "ci_t": _student,
    "ci_t_clustered": _clustered,
    "clustered_stderr": _clustered,
    "t_ppf_0.975": _quantile,
    "grouped_mean": _grouped,
    "flip_report": _flips,
    "mcnemar_exact_one_sided": _counted,
    "compare_verdict": _counted,
    "sign_test": _signs,
    "bradley_terry": _ratings,
    "gate": _gate,
}
CHECKS: Mapping[str, Callable[[Row, Observation], None]] = {
    "ci_t": _check_student,
    "ci_t_clustered": _check_clustered_interval,
    "clustered_stderr": _check_error,
    "t_ppf_0.975": _check_quantile,
    "grouped_mean": _check_grouped,
    "flip_report": _check_flips,
    "mcnemar_exact_one_sided": _check_mcnemar,
    "compare_verdict": _check_verdict,
    "sign_test": _check_signs,
    "bradley_terry": _check_ratings,
    "gate": _check_gate,
}


def observe(row: Row) -> Observations:
    """Return what `compare` reports of a row."""
    return {AS_WRITTEN: OBSERVERS[row.kind](row)}


def check(row: Row, seen: Observation) -> None:
    """Assert that it is what the peer reports."""
    CHECKS[row.kind](row, seen)
