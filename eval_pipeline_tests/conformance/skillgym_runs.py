"""skillgym's rows about whole runs: a Python suite with the row's checks is carried out, and its verdicts are compared.

A scenario that stands in no table here has no counterpart so far.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations
from eval_pipeline_tests.conformance.public_verbs import command, new_folder
from eval_pipeline_tests.conformance.recorded_facts import Row
from eval_pipeline_tests.conformance.row_outcomes import not_offered
from eval_pipeline_tests.conformance.skillgym_commands import other_of
from eval_pipeline_tests.conformance.skillgym_scenarios import carried_out, scenario_of
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, make_project

SCENARIOS, COMMANDS = "runner_scenarios", "cli"
_MODULE = """from eval_pipeline import Case, classify, commands, output, soft

def passes(report, ctx): pass

def gap(report, ctx): output.includes(report, "no such word")

def classified(report, ctx):
    with classify({"id": "missing-flag", "label": "Missing required flag"}):
        output.includes(report, "--json", message="expected the agent to pass --json")

def crashes(report, ctx): raise RuntimeError("assert hook crashed intentionally")

def two_soft(report, ctx):
    soft.output.includes(report, "--json", message="expected output")
    soft.commands.includes(report, "pnpm test", message="expected command")

def soft_and_hard(report, ctx):
    soft.output.includes(report, "--json", message="soft failure")
    raise AssertionError("hard failure")

def one_soft(report, ctx): soft.output.includes(report, "--json")

"""
_CASES = {
    "assert-classify": "[Case(id='alpha', prompt='2', check=classified)]",
    "non-assertionerror": "[Case(id='alpha', prompt='2', check=crashes)]",
    "flushes-collected-soft": "[Case(id='alpha', prompt='2', check=two_soft)]",
    "merges-soft-failures": "[Case(id='alpha', prompt='2', check=soft_and_hard)]",
    "clears-soft": "[Case(id='a', prompt='2', check=one_soft), Case(id='b', prompt='2', check=passes)]",
    "aggregates-expected-failures": "[Case(id='known-gap', prompt='2', check=gap, expected_fail=True),"
    " Case(id='stable', prompt='2', check=passes)]",
    "filters-cases-by-tags": "[Case(id=i, prompt='2', check=passes, tags=t) for i, t in"
    " (('alpha', ['smoke', 'fast', 'smoke']), ('beta', ['regression']), ('gamma', []))]",
    "composes-tag-filters": "[Case(id=i, prompt='2', check=passes, tags=['smoke']) for i in ('alpha', 'beta')]",
    "no-cases-match": "[Case(id='alpha', prompt='2', check=passes, tags=['smoke'])]",
    "run-failed-execution": "[Case(id='alpha', prompt='2', check=gap)]",
    "run-expected-failure": "[Case(id='alpha', prompt='2', check=gap, expected_fail=True)]",
    "run-unexpected-pass": "[Case(id='alpha', prompt='2', check=passes, expected_fail=True)]",
    "tag-accumulation": "[Case(id=t, prompt='2', check=passes, tags=[t]) for t in"
    " ('smoke', 'gestures', 'regression', 'other')]",
    "run-passes-tags": "[Case(id=t, prompt='2', check=passes, tags=[t]) for t in"
    " ('smoke', 'gestures', 'regression', 'other')]",
}
"""Scenarios by words of their id: the cases of the row."""
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "filters-cases-by-tags": ("--tag", "fast,regression"),
    "composes-tag-filters": ("--tag", "smoke", "--case", "beta", "--runner", "code"),
    "no-cases-match": ("--tag", "missing"),
    "tag-accumulation": ("--tag", "smoke,gestures", "--tag", "regression"),
    "run-passes-tags": ("--tag", "smoke,gestures", "--tag", "regression"),
}
_TWO_RUNNERS = ("composes-tag-filters",)


def is_run(row: Row) -> bool:
    return row.family == "skillgym" and row.file in (SCENARIOS, COMMANDS)


def observe(row: Row) -> Observations:
    """Carry the row's cases out and return the exit code, what was called, and the verdicts."""
    name = next((name for name in _CASES if name in row.data["id"]), None)
    if name is None and scenario_of(row.data["id"]) is not None:
        return {AS_WRITTEN: Observation(values=_scenario(row))}
    other = other_of(row.data, row.file) if name is None else None
    if other is not None:
        return {AS_WRITTEN: Observation(values=other())}
    if name is None:
        not_offered(f"rows about {row.file}: {row.data['id'][:60]}")
    return {AS_WRITTEN: Observation(values={"name": name, **_carried_out(name)})}


def _scenario(row: Row) -> dict[str, Any]:
    setup = row.data["setup"]
    cases = tuple(case if isinstance(case, str) else case["id"] for case in setup.get("cases", ["alpha"]))
    runners = tuple(setup.get("runners", {"open": {}}))
    return carried_out(row.data["id"], cases, runners, setup.get("maxParallel"))


@cache
def _carried_out(name: str) -> dict[str, Any]:
    folder = make_project(new_folder())
    (folder.root / "suites" / "sums.yaml").unlink()
    (folder.root / "suites" / "cases.py").write_text(f"{_MODULE}suite = {_CASES[name]}\n")
    runners = ("open", "code") if name in _TWO_RUNNERS else ("open",)
    folder.write_runners(*(a_runner_entry(runner) for runner in runners))
    ended = command("run", "--project", folder.root, "--json", "--quiet", *_OPTIONS.get(name, ()))
    called = folder.take_calls()
    return {"code": ended.code, "err": ended.err, "called": called, "verdicts": _verdicts(folder) if called else {}}


def _verdicts(folder: ProjectFolder) -> dict[str, Mapping[str, Any]]:
    query = "SELECT case_id, status, failure_class, failure_label, reason, to_json(tags) FROM current_verdicts"
    fields = ("status", "class", "label", "reason", "tags")
    return {row[0]: dict(zip(fields, row[1:], strict=True)) for row in folder.ask(query)}


def check(row: Row, seen: Observation) -> None:
    """Assert that statuses, classes, messages, filters and the exit code are those of the row."""
    values, expected = seen.values, row.data.get("asserted") or row.data["expect"]
    scenario = scenario_of(row.data["id"])
    if scenario is not None:
        scenario.check(expected, values)
        return
    verdicts, code = values["verdicts"], values["code"]
    _check_failure(expected, verdicts, code)
    for case in expected.get("cases", ()):
        mine = verdicts[case["caseId"]]
        assert mine["status"] == case.get("status", "passed")
        assert "tags" not in case or json.loads(mine["tags"]) == case["tags"]
    if "executed" in expected:
        executed = [each if ":" in each else f"{each}:open" for each in expected["executed"]]
        assert values["called"] == sorted("/".join(reversed(each.split(":"))) for each in executed)
    if "executeSuite_option" in expected:
        assert sorted(verdicts) == sorted(expected["executeSuite_option"]["tags"])
    if "value" in expected:
        assert sorted(verdicts) == sorted(expected["value"])
    if isinstance(expected.get("passed"), list):
        assert [verdicts[id_]["status"] == "passed" for id_ in sorted(verdicts)] == expected["passed"]
    if "raises" in expected:
        assert code != 0
    if values["name"] == "no-cases-match":
        assert values["called"] == [] and "no case matches" in values["err"]
    if "cases" in expected or "resolves" in expected:
        assert code == 0


def _check_failure(expected: Mapping[str, Any], verdicts: Mapping[str, Mapping[str, Any]], code: int) -> None:
    """Assert the class, the label and the words of the one case that failed."""
    if "failureClass" not in expected:
        return
    (verdict,) = verdicts.values()
    assert {"id": verdict["class"], "label": verdict["label"]} == expected["failureClass"]
    words = expected.get("error_contains", expected.get("error_message", ()))
    assert all(word in verdict["reason"] for word in ([words] if isinstance(words, str) else words)), verdict["reason"]
    assert code != 0
