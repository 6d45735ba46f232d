"""Connexity's recorded facts about totals, comparisons of two runs, and what changed between them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import polars as pl
import pytest

from eval_pipeline.leaderboards import differences
from eval_pipeline.leaderboards.regressions import Regression, RegressionRules, metric_changes, regression
from eval_pipeline.leaderboards.results import RESULT_COLUMNS, Results
from eval_pipeline.leaderboards.totals import MEASURES, METRIC_COLUMNS, Measured
from eval_pipeline_tests.conformance.connexity_judging import assert_value
from eval_pipeline_tests.conformance.row_outcomes import Record

JsonMap = Mapping[str, Any]


def measured(results: Sequence[JsonMap], metrics: Sequence[tuple[str, Any, bool | None]] = ()) -> Measured:
    """A side with one result for each mapping (case, passed, error, score in percent, measures); the metrics are of
    the first case."""
    counts: dict[str, int] = {}
    rows, values = [], []
    for result in results:
        case = str(result.get("case", "c"))
        counts[case] = counts.get(case, 0) + 1
        status = "error" if result.get("error") else "passed" if result["passed"] else "failed"
        score = None if result.get("score") is None else result["score"] / 100
        rows.append(("s", "r", case, counts[case], status, score, None, None))
        values.append(("s", "r", case, counts[case], *(result.get(name) for name in MEASURES)))
    keys = {name: RESULT_COLUMNS[name] for name in ("suite", "runner", "case_id", "repetition")}
    given = [("s", "r", "c", 1, name, points, passed) for name, points, passed in metrics]
    return Measured(
        results=Results("side", pl.DataFrame(rows, schema=RESULT_COLUMNS, orient="row")),
        measures=pl.DataFrame(values, schema={**keys, **MEASURES}, orient="row"),
        metrics=pl.DataFrame(given, schema=METRIC_COLUMNS, orient="row"),
    )


def check_verdict(data: JsonMap) -> None:
    """Check a row about the rules that make a regression."""
    given, expected = data["input"], data["expected"]
    limits = given.get("thresholds") or given.get("threshold_overrides") or {}
    before, after = (_side(given["aggregate"], prefix) for prefix in ("b", "c"))
    found = regression(before, after, _rules(limits))
    assert found.detected is expected["regression_detected"]
    if "reasons_any_contains" in expected:
        assert any(_KINDS[expected["reasons_any_contains"]] in reason for reason in found.reasons)
    if "reasons" in expected:
        assert_value(found.reasons, expected["reasons"])
    if "reason_kinds" in expected:
        kinds = [_KINDS[kind] for kind in expected["reason_kinds"]]
        assert all(kind in reason for kind, reason in zip(kinds, found.reasons, strict=True))
    for name in ("pass_rate_delta", "avg_score_delta", "latency_avg_delta_ms"):
        if name in expected:
            assert_value(_delta(found, name), expected[name])


_KINDS = {"pass_rate": "pass rate", "avg_score": "mean score", "latency": "latency", "avg_latency": "mean latency"}


def _rules(limits: JsonMap) -> RegressionRules:
    given = {
        "max_pass_rate_drop": limits.get("max_pass_rate_drop"),
        "max_score_drop": limits["max_avg_score_drop"] / 100 if "max_avg_score_drop" in limits else None,
        "max_latency_increase": limits.get("max_latency_increase_pct"),
    }
    return RegressionRules(**{name: value for name, value in given.items() if value is not None})


def _side(aggregate: JsonMap, prefix: str) -> Measured:
    """A side of one case whose repetitions give a pass rate, a mean score and a mean latency."""
    rate = Fraction(str(aggregate[f"{prefix}_pass_rate"]))
    score, latency = aggregate.get(f"{prefix}_avg_score"), aggregate.get(f"{prefix}_latency_avg")
    passed = [True] * rate.numerator + [False] * (rate.denominator - rate.numerator)
    return measured([{"passed": each, "score": score, "latency_ms": latency} for each in passed])


def _delta(found: Regression, name: str) -> Any:
    ours, unit = _DELTAS[name]
    delta = found.deltas[ours]
    return None if delta is None else round(delta * unit, 4)


_DELTAS = {
    "pass_rate_delta": ("pass_rate", 1),
    "avg_score_delta": ("mean_score", 100),
    "latency_avg_delta_ms": ("latency_mean_ms", 1),
    "latency_p95_delta_ms": ("latency_p95_ms", 1),
    "cost_delta_usd": ("total_cost_usd", 1),
}


def check_case_status(data: JsonMap, record: Record) -> None:
    """Check a row about what became of a case."""
    given = data["input"]
    sides = []
    for name in ("baseline", "candidate"):
        passed, error = given[name].get("passed"), given[name].get("error_message")
        score = given[f"{name}_overall_score"]
        sides.append([] if passed is None and not error else [{"passed": passed, "error": error, "score": score}])
    found = regression(measured(sides[0]), measured(sides[1]))
    if [] in sides:
        record("difference", "a case that one side did not carry out is in no comparison; it is named as unpaired")
        assert found.cases.is_empty()
        return
    assert found.cases["status"].to_list() == [data["expected"]["status"]]


def check_metric_status(data: JsonMap) -> None:
    """Check a row about what became of a metric of a case."""
    given = data["input"]
    entries = [
        {"metric": "m", "is_binary": given["is_binary"], **{of: given[f"{side}_{of}"] for of in ("label", "score")}}
        for side in ("baseline", "candidate")
    ]  # fmt: skip
    before, after = (_with_metrics([entry] if entry["score"] is not None else []) for entry in entries)
    changes = [change.status for change in metric_changes(before, after)]
    assert (changes or ["unchanged"]) == [data["expected"]["status"]]


def check_metric_deltas(data: JsonMap) -> None:
    """Check a row about the changes of the metrics of a case."""
    sides = [_with_metrics(data["input"][f"{side}_metric_scores"] or ()) for side in ("baseline", "candidate")]
    changes = {change.metric: change for change in metric_changes(sides[0], sides[1])}
    for expected in data["expected"]["deltas"]:
        change = changes[expected["metric"]]
        found = {
            "metric": change.metric,
            "baseline_score": change.baseline,
            "candidate_score": change.candidate,
            "delta": None if change.binary else change.delta,
            "status": change.status,
            "is_binary": change.binary,
        }
        assert {name: found[name] for name in expected} == expected


def check_metric_totals(data: JsonMap) -> None:
    """Check a row about the mean of a metric over cases."""
    sides: list[list[Any]] = [[], []]
    for number, case in enumerate(data["input"]["cases"]):
        for entry in case:
            for side, name in zip(sides, ("baseline", "candidate"), strict=True):
                values = {"label": entry[f"{name}_label"], "score": entry[f"{name}_score"]}
                side.append({**entry, **values, "case": f"case-{number}"})
    changes = {change.metric: change for change in metric_changes(_with_metrics(sides[0]), _with_metrics(sides[1]))}
    for expected in data["expected"]["deltas"]:
        change = changes[expected["metric"]]
        found = (change.binary, change.baseline, change.candidate, change.delta)
        assert found == tuple(expected[name] for name in ("is_binary", "baseline_avg", "candidate_avg", "delta"))


def _with_metrics(entries: Sequence[JsonMap]) -> Measured:
    rows = [
        ("s", "r", entry.get("case", "c"), 1, entry["metric"], None if entry["is_binary"] else entry["score"],
         entry["label"] == "pass" if entry["is_binary"] else None)
        for entry in entries
    ]  # fmt: skip
    empty = measured([])
    return Measured(
        results=empty.results, measures=empty.measures, metrics=pl.DataFrame(rows, schema=METRIC_COLUMNS, orient="row")
    )


def check_deltas(data: JsonMap, record: Record) -> None:
    """Check a row about the changes of two runs' totals."""
    given, expected = data["input"], data["expected"]
    statuses = given["case_statuses"]
    changed = {"improvement": (False, True), "regression": (True, False), "unchanged": (True, True)}
    sides = [measured([{"case": str(number), "passed": changed[status][side], "score": 80}
                       for number, status in enumerate(statuses)]) for side in (0, 1)]  # fmt: skip
    counts = regression(sides[0], sides[1]).counts
    names = {"regression": "total_regressions", "improvement": "total_improvements", "unchanged": "total_unchanged",
             "error": "total_errors"}  # fmt: skip
    assert {name: counts[status] for status, name in names.items()} == {name: expected[name] for name in names.values()}
    record("difference", "totals are computed from results: none are taken from what a run once stored")
    before, after = (_total_side(given[name]) for name in ("baseline_metrics", "candidate_metrics"))
    found = regression(before, after)
    for name in ("pass_rate_delta", "avg_score_delta", "latency_avg_delta_ms", "cost_delta_usd"):
        assert_value(_delta(found, name), expected[name])


def _total_side(totals_: JsonMap) -> Measured:
    case = {"score": totals_["avg_overall_score"], "latency_ms": totals_["latency_avg_ms"]}
    results = [{**case, "passed": number < totals_["passed_count"]} for number in range(totals_["total_executions"])]
    for result in results:
        result["cost_usd"] = totals_["total_estimated_cost_usd"] / len(results)
    return measured(results)


def check_prompt(data: JsonMap) -> None:
    """Check a row about the change of a prompt."""
    found = differences.prompt_change(data["input"]["old"], data["input"]["new"])
    names = {"change_ratio": "ratio", "added_line_count": "added", "removed_line_count": "removed",
             "unified_diff": "diff"}  # fmt: skip
    for name, value in data["expected"].items():
        assert_value(getattr(found, names.get(name, name)), value)


def check_tools(data: JsonMap) -> None:
    """Check a row about the change of an agent's tools."""
    found = differences.tool_change(data["input"]["old"], data["input"]["new"])
    values = {"added": list(found.added), "removed": list(found.removed), "modified": list(found.modified),
              "modified_fields": list(found.modified)}  # fmt: skip
    for name, value in data["expected"].items():
        assert values[name] == value


def check_config(data: JsonMap, record: Record) -> None:
    """Check a row about the change of a configuration."""
    given, expected = data["input"], data["expected"]
    found = [change.as_json for change in differences.value_changes(given["old"], given["new"])]
    if "$raises" in expected or (not expected["changes"] and given["old"] != given["new"]):
        record("difference", "settings that were added or removed, other types and items of lists are changes, too")
        assert [each["field"] for each in found] == _changed_by_hand(given["old"], given["new"])
        return
    for change, value in zip(found, expected["changes"], strict=True):
        named = {"field": change["field"], "old_value": change["old"], "new_value": change["new"]}
        assert {name: named[name] for name in value} == {**value, **_field(value)}


def _field(value: JsonMap) -> dict[str, str]:
    """A path such as `root['judge']['model']` in our words."""
    path = value.get("field")
    return {} if path is None else {"field": path.removeprefix("root['").removesuffix("']").replace("']['", ".")}


def _changed_by_hand(old: JsonMap, new: JsonMap, path: str = "") -> list[str]:
    changed = []
    for name in dict.fromkeys((*old, *new)):
        changed += _changed_value(old.get(name), new.get(name), f"{path}{name}")
    return changed


def _changed_value(before: Any, after: Any, path: str) -> list[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return _changed_by_hand(before, after, f"{path}.")
    if isinstance(before, list) and isinstance(after, list):
        items = itertools.zip_longest(before, after)
        return [each for at, (old, new) in enumerate(items) for each in _changed_value(old, new, f"{path}[{at}]")]
    return [] if before == after and isinstance(before, bool) is isinstance(after, bool) else [path]


def check_cases(data: JsonMap) -> None:
    """Check a row about the change of a set."""
    given, expected = data["input"], data["expected"]
    sides = [
        differences.Setup(suite="s", runner="r", suite_revision=str(given[f"{side}_version"]),
                          cases=tuple(given[f"{side}_cases"]))
        for side in ("baseline", "candidate")
    ]  # fmt: skip
    (found,) = differences.setup_changes(sides[:1], sides[1:])
    values = {"same_set": found.suite == "s", "version_changed": found.suite_changed,
              "common": list(found.cases.common), "added": list(found.cases.added),
              "removed": list(found.cases.removed)}  # fmt: skip
    for name, value in expected.items():
        assert_value(values[name], value)


def check_setup(data: JsonMap) -> None:
    """Check a row about the change of an agent, or of the whole configuration of a run."""
    given = data["input"]
    old = _setup(given.get("old") or given.get("baseline") or {}, given.get("baseline.config"))
    raw_new = given.get("new") or given.get("candidate") or {}
    new = old if raw_new == "same as old" else _setup(raw_new, given.get("candidate.config"))
    change = differences.setup_change(old, new)
    values = {each.field: {"old_value": each.old, "new_value": each.new} for each in change.values}
    found = {
        "prompt_diff.changed": change.prompt.changed,
        "mode_changed": "settings.mode" in values,
        "model_changed": values.get("model"),
        "judge_model_changed": values.get("graders.judge.model"),
        "judge_provider_changed": values.get("graders.judge.provider"),
        "tool_diff.added": list(change.tools.added),
    }
    for name, value in data["expected"].items():
        assert_value(found[name], value)


def _setup(agent: JsonMap, config: JsonMap | None) -> differences.Setup:
    tools = [{"name": tool} if isinstance(tool, str) else tool for tool in agent.get("tools") or ()]
    settings = {name: agent[name] for name in ("mode", "endpoint_url", "agent_provider") if name in agent}
    return differences.Setup(
        suite="s", runner="r", prompt=agent.get("system_prompt"), tools=tools, model=agent.get("agent_model"),
        settings=settings, graders={"judge": (config or {}).get("judge")},
    )  # fmt: skip


def check_compare(data: JsonMap, record: Record) -> None:
    """Check a row about the comparison of two stored runs."""
    given, expected = data["input"], data["expected"]
    if "baseline_pass_rate" in given:
        aggregate = {
            "b_pass_rate": given["baseline_pass_rate"], "c_pass_rate": given["candidate_pass_rate"],
            "b_avg_score": given["baseline_avg"], "c_avg_score": given["candidate_avg"],
        }  # fmt: skip
        found = regression(_side(aggregate, "b"), _side(aggregate, "c"), _rules(given))
        assert found.detected is expected["verdict.regression_detected"]
        assert "reasons_any_contains" not in expected or _KINDS["pass_rate"] in found.reasons[0]
        used = {"max_pass_rate_drop": found.rules.max_pass_rate_drop,
                "max_avg_score_drop": 100 * found.rules.max_score_drop}  # fmt: skip
        for name, value in used.items():
            assert expected.get(f"verdict.thresholds_used.{name}", value) == value
        return
    if "metric" in given:
        entries = [{"metric": given["metric"], "is_binary": True, **given[side]} for side in ("baseline", "candidate")]
        before, after = (_with_metrics([entry]) for entry in entries)
        (change,) = metric_changes(before, after)
        assert (change.binary, change.status) == (True, expected["metric_delta"]["status"])
        assert (change.baseline, change.candidate) == (1.0, 0.0)
        return
    if "pair" in given:
        aggregates = {"b_pass_rate": 1.0, "c_pass_rate": 1.0, "b_avg_score": 80.0, "c_avg_score": 90.0}
        found = regression(_side(aggregates, "b"), _side(aggregates, "c"))
        assert _delta(found, "avg_score_delta") == expected["aggregate.avg_score_delta"]
        assert _delta(found, "pass_rate_delta") == expected["aggregate.pass_rate_delta"]
        return
    if "eval_configs" in given:
        _check_sets(given["eval_configs"] == "same", record)
        return
    pytest.skip("without counterpart: the HTTP server and its command")


def _check_sets(same: bool, record: Record) -> None:
    sides = [[differences.Setup(suite=name, runner="r")] for name in ("s", "s" if same else "other")]
    if not same:
        record(
            "difference", "cases are paired by suite: two suites have none in common, which is said, with exit code 3"
        )
    assert bool(differences.setup_changes(*sides)) is same
