"""Differences about what skillgym's runs and commands do, but ours do otherwise on purpose."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Check, Difference, Observations
from eval_pipeline_tests.conformance.recorded_facts import Row
from eval_pipeline_tests.conformance.skillgym_commands import (
    COLLECTION,
    FAILED_SUITES,
    HELP,
    MAX_STEPS,
    REJECTION,
    RUNNER_OUTPUT,
    is_project_error,
)

Values = Mapping[str, Any]


def _is(*ids: str) -> Callable[[Row], bool]:
    return lambda row: row.family == "skillgym" and row.data.get("id") in ids


def _has(words: str) -> Callable[[Row], bool]:
    return lambda row: row.file == "runner_scenarios" and words in row.data["id"]


def _on(check: Callable[[Values], None]) -> Check:
    def checked(row: Row, observations: Observations) -> None:
        check(observations[AS_WRITTEN].values)

    return checked


def _plans(values: Values) -> dict[str, Values]:
    return {f"{plan['case_id']}:{plan['runner']}": plan for plan in values["plans"]}


def _rejected(values: Values) -> None:
    called = [call.split()[0] for call in values["calls"]]
    assert (called.count("open"), called.count("code")) == (3, 1)
    assert values["code"] != 0
    assert all(plan["status"] == "passed" for name, plan in _plans(values).items() if name.endswith(":open"))
    first, *others = (plan for name, plan in sorted(_plans(values).items()) if name.endswith(":code"))
    assert (first["status"], first["failure_class"]) == ("error", "model-rejected")
    assert len(others) == 2
    for plan in others:
        assert (plan["status"], plan["failure_class"]) == ("error", "stopped")
        assert "earlier session of 'code' failed" in plan["reason"]


def _is_error(class_: str, *words: str) -> Callable[[Values], None]:
    def check(values: Values) -> None:
        (plan,) = _plans(values).values()
        assert (plan["status"], plan["failure_class"]) == ("error", class_), plan
        assert all(word in plan["reason"] for word in words), plan
        assert values["code"] != 0

    return check


def _crashed(values: Values) -> None:
    (verdict,) = values["verdicts"]
    assert (verdict["status"], verdict["class"]) == ("error", "target-crash")
    assert "boom" in verdict["reason"]
    assert values["code"] != 0


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
        _is(REJECTION),
        _on(_rejected),
    ),
    Difference(
        "runners begin together, each with its first session alone",
        "a rejected model costs one session of its runner in both; waiting for other runners would cost only time",
        _has("isolated-by-runner"),
        _lanes,
    ),
    Difference(
        "a crash is an error, not a failure",
        "what broke says nothing about the quality of answers; it is counted apart and never as 0",
        _has("execution-errors"),
        _on(_crashed),
    ),
    Difference(
        "an output that cannot be read is an error of its target",
        "there is one class for a CLI that did not end its session; the raw output is kept beside the result",
        _is(COLLECTION),
        _on(_is_error("target-crash")),
    ),
    Difference(
        "a session above its steps keeps what there is of it",
        "skillgym throws the report away; ours has the session so far, and the class is the same",
        _is(MAX_STEPS),
        _on(_is_error("max-steps", "1 step")),
    ),
    Difference(
        "no option mirrors an agent's output",
        "no command of skillgym sets it either; `run` shows the steps of sessions while they work",
        _is(RUNNER_OUTPUT),
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
        _is("cli__skills-list"),
        _refuses(2, "No such command 'skills'"),
    ),
    Difference(
        "without an argument `run` takes the suites of the project",
        "a project has its suites beside it; where there are none, the message says where they may be",
        _is("cli__run-missing-suite"),
        _refuses(2, "no suite at 'suites'"),
    ),
    Difference(
        "runners are a file of the project",
        "what is evaluated is in a runners file; where there is none, the message says what to write and where",
        _is("cli__run-missing-config"),
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
        _is("cli__explain-missing-dir"),
        _refuses(2, "no project file"),
    ),
    Difference(
        "explain asks again with the same option",
        "answers are rows of the table `explanations`, not files; `--rerun` replaces them",
        _is("cli__explain-rerun"),
        _refuses(0, "--rerun", "explanations"),
    ),
    Difference(
        "a run whose cases failed says which",
        "a person needs the cases that failed, and the command that shows one; nothing is a bug there",
        _is(FAILED_SUITES),
        _on(_rejected),
    ),
)
