"""Rows of our own, with other ids, names and numbers than recorded ones: they are carried out by what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from eval_pipeline_tests.conformance.judging import judge
from eval_pipeline_tests.conformance.recorded_facts import Row

Data = Mapping[str, Any]
RUNNERS = {"left": {"type": "codex", "model": "m"}}


def a_row(setup: Any, asserted: Data, produced: Any = None, file: str = "runner_scenarios") -> Row:
    expected = "asserted" if file == "runner_scenarios" else "expect"
    recorded = {} if produced is None else {"as_produced": produced}
    return Row("skillgym", file, "row", 9500, {"id": "a-new-one", "setup": setup, expected: asserted, **recorded})


def a_session(origin: str | None = None, tokens: int = 50, message: str = "as told") -> dict[str, Any]:
    ended = {"passed": origin is None, "status": "passed" if origin is None else "failed"}
    failed = {} if origin is None else {"failureOrigin": origin, "error": {"message": message}}
    return {**ended, **failed, "usage": {"totalTokens": tokens}}


def produced(*groups: list[dict[str, Any]], case: str = "one", status: str | None = None) -> dict[str, Any]:
    """What came of one case: the sessions of each repetition."""
    passed = all(group[-1]["passed"] for group in groups) if status is None else status == "expected-failed"
    result = {"runner": "left", "passed": passed, "status": status or ("passed" if passed else "failed")}
    repetitions = [{"sessions": group} for group in groups]
    return {"cases": [{"caseId": case, "runnerResults": [{**result, "repetitions": repetitions}]}]}


def a_run(**fields: Any) -> dict[str, Any]:
    return {"cases": ["one"], "runners": RUNNERS, **fields}


BAD, GOOD = a_session("assertion"), a_session()
RETRIED = a_row(
    a_run(retryFailed=3, outcome="two fail, the third passes"),
    {"invocations": 3, "runnerResult": {"passed": True}, "results_json_keeps_sessions": 3},
    produced([BAD, BAD, GOOD]),
)
STOPPED = a_row(
    a_run(repeat=3, repeatFailure=1, outcome="one passes, the others fail"),
    {"invocations": 3, "runnerResult": {"passed": False, "status": "failed", "successfulRepetitions": 1},
     "usage_totalTokens": 70, "error_contains": "as told"},
    produced([a_session(tokens=70)], [BAD, BAD]),
)  # fmt: skip
EXPECTED = a_row(
    a_run(cases=[{"id": "one", "expectedFail": True}], outcome="fails"),
    {"cases": [{"caseId": "one", "passed": True, "status": "expected-failed"}],
     "runner": {"totalCases": 1, "passedCases": 1, "successRate": 1}},
    produced([BAD], status="expected-failed"),
)  # fmt: skip
UNEXPECTED = a_row(
    a_run(cases=[{"id": "one", "expectedFail": True}], outcome="passes"),
    {"cases": [{"caseId": "one", "passed": False, "status": "unexpected-passed"}],
     "failureClass": {"id": "unexpected-passed", "label": "Unexpected pass"}},
    produced([GOOD], status="unexpected-passed"),
)  # fmt: skip
HOOK_CRASH = a_row(
    a_run(cases=[{"id": "one", "expectedFail": True}], outcome="the check crashes"),
    {"passed": False, "failureClass": {"id": "assert-hook", "label": "Assert hook crash"}, "error_message": "as told"},
    produced([a_session("assert-hook")], status="failed"),
)
AGENT_CRASH = a_row(a_run(outcome="the agent crashes"), {"passed": False}, produced([a_session("runner")]))
TAGGED = a_row(
    {"tags": ["cold"], "runner": "right", "cases": [{"id": "x", "tags": ["cold"]}, {"id": "y", "tags": ["warm"]}],
     "runners": {**RUNNERS, "right": {}}},
    {"executed": ["x:right"]},
)  # fmt: skip
REFRESHED = a_row(
    a_run(snapshots={"metric": "totalTokens", "tolerance": {"percent": 1}, "updateSnapshots": True},
          existing_entries={"one::left": 10}, totalTokens=33),
    {"entries_after": {"one::left": 33}},
)  # fmt: skip
WITHIN = a_row({"snapshots": {"tolerance": {"absolute": 7}}, "baseline": 60, "totalTokens": 67}, {"passed": True})
ABOVE = a_row(
    {"snapshots": {"tolerance": {"absolute": 6}}, "baseline": 60, "totalTokens": 67},
    {"passed": False, "failureClass": {"id": "snapshot", "label": "Snapshot verification"},
     "error_contains": ["Snapshot mismatch for totalTokens"]},
    [{"passed": False, "status": "failed", "runner": "open-main"}],
)  # fmt: skip
CLASSIFIED = a_row(
    {"assert": "classify({id: late, label: Too late}) around a failing output check with message"},
    {"failureClass": {"id": "late", "label": "Too late"}, "error_contains": "expected it sooner"},
    [{"passed": False, "status": "failed", "runner": "open-main"}],
)
SOFT = a_row(
    {"soft": ['commands.includes "make" message "no make"'], "hard": 'AssertionError("at last")'},
    {"failureClass": {"id": "assertion", "label": "Assertion failure"}, "error_contains": ["no make", "at last"]},
    [{"passed": False, "status": "failed", "runner": "open-main"}],
)
ASKED = a_row(
    {"assert": 'hard commands.includes "make" with explain.question "Why no make?"', "sessionId": "ses_9"},
    {"explain_json": {"caseId": "alpha", "runnerId": "open-main", "sessionId": "ses_9"},
     "questions": [{"question": "Why no make?"}]},
    [{"passed": False, "status": "failed", "runner": "open-main"}],
)  # fmt: skip
TEMPLATE = a_row(
    a_run(workspace={"mode": "isolated", "templateDir": "<tmp>/start"}, template={"NOTES.md": "begin here\n"}),
    {"workspace_had_template_files_including_dot_git": True, "workspace_deleted_after_pass": True},
)
LISTED = a_row("tags a, b given on the command line", {"executeSuite_option": {"tags": ["a", "b"]}}, file="cli")
ENDED = a_row(
    "suite result has one runner result passed=false status=failed", {"raises": "ExecutionFailuresError"}, file="cli"
)
VARIANTS = {
    "retried": RETRIED, "stopped": STOPPED, "expected": EXPECTED, "unexpected": UNEXPECTED, "hook crash": HOOK_CRASH,
    "agent crash": AGENT_CRASH, "tagged": TAGGED, "refreshed": REFRESHED, "within": WITHIN, "above": ABOVE,
    "classified": CLASSIFIED, "soft": SOFT, "asked": ASKED, "template": TEMPLATE, "listed": LISTED, "ended": ENDED,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_a_row_of_another_id_is_carried_out(name: str) -> None:
    judge(VARIANTS[name], lambda key, value: None)


WRONG = {
    "calls": a_row(RETRIED.data["setup"], {"invocations": 2}, RETRIED.data["as_produced"]),
    "class": a_row(
        CLASSIFIED.data["setup"], {"failureClass": {"id": "x", "label": "y"}}, CLASSIFIED.data["as_produced"]
    ),
    "entries": a_row(REFRESHED.data["setup"], {"entries_after": {"one::left": 34}}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_a_row_that_holds_something_else_is_not_reproduced(name: str) -> None:
    with pytest.raises(AssertionError):
        judge(WRONG[name], lambda key, value: None)


UNREAD = {
    "nothing reads its setup's weather": a_row(a_run(weather="fine"), {"passed": True}),
    "it does not hold its sessions": a_row(a_run(outcome="all is well"), {"passed": True}),
    "nothing reads the field moon of its case one": a_row(a_run(cases=[{"id": "one", "moon": 1}]), {}),
    "nothing reads the check 'as always'": a_row({"assert": "as always"}, {}),
    "nothing reads a row about commands": a_row("something else", {}, file="cli"),
}


@pytest.mark.parametrize("reason", UNREAD)
def test_a_row_that_nothing_reads_fails_with_what_is_missing(reason: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=reason):
        judge(UNREAD[reason], lambda key, value: None)
