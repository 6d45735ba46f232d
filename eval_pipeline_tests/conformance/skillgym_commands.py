"""skillgym's rows about its own commands and messages: what our commands answer to the same request."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from eval_pipeline_tests.conformance.public_verbs import command, new_folder
from eval_pipeline_tests.sweeps.sample_project import a_runner_entry, make_project

REJECTS = """#!/bin/sh
echo "$0 $(cat)" >> @ROOT/calls
echo '{"type": "thread.started", "thread_id": "t-1"}'
echo '{"type": "turn.failed", "error": {"message": "invalid_request_error: the gpt-5 model is not supported"}}'
exit 1
"""
ANSWERS = """#!/bin/sh
echo "$0 $(cat)" >> @ROOT/calls
echo '{"type": "step_start", "sessionID": "ses_1", "part": {}}'
echo '{"type": "text", "sessionID": "ses_1", "part": {"type": "text", "text": "done"}}'
echo '{"type": "step_finish", "sessionID": "ses_1", "part": {"reason": "stop", "tokens": {"input": 9, "output": 2}}}'
"""
GARBLED = "#!/bin/sh\necho 'OpenCode export returned {\"unterminated'\n"
STEPS = ANSWERS + ANSWERS.partition("\n")[2].replace("stop", "tool-calls")
SUITE = """from eval_pipeline import Case
suite = [Case(id=i, prompt=i, check=lambda report, ctx: None) for i in (@CASES,)]
"""


def _agents(programs: Mapping[str, tuple[str, str]], cases: str, **settings: Any) -> dict[str, Any]:
    """Return what a sweep of coding agents gives: `programs` are the CLI and the program of each runner."""
    root = new_folder()
    entries = []
    for name, (cli, program) in programs.items():
        (root / name).write_text(program.replace("@ROOT", str(root)))
        (root / name).chmod(0o755)
        entries.append({"name": name, "adapter": "agent", "agent": cli, "model": "gpt-5", "retries": 0,
                        "executable": str(root / name), **settings})  # fmt: skip
    (root / "runners.yaml").write_text(json.dumps({"runners": entries}))
    (root / "eval-pipeline.yaml").write_text("suites: [cases.py]\n")
    (root / "cases.py").write_text(SUITE.replace("@CASES", cases))
    ended = command("run", "--project", root, "--quiet", "--json")
    calls = (root / "calls").read_text().splitlines() if (root / "calls").exists() else []
    shown = command("show", "--project", root, "--json")
    return {"code": ended.code, "calls": [Path(call).name for call in calls], "plans": json.loads(shown.out)}


@cache
def rejected() -> dict[str, Any]:
    """A runner whose model is rejected beside one that answers."""
    return _agents({"open": ("opencode", ANSWERS), "code": ("codex", REJECTS)}, "'alpha', 'beta', 'gamma'")


@cache
def garbled() -> dict[str, Any]:
    """A session whose output cannot be read."""
    return _agents({"open": ("opencode", GARBLED)}, "'alpha'")


@cache
def stepped() -> dict[str, Any]:
    """A session of two steps where one is allowed."""
    return _agents({"open": ("opencode", STEPS)}, "'alpha'", max_steps=1)


def asked(*words: str, files: Mapping[str, str] | None = None) -> Callable[[], dict[str, Any]]:
    """Return a function that calls a command in a folder with nothing but these files."""

    @cache
    def call() -> dict[str, Any]:
        folder = new_folder()
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        placed = [word.replace("@FOLDER", str(folder)) for word in words]
        ended = command(*placed)
        return {"code": ended.code, "out": ended.out, "err": ended.err}

    return call


RUNS, CLI = "runner_scenarios", "cli"
REJECTION = "executesuite-blocks-remaining-executions-for-a-runner-after-initial-model-rejection"
COLLECTION = "executerunner-marks-run-as-failed-when-adapter-export-collection-fails"
MAX_STEPS = "executerunner-marks-max-steps-failures-separately-from-other-runner-crashes"
RUNNER_OUTPUT = "executerunner-forwards-showrunneroutput-to-adapter-runs"
FAILED_SUITES = "cli-error__formatclierror-does-not-special-case-completed-suites-with-failed-executions"
_SAMPLE = ("--project", "@FOLDER")
_EMPTY = {"eval-pipeline.yaml": ""}
_SUITE_ALONE = {**_EMPTY, "suite.py": SUITE.replace("@CASES", "'a'")}
OTHERS: Mapping[tuple[str, str], Callable[[], dict[str, Any]]] = {
    (RUNS, REJECTION): rejected,
    (RUNS, COLLECTION): garbled,
    (RUNS, MAX_STEPS): stepped,
    (RUNS, RUNNER_OUTPUT): asked("run", "--show-runner-output"),
    (CLI, "cli__skills-list"): asked("skills", "list"),
    (CLI, "cli__run-missing-suite"): asked("run", *_SAMPLE, files=_EMPTY),
    (CLI, "cli__run-missing-config"): asked("run", "@FOLDER/suite.py", *_SAMPLE, files=_SUITE_ALONE),
    (CLI, "cli__explain-missing-dir"): asked("explain", *_SAMPLE),
    (CLI, "cli__explain-rerun"): asked("explain", "--help"),
    (CLI, FAILED_SUITES): rejected,
}
"""Rows by file and id: what is observed."""
HELP = (["help"], ["--help"], ["-h"], ["run", "--help"], ["explain", "--help"])
PROJECT_ERRORS = {
    r"No runners matched the requested filter: (?P<name>.+)": (
        ("--runner", "{name}"),
        "no runner '{name}'; there are: ",
    ),
    r"No cases matched the requested filters?: (?P<name>.+)": (("--case", "{name}"), "no case '{name}'; there are: "),
    r"Unknown config key: (?P<name>.+)": (("--project", "{wrong}"), "{name}: unknown field"),
}
"""Errors about a project by their message there: options of our command that meet the same, and what it says."""


@cache
def helps() -> dict[str, Any]:
    """What our help says: of all commands, and of those that skillgym has."""
    ended = [command(*words) for words in (("help",), ("run", "-h"), ("help", "explain"))]
    return {"code": max(each.code for each in ended), "out": "".join(each.out for each in ended), "err": ""}


@cache
def refused(message: str) -> dict[str, Any]:
    """What our `run` says to what a message of skillgym is about, in a project with a case and the runner `r`."""
    pattern, (options, words) = next((p, known) for p, known in PROJECT_ERRORS.items() if re.fullmatch(p, message))
    found = re.fullmatch(pattern, message)
    assert found is not None
    folder = make_project(new_folder())
    folder.write_runners(a_runner_entry("r"))
    wrong = folder.root / "wrong.yaml"
    wrong.write_text(f"{found['name'].split('.')[0]}: 1\n")
    named = [option.format(name=found["name"], wrong=wrong) for option in options]
    project = () if "--project" in options else ("--project", folder.root)
    ended = command("run", *project, *named)
    return {"code": ended.code, "out": ended.out, "err": ended.err, "words": words.format(name=found["name"])}


def other_of(data: Mapping[str, Any], file: str) -> Callable[[], dict[str, Any]] | None:
    """Return how a row is observed that is about our commands or their messages; None for another row."""
    if file == CLI and data.get("argv") in HELP:
        return helps
    if file == CLI and is_project_error(data):
        return lambda: refused(data["error"]["message"])
    return OTHERS.get((file, data["id"]))


def is_project_error(data: Mapping[str, Any]) -> bool:
    """Return whether a row renders an error about a project that we have a message of our own for."""
    message = data.get("error", {}).get("message", "")
    return any(re.fullmatch(pattern, message) for pattern in PROJECT_ERRORS)
