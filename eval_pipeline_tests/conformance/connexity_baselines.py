"""Connexity's recorded facts about baselines, exit codes, absent values and causes, through a small project."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from eval_pipeline.leaderboards.differences import prompt_change
from eval_pipeline.leaderboards.regressions import details_of, regression
from eval_pipeline.scores.grading.judge_metrics import REGISTRY
from eval_pipeline_tests.cli.sample_project import GREET, CliProject, make_cli_project
from eval_pipeline_tests.conformance import connexity_defaults as defaults
from eval_pipeline_tests.conformance.connexity_comparisons import measured
from eval_pipeline_tests.conformance.connexity_judging import POINTS, judged
from eval_pipeline_tests.conformance.row_outcomes import Record

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


CHECKS: Mapping[str, Any] = {
    "baseline": lambda data, folder, record: check_baseline(data, folder),
    "cli.exit_code": check_exit_code,
    "schema.enum": defaults.check_values,
    **dict.fromkeys(("analysis.run", "analysis.parse", "analysis.format", "analysis.prompt_summary"), check_analysis),
}
