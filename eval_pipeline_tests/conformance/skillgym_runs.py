"""skillgym's rows about whole runs: a Python suite with the row's checks is carried out, and its verdicts are compared.

How a row is carried out is said by what it holds, never by its id. A row that holds what nothing here reads fails.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations
from eval_pipeline_tests.conformance.recorded_facts import Row
from eval_pipeline_tests.conformance.skillgym_commands import other_of
from eval_pipeline_tests.conformance.skillgym_scenarios import carried_out
from eval_pipeline_tests.conformance.skillgym_scenarios import check as check_scenario
from eval_pipeline_tests.conformance.skillgym_setups import missing

SCENARIOS, COMMANDS = "runner_scenarios", "cli"
_RESULT = re.compile(r"suite result has one runner result passed=(?P<passed>true|false) status=(?P<status>[a-z-]+)")
_GIVEN = re.compile(r"tags (?P<tags>.+) given on the command line")
_ACCUMULATED = re.compile(r'accumulate\("([^"]*)"\)')
_ORIGINS = {"failed": "assertion", "expected-failed": "assertion"}


def is_run(row: Row) -> bool:
    return row.family == "skillgym" and row.file in (SCENARIOS, COMMANDS)


def observe(row: Row) -> Observations:
    """Carry the row's cases out and return the exit code, what was called, and the verdicts."""
    other = other_of(row.data, row.file)
    values = other() if other is not None else carried_out(scenario_of(row))
    return {AS_WRITTEN: Observation(values=values)}


def check(row: Row, seen: Observation) -> None:
    """Assert that statuses, classes, messages, filters and the exit code are those of the row."""
    if other_of(row.data, row.file) is not None:
        _check_answer(row.data["expect"], seen.values)
    else:
        check_scenario(scenario_of(row), seen.values)


def _check_answer(expected: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Assert that a command answers as theirs does."""
    assert values["code"] == expected.get("exit", 0)
    assert all(words in values["out"] for words in expected.get("stdout_contains", ()))
    assert all(words in values["err"] for words in expected.get("stderr_contains", ()))


def scenario_of(row: Row) -> Mapping[str, Any]:
    """Return the setup of a row and what it asserts; a row about a command says them in words."""
    if row.file == SCENARIOS:
        return row.data
    setup = row.data.get("setup", "")
    result = _RESULT.fullmatch(setup)
    if result is not None:
        return _with_status(result["status"], result["passed"] == "true")
    given, accumulated = _GIVEN.fullmatch(setup), _ACCUMULATED.findall(row.data.get("call", ""))
    if given is None and not accumulated:
        missing(f"nothing reads a row about commands with {', '.join(sorted(row.data))}")
    expected = row.data["expect"]
    selected = expected["value"] if accumulated else expected["executeSuite_option"]["tags"]
    return _with_tags(accumulated or re.split(r",\s*", given["tags"] if given else ""), selected)


def _with_status(status: str, passed: bool) -> Mapping[str, Any]:
    """A run with one case that ends so."""
    origin = _ORIGINS.get(status)
    result = {"runner": "open", "status": status, "passed": passed}
    failed = {"failureOrigin": origin, "error": {"message": "as recorded"}} if origin else {}
    case = {"id": "alpha", "expectedFail": status in ("expected-failed", "unexpected-passed")}
    setup = {"cases": [case], "runners": {"open": {}}, "outcome": status}
    return {"setup": setup, "asserted": {"results_json_status": status},
            "as_produced": {"cases": [{"caseId": "alpha", "runnerResults": [{**result, **failed}]}]}}  # fmt: skip


def _with_tags(words: list[str], selected: list[str]) -> Mapping[str, Any]:
    """A run of a case for each tag that is selected and for one that is not, with tags as the command line has them."""
    cases = [{"id": f"of-{tag}", "tags": [tag]} for tag in (*selected, "other-than-these")]
    setup = {"tags": words, "cases": cases, "runners": {"open": {}}}
    return {"setup": setup, "asserted": {"executed": [f"of-{tag}" for tag in selected]}}
