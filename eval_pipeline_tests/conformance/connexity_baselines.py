"""Connexity's recorded facts about baselines, exit codes, absent values and causes, through a small project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from eval_pipeline.leaderboards.causes import Evidence, causes_question, read_causes
from eval_pipeline.leaderboards.differences import Setup, prompt_change, setup_change
from eval_pipeline.leaderboards.regressions import regression
from eval_pipeline_tests.cli.sample_project import GREET, CliProject, make_cli_project
from eval_pipeline_tests.conformance import connexity_defaults as defaults
from eval_pipeline_tests.conformance.connexity_comparisons import measured
from eval_pipeline_tests.conformance.row_outcomes import Record

JsonMap = Mapping[str, Any]
ONE_CALL = "one call of a model names causes and what a change of the prompt means"


def _baselines(project: CliProject) -> list[str]:
    return [each["sweep_id"] for each in project("baseline", "show", "--json").document["baselines"]]


def _sweep(project: CliProject) -> str:
    """Carry out a sweep of one runner, and return its id."""
    project.once("run", "suites/greetings.yaml", "--runner", "greeter", "--quiet", "--refresh", "all")
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
        project.write("greet.sh", GREET + "# newer\n" * number)
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
    """Check a row about the causes of a change: what a model is told, and how its reply is read."""
    given, expected = data["input"], data["expected"]
    if "raw" in given:
        _check_reply(given["raw"], expected)
    elif "cases" in given:
        question = causes_question(_evidence(given["cases"]))
        places = [question.index(f"{name}: score") for name in expected["order"]]
        assert places == sorted(places)
        assert not any(f"{name}: score" in question for name in expected["excludes"])
    elif "a" in given:
        assert prompt_change(given["a"], given["b"]).changed is (expected["summary"] is not None)
    else:
        _check_question(given["prompt_changed"], record)


def _check_reply(raw: str, expected: JsonMap) -> None:
    causes = read_causes(raw)
    assert (causes.summary == expected["summary"] and not causes.problem) if "summary" in expected else causes.problem


def _check_question(prompt_changed: bool, record: Record) -> None:
    """Check that the one question has the change of the prompt where there is one."""
    if prompt_changed:
        record("difference", ONE_CALL)
    old = Setup(suite="s", runner="r", prompt="Be kind.")
    new = replace(old, prompt="Be brief." if prompt_changed else old.prompt)
    evidence = replace(_evidence([["c", "regression", -20.0]]), changes=[setup_change(old, new)])
    assert evidence.shifted
    assert ("+Be brief." in causes_question(evidence)) is prompt_changed


def _evidence(cases: Sequence[Any]) -> Evidence:
    changes = [_case(*case) for case in cases]
    found = regression(measured([before for before, _ in changes]), measured([after for _, after in changes]))
    return Evidence(baseline="a", candidate="b", found=found)


def _case(name: str, status: str, delta: float) -> tuple[JsonMap, JsonMap]:
    case = {"case": name, "passed": True, "score": 80.0}
    return case, {**case, "passed": status != "regression", "score": 80.0 + delta}


CHECKS: Mapping[str, Any] = {
    "baseline": lambda data, folder, record: check_baseline(data, folder),
    "cli.exit_code": check_exit_code,
    "schema.enum": defaults.check_values,
    **dict.fromkeys(("analysis.run", "analysis.parse", "analysis.format", "analysis.prompt_summary"), check_analysis),
}
