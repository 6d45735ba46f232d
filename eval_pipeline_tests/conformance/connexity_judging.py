"""Connexity's recorded facts about the judge, through evaluator `judge` with a scripted grader."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.reports.model import MessageEvent, Usage
from eval_pipeline.scores.grader_client import FakeGraderClient, GraderReply
from eval_pipeline.scores.grading.judge_metrics import REGISTRY, resolve
from eval_pipeline.scores.model import Score
from eval_pipeline.suites.model import Message
from eval_pipeline_tests.builders import an_evaluator
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations, Problem
from eval_pipeline_tests.conformance.recorded_facts import Row
from eval_pipeline_tests.scores.fake_grader import graded
from eval_pipeline_tests.scores.single_scores import a_report

TALK = (MessageEvent(role="user", text="Hello"), MessageEvent(role="assistant", text="Good day"))
POINTS: Mapping[str, Any] = {"justification": "j", "failure_code": None, "turns": []}
PROVIDER = "judge_provider"
"""What the reference stores with a verdict and we do not: a runner's wire is its provider."""


@dataclass(slots=True)
class MeteredClient(FakeGraderClient):
    """Replies by script, each with the model, tokens and time of a row."""

    meta: Mapping[str, Any] = field(default_factory=dict)

    async def complete(self, messages: Sequence[Message], **options: Any) -> GraderReply:
        reply = await FakeGraderClient.complete(self, messages, **options)
        tokens = self.meta.get("usage") or {}
        usage = Usage(input_tokens=tokens.get("prompt_tokens"), output_tokens=tokens.get("completion_tokens"))
        return replace(reply, model=self.meta.get("model"), duration_ms=self.meta.get("latency_ms"), usage=usage)


def judged(reply: str | None, *, said: bool = True, meta: Mapping[str, Any] | None = None, **config: Any) -> Score:
    """The score of a judge whose model replies so, always; None: its call fails."""
    client = MeteredClient([reply] * 9 if reply is not None else [], meta=meta or {})
    report = a_report("Good day" if said else None, events=TALK if said else ())
    return graded(an_evaluator("judge", **config), report, client=client)


def is_verdict(row: Row) -> bool:
    """Return whether a row is about what a judge's reply becomes."""
    return row.data.get("op") == "evaluate_transcript" or row.kind in ("case.pass_rule", "judge.outcomes", *_FACTS)


def observe(row: Row) -> Observations:
    """Return what a judge makes of the row's reply, or why it cannot judge."""
    if row.kind in _FACTS:
        return {AS_WRITTEN: Observation(values=_FACTS[row.kind](row.data["input"]))}
    try:
        score = _pass_rule(row.data["input"]) if row.kind == "case.pass_rule" else _verdict(row.data["input"])
    except InputError as error:
        field, _, text = str(error).removeprefix("judge: ").partition(": ")
        return {AS_WRITTEN: Observation(problems=(Problem(field, text),))}
    values = {
        "value": score.value,
        "passes": score.passes,
        "reason": score.reason,
        "metrics": _metrics(score),
        "outcomes": _outcomes(score),
        "call": _call(score),
    }
    return {AS_WRITTEN: Observation(values=values)}


def check(row: Row, observation: Observation) -> None:
    """Check that a verdict is the reference's."""
    expected = row.data["expected"]
    if row.kind in _FACTS:
        assert {name: observation.values[name] for name in expected} == expected
        return
    assert "$raises" not in expected or observation.errors
    check_values(observation, expected)


def check_values(observation: Observation, expected: Mapping[str, Any]) -> None:
    """Check the named values of a verdict."""
    assert observation.problems == ()
    for name, value in expected.items():
        _VALUES[name](observation.values, value)


def _verdict(given: Mapping[str, Any]) -> Score:
    config = _config(given)
    if has_unclear_verdicts(given):
        config["pass_when"] = "outcomes"
    meta = given.get("judge_llm_response_meta")
    return judged(_reply(given), said=given.get("transcript_turns") != 0, meta=meta, **config)


def _call(score: Score) -> dict[str, Any]:
    """What is stored of a judge's call, by the names of the reference."""
    used = score.details.get("usage") or {}
    tokens = {"prompt_tokens": used.get("input_tokens"), "completion_tokens": used.get("output_tokens")}
    return {
        "judge_model": score.details.get("model"),
        "judge_latency_ms": score.details.get("duration_ms"),
        "judge_token_usage": {**tokens, "total_tokens": sum(value or 0 for value in tokens.values())},
        "raw_judge_output": score.details.get("reply"),
    }


def _pass_rule(given: Mapping[str, Any]) -> Score:
    """The score of a judge that replies with a verdict: what decides that a case passes."""
    verdict = given["verdict"]
    if verdict is None:
        return judged(None)
    results = verdict.get("expected_outcome_results") or []
    outcomes = [each.get("statement") or f"outcome {number}" for number, each in enumerate(results)]
    entries = [{"statement": name, "passed": each["passed"]} for name, each in zip(outcomes, results, strict=True)]
    reply = {"tool_routing": {**POINTS, "score": 5 if verdict["passed"] else 0}, "expected_outcomes": entries}
    config: dict[str, Any] = {"outcomes": outcomes} if outcomes else {}
    return judged(json.dumps(reply), metrics=["tool_routing"], **config)


def _schema(given: Mapping[str, Any]) -> dict[str, Any]:
    """The schema that a judge's reply is held to."""
    reply = json.dumps({name: {**POINTS, "score": 5, "passed": True} for name in given["metrics"]})
    metrics = [{"metric": name, "weight": 1} for name in given["metrics"]]
    format_ = judged(reply, metrics=metrics).details["settings"]["response_format"]
    names = sorted(format_["json_schema"]["schema"]["properties"])
    return {"type": format_["type"], "json_schema.schema.properties.keys": names}


def _rubric(given: Mapping[str, Any]) -> dict[str, Any]:
    """What describes a metric that has a rubric only."""
    (metric,) = resolve(["own"], [{"name": "own", "rubric": given["rubric"]}])
    return {"rubric": metric.rubric}


_FACTS: Mapping[str, Any] = {"judge.response_schema": _schema, "generator.metric": _rubric}


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


def has_unclear_verdicts(given: Mapping[str, Any]) -> bool:
    """Return whether a verdict on an outcome is neither true nor false."""
    reply = given.get("judge_llm_output_json")
    results = reply.get("expected_outcomes") if isinstance(reply, Mapping) else None
    entries = [each for each in results if isinstance(each, Mapping)] if isinstance(results, list) else []
    return any(not isinstance(each.get("passed"), bool) for each in entries)


def has_no_weight(given: Mapping[str, Any]) -> bool:
    """Return whether no metric counts."""
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
    "$lte": lambda value, operand, _: value <= operand,
    "$contains": lambda value, operand, _: operand in value,
    "$nonempty": lambda value, operand, _: bool(value) is operand,
    "$len": lambda value, operand, _: len(value) == operand,
    "$nonnull": lambda value, operand, _: (value is not None) is operand,
}


def _check_by_name(values: Mapping[str, Any], expected: Mapping[str, Mapping[str, Any]]) -> None:
    for name, fields in expected.items():
        for key, value in fields.items():
            assert_value(values["metrics"][name][{"score": "points", "is_binary": "binary"}.get(key, key)], value)


def _check_scores(values: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    fields = ("points", "label", "failure_code", "turns", "tier")
    assert {name: [each[field] for field in fields] for name, each in values["metrics"].items()} == expected


def _check_summary(values: Mapping[str, Any], mentions: list[str]) -> None:
    words = {"Weakest": "weakest: ", "Strongest": "strongest: ", ": FAIL.": " failed"}
    assert all(words[mention] in values["reason"] for mention in mentions if mention in words)


_VALUES: Mapping[str, Any] = {
    "passed": lambda values, expected: assert_value(values["passes"], expected),
    "overall_score": lambda values, expected: assert_value(round(100 * values["value"], 2), expected),
    "metric_scores": lambda values, expected: assert_value(values["metrics"], expected),
    "metric_scores_by_name": _check_by_name,
    "weights": lambda values, expected: assert_value(
        {name: round(each["weight"], 6) for name, each in values["metrics"].items()}, expected
    ),
    "scores": _check_scores,
    "summary": lambda values, expected: assert_value(values["reason"], expected),
    "summary_mentions": _check_summary,
    "outcomes": lambda values, expected: assert_value(values["outcomes"], expected or []),
    "judge_model": lambda values, expected: assert_value(values["call"]["judge_model"], expected),
    "judge_latency_ms": lambda values, expected: assert_value(values["call"]["judge_latency_ms"], expected),
    "judge_token_usage": lambda values, expected: assert_value(
        {name: values["call"]["judge_token_usage"][name] for name in expected}, expected
    ),
    "raw_judge_output": lambda values, expected: assert_value(values["call"]["raw_judge_output"], expected),
}
