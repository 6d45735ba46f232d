"""Connexity's recorded facts about the judge, through evaluator `judge` with a scripted grader."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from eval_pipeline.reports.model import MessageEvent
from eval_pipeline.scores.grader_client import FakeGraderClient
from eval_pipeline.scores.grading.judge_metrics import REGISTRY, resolve
from eval_pipeline.scores.model import Score
from eval_pipeline_tests.builders import an_evaluator
from eval_pipeline_tests.conformance.row_outcomes import Record, not_offered
from eval_pipeline_tests.scores.fake_grader import graded
from eval_pipeline_tests.scores.single_scores import a_report

TALK = (MessageEvent(role="user", text="Hello"), MessageEvent(role="assistant", text="Good day"))
POINTS: Mapping[str, Any] = {"justification": "j", "failure_code": None, "turns": []}
_OF_THE_CALL = frozenset({"judge_model", "judge_provider", "judge_latency_ms", "judge_token_usage", "raw_judge_output"})
"""What the reference stores with a verdict and we with the call of the grader."""


def judged(reply: str | None, *, said: bool = True, **config: Any) -> Score:
    """The score of a judge whose model replies so, always; None: its call fails."""
    client = FakeGraderClient([reply] * 9 if reply is not None else [])
    report = a_report("Good day" if said else None, events=TALK if said else ())
    return graded(an_evaluator("judge", **config), report, client=client)


def check_verdict(data: Mapping[str, Any], record: Record) -> None:
    """Check a row of `evaluate_transcript`."""
    given, expected = data["input"], data["expected"]
    config = _config(given)
    if _has_no_weight(given):
        record("difference", "metrics whose weights are all 0 are an error before anything runs")
        with pytest.raises(Exception, match="every weight is 0"):
            judged(None, **config)
        return
    if _has_unclear_verdicts(given):
        record("difference", "a verdict on an outcome that is neither true nor false is asked for again")
        score = judged(_reply(given), **{**config, "pass_when": "outcomes"})
        assert score.value is None
        return
    score = judged(_reply(given), said=given.get("transcript_turns") != 0, **config)
    if "$raises" in expected or (expected.get("overall_score") == 0.0 and not expected.get("scores")):
        record("difference", "a judge that fails, or has nothing to judge, gives no score; it is never 0")
        assert score.value is None
        assert score.reason
        return
    checks = set(expected) - _OF_THE_CALL
    if not checks:
        not_offered("model, tokens, time and reply of a judge are columns of grader calls, not of its verdict")
    if checks != set(expected):
        record("difference", "model, tokens, time and reply of a judge are columns of grader calls, not of its verdict")
    for name in checks:
        _VALUES[name](score, expected[name])


def check_schema(data: Mapping[str, Any], record: Record) -> None:
    """Check the row about the schema that a judge's reply is held to."""
    expected = data["expected"]
    record("difference", "a reply repeats the key of its question, so that an object quoted in it is no judgement")
    reply = json.dumps({name: {**POINTS, "score": 5, "passed": True} for name in data["input"]["metrics"]})
    metrics = [{"metric": name, "weight": 1} for name in data["input"]["metrics"]]
    format_ = judged(reply, metrics=metrics).details["settings"]["response_format"]
    assert format_["type"] == expected["type"]
    assert (
        sorted({*format_["json_schema"]["schema"]["properties"]} - {"key"})
        == expected["json_schema.schema.properties.keys"]
    )


def check_description(data: Mapping[str, Any], record: Record) -> None:
    """Check the row about what describes a metric that has a rubric only."""
    record("difference", "a metric is described by its rubric; no other description is made of it")
    custom = [{"name": "own", "rubric": data["input"]["rubric"]}]
    (metric,) = resolve(["own"], custom)
    assert metric.rubric == data["expected"]["description"]


def check_metrics(data: Mapping[str, Any]) -> None:
    """Check a row about which metrics a judge has, and their weights."""
    given, expected = data["input"], data["expected"]
    config = _config(given)
    known = {**REGISTRY, **{each["name"]: None for each in given.get("custom_metrics") or ()}}
    reply = {name: {**POINTS, "score": 5, "passed": True} for name in known}
    metrics = _metrics(judged(json.dumps(reply), **config))
    assert len(metrics) == expected["count"]
    assert set(expected.get("names", metrics)) == set(metrics)
    assert not set(metrics) & set(expected.get("excludes", ()))
    assert not (expected.get("all_score_type") == "scored" and any(each["binary"] for each in metrics.values()))
    weights = [each["weight"] for each in metrics.values()]
    assert sum(weights) == pytest.approx(1.0)
    for weight, approximate in zip(weights, expected.get("weights", ()), strict=False):
        assert_value(weight, approximate)


def check_pass_rule(data: Mapping[str, Any], record: Record) -> None:
    """Check a row about what decides that a case passes."""
    verdict, expected = data["input"]["verdict"], data["expected"]["passed"]
    if verdict is None:
        record("difference", "a judge that fails, or has nothing to judge, gives no score; it is never 0")
        assert judged(None).passes is None
        return
    results = verdict.get("expected_outcome_results") or []
    outcomes = [each.get("statement") or f"outcome {number}" for number, each in enumerate(results)]
    entries = [{"statement": name, "passed": each["passed"]} for name, each in zip(outcomes, results, strict=True)]
    reply = {"tool_routing": {**POINTS, "score": 5 if verdict["passed"] else 0}, "expected_outcomes": entries}
    config: dict[str, Any] = {"outcomes": outcomes} if outcomes else {}
    assert judged(json.dumps(reply), metrics=["tool_routing"], **config).passes is expected


def _has_unclear_verdicts(given: Mapping[str, Any]) -> bool:
    reply = given.get("judge_llm_output_json")
    results = reply.get("expected_outcomes") if isinstance(reply, Mapping) else None
    entries = [each for each in results if isinstance(each, Mapping)] if isinstance(results, list) else []
    return any(not isinstance(each.get("passed"), bool) for each in entries)


def _has_no_weight(given: Mapping[str, Any]) -> bool:
    metrics = (given.get("judge_config") or {}).get("metrics") or []
    return bool(metrics) and not any(each.get("weight", 1) for each in metrics)


def _config(given: Mapping[str, Any]) -> dict[str, Any]:
    judge = given.get("judge_config") or {}
    outcomes = given.get("expected_outcomes") or ()
    config = {
        "metrics": judge.get("metrics"),
        "pass_threshold": judge.get("pass_threshold"),
        "custom_metrics": given.get("custom_metrics"),
        "outcomes": list(outcomes),
        "pass_when": "score" if outcomes else None,
    }
    return {name: value for name, value in config.items() if value not in (None, [])}


def _reply(given: Mapping[str, Any]) -> str | None:
    if "judge_llm_output_text" in given:
        return str(given["judge_llm_output_text"])
    return json.dumps(given["judge_llm_output_json"]) if "judge_llm_output_json" in given else None


def _metrics(score: Score) -> dict[str, Mapping[str, Any]]:
    return {member.name: member.details for member in score.members if member.type == "metric"}


def _outcomes(score: Score) -> list[list[Any]]:
    return [[member.name, bool(member.value)] for member in score.members if member.type == "outcome"]


def assert_value(value: Any, expected: Any) -> None:
    """Assert a value, or what is said of it (`$approx`, `$gt`, `$lt`, `$gte`, `$len`, `$nonnull`)."""
    if not isinstance(expected, Mapping) or not any(str(key).startswith("$") for key in expected):
        assert value == expected
        return
    for name, operand in expected.items():
        assert name == "tol" or _TESTS[name](value, operand, expected), (value, expected)


_TESTS: Mapping[str, Any] = {
    "$approx": lambda value, operand, all_: value == pytest.approx(operand, abs=all_.get("tol", 1e-6)),
    "$gt": lambda value, operand, _: value > operand,
    "$lt": lambda value, operand, _: value < operand,
    "$gte": lambda value, operand, _: value >= operand,
    "$len": lambda value, operand, _: len(value) == operand,
    "$nonnull": lambda value, operand, _: (value is not None) is operand,
}


def _check_by_name(score: Score, expected: Mapping[str, Mapping[str, Any]]) -> None:
    metrics = _metrics(score)
    for name, fields in expected.items():
        for field, value in fields.items():
            assert_value(metrics[name][{"score": "points", "is_binary": "binary"}.get(field, field)], value)


def _check_scores(score: Score, expected: Mapping[str, Any]) -> None:
    fields = ("points", "label", "failure_code", "turns", "tier")
    assert {name: [each[field] for field in fields] for name, each in _metrics(score).items()} == expected


def _check_summary(score: Score, mentions: list[str]) -> None:
    words = {"Weakest": "weakest: ", "Strongest": "strongest: ", ": FAIL.": " failed"}
    assert all(words[mention] in score.reason for mention in mentions if mention in words)


_VALUES: Mapping[str, Any] = {
    "passed": lambda score, expected: assert_value(score.passes, expected),
    "overall_score": lambda score, expected: assert_value(round(100 * score.value, 2), expected),
    "metric_scores": lambda score, expected: assert_value(_metrics(score), expected),
    "metric_scores_by_name": _check_by_name,
    "weights": lambda score, expected: assert_value(
        {name: round(each["weight"], 6) for name, each in _metrics(score).items()}, expected
    ),
    "scores": _check_scores,
    "summary": lambda score, expected: assert_value(score.reason, expected),
    "summary_mentions": _check_summary,
    "outcomes": lambda score, expected: assert_value(_outcomes(score), expected or []),
}
