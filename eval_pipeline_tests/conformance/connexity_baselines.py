"""Connexity's recorded facts about baselines, exit codes, absent values and causes, through a small project."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.executions.tool_sets import declared_tools
from eval_pipeline.leaderboards.differences import prompt_change
from eval_pipeline.leaderboards.regressions import details_of, regression
from eval_pipeline.scores.grading.judge_metrics import REGISTRY
from eval_pipeline.suites.load import load_suite
from eval_pipeline_tests.cli.sample_project import GREET, CliProject, make_cli_project
from eval_pipeline_tests.conformance.connexity_comparisons import measured
from eval_pipeline_tests.conformance.connexity_judging import POINTS, judged
from eval_pipeline_tests.conformance.connexity_judging import _metrics as metrics_of
from eval_pipeline_tests.conformance.connexity_usage import _report as reported
from eval_pipeline_tests.conformance.connexity_usage import _turn as turn_of
from eval_pipeline_tests.conformance.row_outcomes import Record, not_offered

JsonMap = Mapping[str, Any]
NOT_ANALYSED = "compare names what changed and each case's change; no model is asked for causes"


def _baselines(project: CliProject) -> list[str]:
    return [each["sweep_id"] for each in project("baseline", "show", "--json").document["baselines"]]


def _sweep(project: CliProject) -> str:
    """Carry out a sweep of one runner, and return its id."""
    project("run", "suites/greetings.yaml", "--runner", "greeter", "--quiet", "--refresh", "all")
    return str(project.ask("SELECT max(sweep_id) FROM sweeps")[0][0])


def check_baseline(data: JsonMap, folder: Path) -> None:
    """Check a row about the baseline of an agent and a set; versions of an agent are settings of a runner."""
    given, expected = data["input"], data["expected"]
    project = make_cli_project(folder)
    if given.get("none_set"):
        _sweep(project)
        assert (project("baseline", "show").code, _baselines(project)) == (3, [])
    elif "run_status" in given:
        _check_unfinished(project, expected)
    elif given.get("is_baseline") is False:
        project("baseline", "set", _sweep(project))
        assert (project("baseline", "clear").code, _baselines(project)) == (0, [])
    else:
        _check_order(project, given, expected)


def _check_unfinished(project: CliProject, expected: JsonMap) -> None:
    id_ = _sweep(project)
    with duckdb.connect(str(project.root / "data" / "warehouse.duckdb")) as connection:
        connection.execute("UPDATE sweeps SET status = 'interrupted'")
    answer = project("baseline", "set", id_)
    assert "$raises" in expected
    assert answer.code == 2
    assert "only finished sweeps can be a baseline" in answer.err
    assert _baselines(project) == []


def _check_order(project: CliProject, given: JsonMap, expected: JsonMap) -> None:
    """Check that of each version the run that was set last is the baseline."""
    versions = [names for name, names in given.items() if name != "set_in_order"]
    ids: dict[str, str] = {}
    for number, names in enumerate(versions):
        project.write("greet.sh", GREET + f"# version {number}\n")
        ids |= {name: _sweep(project) for name in names}
    for name in given["set_in_order"]:
        assert project("baseline", "set", ids[name]).code == 0
    stored = {id_ for (id_,) in project.ask("SELECT sweep_id FROM baselines")}
    assert {name: ids[name] in stored for name in expected} == dict(expected)


def check_exit_code(data: JsonMap, folder: Path, record: Record) -> None:
    """Check a row about how `run` ends where a threshold is missed: a suite with a failing case, or one without."""
    given, expected = data["input"], data["expected"]
    totals = given.get("run", {}).get("aggregate_metrics") or {}
    gates = [totals.get(f"{name}_passed") for name in ("metrics", "cases")]
    if given.get("flags") or given.get("run", {}).get("status") != "completed":
        pytest.skip("without counterpart: the HTTP server and its command")
    project = make_cli_project(folder)
    missed = False in gates
    suite, runner = ("suites/greetings.yaml", "greeter") if missed else ("suites/more/sums.jsonl", "parrot")
    assert project("run", suite, "--runner", runner, "--min-pass-rate", "1").code == expected["exit"]


def check_analysis(data: JsonMap, folder: Path, record: Record) -> None:
    """Check a row about the causes of a change: what changed is told without a model."""
    given, expected = data["input"], data["expected"]
    if "raw" in given:
        _check_fence(given["raw"])
    elif "cases" in given:
        changes = [_case(*case) for case in given["cases"]]
        found = regression(measured([before for before, _ in changes]), measured([after for _, after in changes]))
        assert [case["case_id"] for case in details_of(found)["cases"]] == expected["order"]
    elif "a" in given:
        assert prompt_change(given["a"], given["b"]).changed is (expected["summary"] is not None)
    else:
        record("difference", NOT_ANALYSED)
        new = "Be brief." if given["prompt_changed"] else "Be kind."
        assert prompt_change("Be kind.", new).changed is given["prompt_changed"]


def _check_fence(raw: str) -> None:
    """Check that a model's reply is read in the same wrapping; what is no JSON gives no score."""
    name = next(iter(REGISTRY))
    reply = json.dumps({name: {**POINTS, "score": 5, "passed": True}})
    inner = raw[raw.find("{") : raw.rfind("}") + 1]
    score = judged(raw.replace(inner, reply) if inner else raw, metrics=[{"metric": name, "weight": 1}])
    assert (score.value is not None) is bool(inner)


def _case(name: str, status: str, delta: float) -> tuple[JsonMap, JsonMap]:
    case = {"case": name, "passed": True, "score": 80.0}
    return case, {**case, "passed": status != "regression", "score": 80.0 + delta}


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
    record("difference", "a set without limits has those of its runners and of the project")
    document = {"test_cases": [{"name": "n", "persona": None}], "members": None, "config": given}
    (folder / "set.json").write_text(json.dumps(document))
    suite = load_suite(folder / "set.json")
    assert (suite.settings.concurrency, [case.timeout_s for case in suite.cases]) == (None, [None])


def _check_source(given: JsonMap, expected: JsonMap, folder: Path, record: Record) -> None:
    record("difference", "source within a file is refused: a tool names a function of a module")
    with pytest.raises(InputError, match="module"):
        declared_tools([{"name": "t", "implementation": {"type": "python", **given}}])


_VALUES: Mapping[str, Any] = {
    "ConversationTurn": _check_turn,
    "ToolCall": _check_call,
    "TurnRole": _check_roles,
    "TestCaseResult": _check_result,
    "MetricScore": _check_metric,
    "RunConfig": _check_config,
    "PythonImplementation": _check_source,
}
CHECKS: Mapping[str, Any] = {
    "baseline": lambda data, folder, record: check_baseline(data, folder),
    "cli.exit_code": check_exit_code,
    "schema.enum": check_values,
    **dict.fromkeys(("analysis.run", "analysis.parse", "analysis.format", "analysis.prompt_summary"), check_analysis),
}
