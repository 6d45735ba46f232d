"""AgentV's rows about workspace hooks: what one was really started with; ours is started and told the same."""

from __future__ import annotations

import functools
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from eval_pipeline.suites.workspace import HOOKS
from eval_pipeline_tests.conformance.recorded_facts import Row
from eval_pipeline_tests.sweeps.sample_project import a_test, make_project

HOOK_ROWS = "protocols/hooklog"
_TOLD = ("workspace_path", "test_id", "eval_run_id", "case_input", "case_metadata")
_OF_A_RUN = frozenset({"workspace_path", "eval_run_id"})
_HOOK = """\
import json, os, sys
told = json.load(sys.stdin)
seen = {"argv": sys.argv[1:], "cwd": os.getcwd(), "stdin": told, "is_folder": os.path.isdir(told["workspace_path"])}
with open("hooks.jsonl", "a") as log:
    log.write(json.dumps(seen) + "\\n")
"""


def check_hook(row: Row) -> None:
    """Whether our hook of the same name is told what AgentV's was: the same keys, the same of the case, its own run."""
    recorded = row.data["stdin"]
    name, *arguments = row.data["argv"]
    started = _hooks_of(_case_of(row))

    seen = started[name]
    told = seen["stdin"]
    assert told.keys() == recorded.keys()
    assert {key: told[key] for key in recorded.keys() - _OF_A_RUN} == {
        key: recorded[key] for key in recorded.keys() - _OF_A_RUN
    }
    assert seen["is_folder"]
    assert len({one["stdin"]["eval_run_id"] for one in started.values()}) == 1
    assert seen["cwd"] == seen["suite_folder"]
    filled = dict(zip(_TOLD, seen["argv"], strict=True))
    assert [filled[key] for key in _named_by(arguments, recorded)] == [
        told[key] for key in _named_by(arguments, recorded)
    ]


def _named_by(arguments: list[str], recorded: dict[str, Any]) -> list[str]:
    """What the arguments of a recorded hook were filled in from: AgentV's placeholders are named as what it tells."""
    return [next(key for key in _TOLD if recorded[key] == argument) for argument in arguments]


def _case_of(row: Row) -> str:
    """The case that a hook was told of, as JSON; the hooks around all cases are told of none, and any will do."""
    told = row.data["stdin"]
    if told["case_input"] is None:
        return json.dumps({"id": "any", "input": "anything at all", "metadata": {"k": "v"}})
    return json.dumps({"id": told["test_id"], "input": told["case_input"], "metadata": told["case_metadata"]})


@functools.cache
def _hooks_of(case: str) -> dict[str, Any]:
    """How each of the four hooks was started, by its name, when a suite of this one case was carried out.

    The first word of the question comes from the suite, which says it to every case.
    """
    told = json.loads(case)
    first, _, rest = told["input"].partition(" ")
    test = a_test(told["id"], text=rest or first, **({"metadata": told["metadata"]} if told["metadata"] else {}))
    suite = {"input": first} if rest else {}
    with tempfile.TemporaryDirectory() as name:
        folder = make_project(Path(name) / "project")
        suites = folder.root / "suites"
        (suites / "hook.py").write_text(_HOOK)
        folder.write_suite(test, workspace={"hooks": {hook: {"command": _command(hook)} for hook in HOOKS}}, **suite)
        folder.sweep()
        lines = (suites / "hooks.jsonl").read_text().splitlines()
        seen = [{**json.loads(line), "suite_folder": str(suites.resolve())} for line in lines]
    assert [one["argv"][0] for one in seen] == list(HOOKS)
    return {one["argv"].pop(0): one for one in seen}


def _command(hook: str) -> list[str]:
    return [sys.executable, "hook.py", hook, *(f"{{{{{name}}}}}" for name in _TOLD)]
