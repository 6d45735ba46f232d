"""Differences about what skillgym's runs and commands do, but ours do otherwise on purpose."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Check, Difference, Observations
from eval_pipeline_tests.conformance.recorded_facts import Row
from eval_pipeline_tests.conformance.skillgym_commands import (
    HELP,
    explains_again,
    explains_nothing,
    is_above_steps,
    is_crash,
    is_failed_run,
    is_garbled,
    is_lanes,
    is_project_error,
    is_rejection,
    lists_skills,
    runs_without_config,
    runs_without_suite,
    shows_runner_output,
)
from eval_pipeline_tests.conformance.skillgym_setups import results_of

Values = Mapping[str, Any]


def _is(holds: Callable[[Values], bool]) -> Callable[[Row], bool]:
    return lambda row: row.family == "skillgym" and row.file in ("cli", "runner_scenarios") and holds(row.data)


def _on(check: Callable[[Values], None]) -> Check:
    def checked(row: Row, observations: Observations) -> None:
        check(observations[AS_WRITTEN].values)

    return checked


def _plans(values: Values) -> dict[str, Values]:
    return {f"{plan['case_id']}:{plan['runner']}": plan for plan in values["plans"]}


def _rejected(row: Row, observations: Observations) -> None:
    """Assert that a rejecting runner was called once, and every other for each case."""
    values, plans = observations[AS_WRITTEN].values, _plans(observations[AS_WRITTEN].values)
    called = [call.split()[0] for call in values["calls"]]
    results = [(case, runner, result["passed"]) for case, runner, result in results_of(row.data)]
    assert values["code"] != 0
    assert set(plans) == {f"{case}:{runner}" for case, runner, _ in results}
    for name in {runner for _, runner, _ in results}:
        of_runner = [(case, passed) for case, runner, passed in results if runner == name]
        mine = [plans[f"{case}:{name}"] for case, _ in of_runner]
        if all(passed for _, passed in of_runner):
            assert called.count(name) == len(of_runner)
            assert all(plan["status"] == "passed" for plan in mine)
        else:
            assert called.count(name) == 1
            _stopped(name, mine)


def _stopped(runner: str, plans: Sequence[Values]) -> None:
    """Assert that one session met the rejected model, and the others say so."""
    assert all(plan["status"] == "error" for plan in plans)
    assert sorted(plan["failure_class"] for plan in plans) == ["model-rejected", *["stopped"] * (len(plans) - 1)]
    stopped = [plan for plan in plans if plan["failure_class"] == "stopped"]
    assert all(f"earlier session of '{runner}' failed" in plan["reason"] for plan in stopped)


def _failed_run(values: Values) -> None:
    """Assert that each case that failed is said."""
    assert values["code"] != 0
    assert {plan["status"] for plan in _plans(values).values()} == {"passed", "error"}
    assert all(plan["reason"] for plan in _plans(values).values() if plan["status"] == "error")


def _above_steps(row: Row, observations: Observations) -> None:
    most = row.data["setup"]["maxSteps"]
    _is_error("max-steps", f"{most} step")(observations[AS_WRITTEN].values)


def _is_error(class_: str, *words: str) -> Callable[[Values], None]:
    def check(values: Values) -> None:
        (plan,) = _plans(values).values()
        assert (plan["status"], plan["failure_class"]) == ("error", class_), plan
        assert all(word in plan["reason"] for word in words), plan
        assert values["code"] != 0

    return check


def _crashed(row: Row, observations: Observations) -> None:
    """Assert that each session that crashed is an error with its message, and every other execution has its status."""
    values = observations[AS_WRITTEN].values
    assert values["code"] != 0
    statuses = {(case, runner): status for case, runner, status in values["cases"]}
    for case, runner, result in results_of(row.data):
        assert (statuses[case, runner] in ("passed", "expected-failed")) is result["passed"]
        if result.get("failureOrigin") != "runner":
            continue
        of_pair = [each for each in values["verdicts"] if (each["case"], each["runner"]) == (case, runner)]
        crashed = [each for each in of_pair if each["class"] == "target-crash"]
        assert statuses[case, runner] == "error"
        assert crashed and all(each["status"] == "error" for each in crashed)
        assert all(result["error"]["message"] in each["reason"] for each in crashed)


def _lanes(row: Row, observations: Observations) -> None:
    """Assert that a runner has one session at a time, runners overlap, and no more of them than the limit."""
    open_: set[str] = set()
    most = 0
    for what, name, _ in sorted(observations[AS_WRITTEN].values["log"], key=lambda each: int(each[2])):
        runner = name.split(":")[1]
        if what == "end":
            open_.discard(runner)
            continue
        assert runner not in open_
        open_.add(runner)
        most = max(most, len(open_))
    assert 2 <= most <= row.data["setup"].get("maxParallel", len(row.data["setup"]["runners"]))


def _refuses(code: int, *words: str) -> Check:
    def check(values: Values) -> None:
        assert values["code"] == code, values
        assert all(word in values["out"] + values["err"] for word in words), values
        assert "Traceback" not in values["err"]

    return _on(check)


_REPORTERS = {"json": "run --json", "github-actions": "run --report github", "html": "export --format html"}


def _names_reporter(row: Row, observations: Observations) -> None:
    """Assert that `convert` says what the reporter of the configuration is here."""
    reporter = row.data["args"][1]["config"]["run"]["reporter"]
    (note,) = observations[AS_WRITTEN].values["notes"]
    assert note.startswith("run.reporter: ")
    assert _REPORTERS.get(reporter, "installed as an entry point") in note


_OURS = {
    "Usage: skillgym run": "Usage: eval-pipeline run",
    "skillgym skills get core": "Commands:",
    "explain <artifactDir>": "explain [OPTIONS] [SUITE[/CASE]]",
    "Explain Options:": "Options:",
    "Run Options:": "Options:",
    "skills list": "Commands:",
    "skills get <name>": "Commands:",
    "Examples:": "Exit codes:",
    "--config": "--project",
    "--cwd": "--runners",
    "--output-dir": "--data",
    "--schedule": "--concurrency",
    "--max-parallel": "--concurrency",
    "--repeat-failure": "--on-failure",
    "--retry-failed": "--on-failure",
    "--reporter": "--report",
    "--snapshots": "--update-snapshots",
}
"""What skillgym's help names, and what ours has for it; the folder of agents is `cwd` of a runner."""


def _helps(row: Row, observations: Observations) -> None:
    """Assert that our help has every word of theirs, or what is that word here."""
    values = observations[AS_WRITTEN].values
    assert values["code"] == 0
    for words in row.data["expect"]["stdout_contains"]:
        option = re.sub(r" <[a-z]+>$", "", words)
        ours = option if option in values["out"] else _OURS.get(option) or _OURS[words]
        assert ours in values["out"], (words, ours)


def _names_the_known(row: Row, observations: Observations) -> None:
    values = observations[AS_WRITTEN].values
    assert values["code"] == 2
    assert values["words"] in values["err"]
    assert len(values["err"].strip().splitlines()) == 1


RUNS: tuple[Difference, ...] = (
    Difference(
        "a reporter is named at each run",
        "no file of a project says what a person wants to see; `convert` names the option or command for each reporter",
        lambda row: row.family == "skillgym" and row.kind == "resolveReporterOptions",
        _names_reporter,
    ),
    Difference(
        "a reporter of one's own is an export",
        "a path to a module runs what lies there; an installed entry point is chosen once, and exports have its name",
        lambda row: row.family == "skillgym" and row.file == "load_reporter" and "module" in row.data,
        _refuses(2, "--report", "is not", "export"),
    ),
    Difference(
        "cases that a rejected model leaves out are called stopped",
        "the class model-rejected is for the session that met it; the others name that session and its message",
        _is(is_rejection),
        _rejected,
    ),
    Difference(
        "runners begin together, each with its first session alone",
        "a rejected model costs one session of its runner in both; waiting for other runners would cost only time",
        _is(is_lanes),
        _lanes,
    ),
    Difference(
        "a crash is an error, not a failure",
        "what broke says nothing about the quality of answers; it is counted apart and never as 0",
        _is(is_crash),
        _crashed,
    ),
    Difference(
        "an output that cannot be read is an error of its target",
        "there is one class for a CLI that did not end its session; the raw output is kept beside the result",
        _is(is_garbled),
        _on(_is_error("target-crash")),
    ),
    Difference(
        "a session above its steps keeps what there is of it",
        "skillgym throws the report away; ours has the session so far, and the class is the same",
        _is(is_above_steps),
        _above_steps,
    ),
    Difference(
        "no option mirrors an agent's output",
        "no command of skillgym sets it either; `run` shows the steps of sessions while they work",
        _is(shows_runner_output),
        _refuses(2, "No such option"),
    ),
    Difference(
        "help has our options",
        "`--on-failure`, `--concurrency` and runners' `concurrency` are what `--repeat-failure`, `--schedule` and "
        "`--max-parallel` are in skillgym",
        lambda row: row.family == "skillgym" and row.file == "cli" and row.data.get("argv") in HELP,
        _helps,
    ),
    Difference(
        "guidance is in the documentation",
        "pages of the documentation are what skillgym prints with `skills get`",
        _is(lists_skills),
        _refuses(2, "No such command 'skills'"),
    ),
    Difference(
        "without an argument `run` takes the suites of the project",
        "a project has its suites beside it; where there are none, the message says where they may be",
        _is(runs_without_suite),
        _refuses(2, "no suite at 'suites'"),
    ),
    Difference(
        "runners are a file of the project",
        "what is evaluated is in a runners file; where there is none, the message says what to write and where",
        _is(runs_without_config),
        _refuses(2, "no runners: write those to be evaluated into runners.yaml"),
    ),
    Difference(
        "an error is one line with the known names",
        "a person needs what is wrong and what there is instead; a list of tries repeats what the line says",
        lambda row: row.family == "skillgym" and row.file == "cli" and is_project_error(row.data),
        _names_the_known,
    ),
    Difference(
        "explain asks for a project, not for a folder of results",
        "questions are in the warehouse of a project; where there is none, the message names the file that is missing",
        _is(explains_nothing),
        _refuses(2, "no project file"),
    ),
    Difference(
        "explain asks again with the same option",
        "answers are rows of the table `explanations`, not files; `--rerun` replaces them",
        _is(explains_again),
        _refuses(0, "--rerun", "explanations"),
    ),
    Difference(
        "a run whose cases failed says which",
        "a person needs the cases that failed, and the command that shows one; nothing is a bug there",
        _is(is_failed_run),
        _on(_failed_run),
    ),
)
