"""Connexity's recorded facts about absent values: of turns, calls, results, configurations and rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.executions.tool_sets import declared_tools
from eval_pipeline.executions.tools.http import Http
from eval_pipeline.leaderboards.regressions import RegressionRules
from eval_pipeline.scores.evaluators.judge import DEFAULT_PASS_THRESHOLD
from eval_pipeline.scores.grading.judge_metrics import REGISTRY
from eval_pipeline.suites.load import load_suite
from eval_pipeline_tests.conformance.connexity_judging import POINTS, judged
from eval_pipeline_tests.conformance.connexity_judging import _metrics as metrics_of
from eval_pipeline_tests.conformance.connexity_tools import check_webhook
from eval_pipeline_tests.conformance.connexity_usage import _report as reported
from eval_pipeline_tests.conformance.connexity_usage import _turn as turn_of
from eval_pipeline_tests.conformance.row_outcomes import Record, not_offered

JsonMap = Mapping[str, Any]


def check_values(data: JsonMap, folder: Path, record: Record) -> None:
    """Check a row about what is absent from a turn, a call of a tool, a result or a configuration."""
    check = _VALUES.get(data["op"])
    if check is None:
        not_offered(f"rows about '{data['op']}' are not carried out yet")
    check(data["input"], data["expected"], folder, record)


def _check_turn(given: JsonMap, expected: JsonMap, folder: Path, record: Record) -> None:
    report = reported([turn_of(None)])
    assert (report.turn_starts[0].duration_ms, report.tool_uses) == (expected["latency_ms"], ())


def _check_call(given: JsonMap, expected: JsonMap, folder: Path, record: Record) -> None:
    messages = [{"role": "assistant", "content": None, "tool_calls": [given]}, {"role": "assistant", "content": "a"}]
    (use,) = reported([turn_of(None, messages=messages)]).tool_uses
    assert (use.tool, use.result) == (given["function"]["name"], expected["tool_result"])


def _check_roles(given: JsonMap, expected: JsonMap, folder: Path, record: Record) -> None:
    messages = [{"role": role, "content": "x"} for role in given["values"]]
    (folder / "roles.yaml").write_text(json.dumps({"tests": [{"id": "a", "criteria": "c", "input": messages}]}))
    (case,) = load_suite(folder / "roles.yaml").cases
    assert [message.role for message in case.input] == given["values"]


def _check_result(given: JsonMap, expected: JsonMap, folder: Path, record: Record) -> None:
    assert judged(None).passes is expected["passed"]


def _check_metric(given: JsonMap, expected: JsonMap, folder: Path, record: Record) -> None:
    """A metric by itself has the whole weight."""
    name = next(iter(REGISTRY))
    reply = json.dumps({name: {**POINTS, "score": given["score"], "passed": True}})
    (metric,) = metrics_of(judged(reply, metrics=[{"metric": name}])).values()
    assert (metric["weight"], metric["binary"]) == (expected["weight"], expected["is_binary"])


def _check_config(given: JsonMap, expected: JsonMap, folder: Path, record: Record) -> None:
    limits = ("concurrency", "timeout_per_test_case_ms", "cases_pass_threshold", "metrics_pass_threshold", "tool_mode")
    if any(expected.get(name) is not None and name not in given for name in limits):
        record("difference", "a set without limits has those of its runners and of the project")
    document = {"test_cases": [{"name": "n", "persona": None}], "members": None, "config": given}
    (folder / "set.json").write_text(json.dumps(document))
    suite = load_suite(folder / "set.json")
    time_ms = given.get("timeout_per_test_case_ms")
    assert (suite.settings.concurrency, [case.timeout_s for case in suite.cases]) == (
        given.get("concurrency"), [None if time_ms is None else time_ms / 1000],
    )  # fmt: skip


def _check_source(given: JsonMap, expected: JsonMap, folder: Path, record: Record) -> None:
    record("difference", "source within a file is refused: a tool names a function of a module")
    with pytest.raises(InputError, match="module"):
        declared_tools([{"name": "t", "implementation": {"type": "python", **given}}])


def _check_configured(name: str) -> Any:
    """Return the check of a part of a run configuration: what is absent from a set with it."""

    def check(given: JsonMap, expected: JsonMap, folder: Path, record: Record) -> None:
        document = {"test_cases": [{"name": "n", "persona": None}], "members": None, "config": {name: given}}
        (folder / "set.json").write_text(json.dumps(document))
        suite = load_suite(folder / "set.json")
        (case,) = suite.cases
        assert case.user is not None
        judge = next(spec for spec in case.evaluators if spec.type == "judge")
        found = {
            "pass_threshold": judge.config.get("pass_threshold", DEFAULT_PASS_THRESHOLD),
            "metrics": judge.config.get("metrics"),
            "mode": "scripted" if case.user.script else "llm",
            "scripted_messages": list(case.user.script),
            "temperature": case.user.temperature,
            "max_tokens": (case.model_settings or {}).get("max_tokens"),
        }
        assert (suite.errors, {key: value for key, value in found.items() if key in expected}) == (
            (), {key: value for key, value in expected.items() if key in found},
        )  # fmt: skip

    return check


def _check_hook(given: JsonMap, expected: JsonMap, folder: Path, record: Record) -> None:
    """Check the request that a tool with these settings makes."""
    assert {key: expected[key] for key in ("type", "method") if key in expected}.items() <= {
        "type": "http_webhook", "method": "POST",
    }.items()  # fmt: skip
    check_webhook(
        {"input": {"http": {"status": 200, "json": {"a": 1}}}, "expected": {"result": {"a": 1}}}, folder, record
    )
    defaults = {field.name: field.default for field in Http.settings.fields}
    assert defaults["timeout_s"] == expected.get("timeout_ms", 10_000) / 1000


def _check_rules(given: JsonMap, expected: JsonMap, folder: Path, record: Record) -> None:
    rules = RegressionRules()
    found = (rules.max_pass_rate_drop, rules.max_score_drop * 100, rules.max_latency_increase)
    names = ("max_pass_rate_drop", "max_avg_score_drop", "max_latency_increase_pct")
    assert dict(zip(names, found, strict=True)) == {name: expected[name] for name in names}


def _check_words(field: str) -> Any:
    """Return the check of the words that a field of a case may have."""

    def check(given: JsonMap, expected: JsonMap, folder: Path, record: Record) -> None:
        cases = [{"name": f"n {word}", "persona_context": "p", field: word} for word in given["values"]]
        (folder / "cases.json").write_text(json.dumps(cases))
        suite = load_suite(folder / "cases.json")
        found = [
            case.user.first_turn if field == "first_turn" else getattr(case, field) for case in suite.cases if case.user
        ]
        assert (suite.errors, found) == ((), given["values"])

    return check


def _check_tiers(given: JsonMap, expected: JsonMap, folder: Path, record: Record) -> None:
    assert sorted({metric.tier for metric in REGISTRY.values()}) == sorted(given["values"])


_VALUES: Mapping[str, Any] = {
    "JudgeConfig": _check_configured("judge"),
    "UserSimulatorConfig": _check_configured("user_simulator"),
    "AgentSimulatorConfig": _check_configured("agent_simulator"),
    "HttpWebhookImplementation": _check_hook,
    "RegressionThresholds": _check_rules,
    "Difficulty": _check_words("difficulty"),
    "TestCaseStatus": _check_words("status"),
    "FirstTurn": _check_words("first_turn"),
    "MetricTier": _check_tiers,
    "ConversationTurn": _check_turn,
    "ToolCall": _check_call,
    "TurnRole": _check_roles,
    "TestCaseResult": _check_result,
    "MetricScore": _check_metric,
    "RunConfig": _check_config,
    "PythonImplementation": _check_source,
}
