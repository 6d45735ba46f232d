"""skillgym's rows about its own commands and messages: what our commands answer to the same request."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from eval_pipeline_tests.conformance.public_verbs import command, new_folder
from eval_pipeline_tests.conformance.skillgym_setups import results_of
from eval_pipeline_tests.sweeps.sample_project import a_runner_entry, make_project

Data = Mapping[str, Any]
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
def rejected(cases: tuple[str, ...], runners: tuple[str, ...], rejecting: tuple[str, ...]) -> dict[str, Any]:
    """Runners whose model is rejected beside those that answer."""
    programs = {each: ("codex", REJECTS) if each in rejecting else ("opencode", ANSWERS) for each in runners}
    return _agents(programs, ", ".join(map(repr, cases)))


@cache
def garbled(message: str) -> dict[str, Any]:
    """A session whose output cannot be read."""
    return _agents({"open": ("opencode", f"#!/bin/sh\necho {shlex.quote(message)} '{{\"unterminated'\n")}, "'alpha'")


@cache
def stepped(observed: int, most: int) -> dict[str, Any]:
    """A session of more steps than are allowed."""
    step = ANSWERS.partition("\n")[2].replace("stop", "tool-calls")
    return _agents({"open": ("opencode", ANSWERS + step * (observed - 1))}, "'alpha'", max_steps=most)


def asked(*words: str, files: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return what a command says in a folder with nothing but these files."""
    folder = new_folder()
    for name, text in (files or {}).items():
        (folder / name).write_text(text)
    placed = [word.replace("@FOLDER", str(folder)) for word in words]
    ended = command(*placed)
    return {"code": ended.code, "out": ended.out, "err": ended.err}


RUNS, CLI = "runner_scenarios", "cli"
_SAMPLE = ("--project", "@FOLDER")
_EMPTY = {"eval-pipeline.yaml": ""}
_SUITE_ALONE = {**_EMPTY, "suite.py": SUITE.replace("@CASES", "'a'")}


def _setup_has(name: str) -> Callable[[Data], bool]:
    return lambda data: name in data.get("setup", {}) and not isinstance(data["setup"], str)


def is_rejection(data: Data) -> bool:
    """Return whether a row has an agent that refuses its model."""
    return bool(_rejecting(data))


def is_garbled(data: Data) -> bool:
    return _setup_has("collect_raises")(data)


def is_above_steps(data: Data) -> bool:
    return "MaxSteps" in str(_setup(data).get("run_raises", ""))


def shows_runner_output(data: Data) -> bool:
    return _setup_has("showRunnerOutput")(data)


def is_crash(data: Data) -> bool:
    """Return whether a row has an agent that ends with an error of its own."""
    results = [result for _, _, result in results_of(data)] if _setup(data) else []
    return any(each.get("failureOrigin") == "runner" for each in results)


def is_lanes(data: Data) -> bool:
    """Return whether a row says when sessions of several runners begin."""
    return bool(_setup(data).get("schedule") == "isolated-by-runner")


def lists_skills(data: Data) -> bool:
    return bool(data.get("argv", [])[:1] == ["skills"])


def runs_without_suite(data: Data) -> bool:
    return data.get("argv") == ["run"]


def runs_without_config(data: Data) -> bool:
    return len(data.get("argv", ())) == 2 and data["argv"][0] == "run" and "no config" in data.get("setup", "")


def explains_nothing(data: Data) -> bool:
    return data.get("argv") == ["explain"]


def explains_again(data: Data) -> bool:
    return "--rerun" in str(data.get("setup", "")) and "argv" not in data and not _setup(data)


def is_failed_run(data: Data) -> bool:
    """Return whether a row renders the error of a run whose cases failed."""
    return bool(data.get("error", {}).get("name") == "ExecutionFailuresError")


def _setup(data: Data) -> Data:
    setup = data.get("setup", {})
    return {} if isinstance(setup, str) else setup


def _rejecting(data: Data) -> tuple[str, ...]:
    results = results_of(data) if _setup(data) else ()
    return tuple(dict.fromkeys(runner for _, runner, each in results if each.get("failureOrigin") == "model-rejected"))


def _rejected_of(data: Data) -> dict[str, Any]:
    setup = _setup(data)
    return rejected(tuple(setup["cases"]), tuple(setup["runners"]), _rejecting(data))


def _failed_run(data: Data) -> dict[str, Any]:
    return rejected(("alpha", "beta", "gamma"), ("open", "code"), ("code",))


def _above_steps(data: Data) -> dict[str, Any]:
    setup = _setup(data)
    observed = re.search(r"observed (\d+)", setup["run_raises"])
    return stepped(int(observed[1]) if observed else setup["maxSteps"] + 1, setup["maxSteps"])


OTHERS: tuple[tuple[str, Callable[[Data], bool], Callable[[Data], dict[str, Any]]], ...] = (
    (RUNS, is_rejection, _rejected_of),
    (RUNS, is_garbled, lambda data: garbled(data["setup"]["collect_raises"])),
    (RUNS, is_above_steps, _above_steps),
    (RUNS, shows_runner_output, lambda data: asked("run", "--show-runner-output")),
    (CLI, lists_skills, lambda data: asked(*data["argv"])),
    (CLI, runs_without_suite, lambda data: asked("run", *_SAMPLE, files=_EMPTY)),
    (CLI, runs_without_config, lambda data: asked("run", "@FOLDER/suite.py", *_SAMPLE, files=_SUITE_ALONE)),
    (CLI, explains_nothing, lambda data: asked("explain", *_SAMPLE)),
    (CLI, explains_again, lambda data: asked("explain", "--help")),
    (CLI, is_failed_run, _failed_run),
)
"""Rows by file and what they hold: what is observed."""
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
    for of_file, is_one, observe in OTHERS:
        if file == of_file and is_one(data):
            return partial(observe, data)
    return None


def is_project_error(data: Mapping[str, Any]) -> bool:
    """Return whether a row renders an error about a project that we have a message of our own for."""
    message = data.get("error", {}).get("message", "")
    return any(re.fullmatch(pattern, message) for pattern in PROJECT_ERRORS)
