"""skillgym's rows about its own commands and messages: what our commands answer to the same request."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from eval_pipeline_tests.conformance.public_verbs import command, new_folder

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


def asked(*words: str) -> Callable[[], dict[str, Any]]:
    """Return a function that calls a command in an empty folder."""

    @cache
    def call() -> dict[str, Any]:
        folder = new_folder()
        placed = [word.replace("@FOLDER", str(folder)) for word in words]
        ended = command(*placed)
        return {"code": ended.code, "out": ended.out, "err": ended.err}

    return call


RUNS, CLI = "runner_scenarios", "cli"
REJECTION = "executesuite-blocks-remaining-executions-for-a-runner-after-initial-model-rejection"
COLLECTION = "executerunner-marks-run-as-failed-when-adapter-export-collection-fails"
MAX_STEPS = "executerunner-marks-max-steps-failures-separately-from-other-runner-crashes"
RUNNER_OUTPUT = "executerunner-forwards-showrunneroutput-to-adapter-runs"
KNOWN_ERRORS = "cli-error__formatclierror-formats-known-errors-through-declarative-rules"
FAILED_SUITES = "cli-error__formatclierror-does-not-special-case-completed-suites-with-failed-executions"
_SAMPLE = ("--project", "@FOLDER")
OTHERS: Mapping[tuple[str, str], Callable[[], dict[str, Any]]] = {
    (RUNS, REJECTION): rejected,
    (RUNS, COLLECTION): garbled,
    (RUNS, MAX_STEPS): stepped,
    (RUNS, RUNNER_OUTPUT): asked("run", "--show-runner-output"),
    (CLI, "cli__help"): asked("--help"),
    (CLI, "cli__run-help"): asked("run", "--help"),
    (CLI, "cli__skills-list"): asked("skills", "list"),
    (CLI, "cli__run-missing-suite"): asked("run", *_SAMPLE),
    (CLI, "cli__run-missing-config"): asked("run", "@FOLDER/suite.py", *_SAMPLE),
    (CLI, "cli__explain-missing-dir"): asked("explain", *_SAMPLE),
    (CLI, "cli__explain-rerun"): asked("explain", "--help"),
    (CLI, KNOWN_ERRORS): asked("run", "--runner", "open-main", *_SAMPLE),
    (CLI, FAILED_SUITES): rejected,
}
"""Rows by file and id: what is observed."""
