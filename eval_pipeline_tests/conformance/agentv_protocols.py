"""AgentV's rows about programs: what its hooks and code graders were really started with. Ours receive the same.

A sweep carries out a suite like the recorded one; its hooks and its grader write down how they were started.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from eval_pipeline.suites.workspace import HOOKS
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations
from eval_pipeline_tests.conformance.public_verbs import ProjectOnDisk, once
from eval_pipeline_tests.conformance.recorded_facts import Row, rows_of

Json = Mapping[str, Any]
HOOK_ROWS, GRADER_ROWS = "protocols/hooklog", "protocols/graderlog"
_PLACEHOLDERS = ("workspace_path", "test_id", "eval_run_id", "case_input", "case_metadata")
_OF_A_RUN = frozenset({"workspace_path", "eval_run_id"})
_MEASURED = frozenset({"workspace_path", "duration_ms"})
_WRITE_DOWN = """\
import json, os, sys
received = json.load(sys.stdin)
folder = os.path.dirname(os.path.abspath(__file__))
seen = {"argv": sys.argv[1:], "cwd": os.getcwd(), "stdin": received, "folder": folder,
        "is_folder": os.path.isdir(received["workspace_path"]), "env": os.environ.get("AGENTV_WORKSPACE_PATH")}
with open(os.path.join(folder, "started.jsonl"), "a") as log:
    log.write(json.dumps(seen) + "\\n")
"""
_GRADE = _WRITE_DOWN + 'print(json.dumps({"score": 1}))\n'
_ANSWER = """\
import pathlib, shutil, sys
shutil.copytree(sys.argv[1], ".", dirs_exist_ok=True)
print(pathlib.Path(sys.argv[2]).read_text(), end="")
"""


def observe(row: Row) -> Observations:
    """Return how our program of the row's kind was started, and how all programs of its case were."""
    started = _started()[_name(row)]
    if row.file == GRADER_ROWS:
        return {AS_WRITTEN: Observation(values=started[0])}
    by_hook = {seen["argv"][0]: seen for seen in started}
    values = {**by_hook[row.data["argv"][0]], "hooks": list(by_hook),
              "runs": len({seen["stdin"]["eval_run_id"] for seen in started})}  # fmt: skip
    return {AS_WRITTEN: Observation(values=values)}


def check(row: Row, seen: Observation) -> None:
    """Assert that it is what AgentV's program was started with: the same keys, the same of the case, its own run."""
    if row.file == GRADER_ROWS:
        _check_grader(row, seen.values)
    else:
        _check_hook(row, seen.values)


def _check_hook(row: Row, values: Json) -> None:
    recorded, received = row.data["stdin"], values["stdin"]
    arguments = row.data["argv"][1:]

    assert received.keys() == recorded.keys()
    assert _without(received, _OF_A_RUN) == _without(recorded, _OF_A_RUN)
    assert (values["is_folder"], values["runs"], values["hooks"]) == (True, 1, list(HOOKS))
    assert values["cwd"] == values["folder"]
    filled = dict(zip(_PLACEHOLDERS, values["argv"][1:], strict=True))
    named = [next(name for name in _PLACEHOLDERS if recorded[name] == argument) for argument in arguments]
    assert [filled[name] for name in named] == [received[name] for name in named]


def _check_grader(row: Row, values: Json) -> None:
    recorded, received = row.data["payload"], values["stdin"]

    assert received.keys() >= recorded.keys()
    assert {name: received[name] for name in recorded.keys() - _MEASURED} == _without(recorded, _MEASURED)
    assert isinstance(received["duration_ms"], (int, float))
    assert values["is_folder"]
    assert values["env"] == received["workspace_path"]


def _without(values: Json, names: frozenset[str]) -> Json:
    return {name: value for name, value in values.items() if name not in names}


def _name(row: Row) -> str:
    return f"{row.file.rpartition('/')[2]}-{row.number}"


@once
def _started() -> Mapping[str, Sequence[Json]]:
    """All suites in one sweep: what the programs of each wrote down."""
    project = ProjectOnDisk()
    for row in rows_of("agentv"):
        if row.file == HOOK_ROWS:
            _add_hooks(project, row)
        elif row.file == GRADER_ROWS:
            _add_grader(project, row)
    project.run()
    logs = sorted((project.root / "suites").glob("*/started.jsonl"))
    return {log.parent.name: [json.loads(line) for line in log.read_text().splitlines()] for log in logs}


def _add_hooks(project: ProjectOnDisk, row: Row) -> None:
    """A suite of the case that a hook received; the first word of the question comes from the suite.

    The hooks around all cases receive none: any case will do.
    """
    recorded = row.data["stdin"]
    question = recorded["case_input"] or "anything at all"
    first, _, rest = question.partition(" ")
    case = "any" if recorded["case_input"] is None else recorded["test_id"]
    metadata = {"metadata": recorded["case_metadata"]} if recorded["case_metadata"] else {}
    test = {"id": case, "input": rest or first, "assertions": [{"type": "contains", "value": "2"}], **metadata}
    arguments = [f"{{{{{name}}}}}" for name in _PLACEHOLDERS]
    hooks = {hook: {"command": [sys.executable, "hook.py", hook, *arguments]} for hook in HOOKS}
    suite = {"tests": [test], "workspace": {"hooks": hooks}, **({"input": first} if rest else {})}
    folder = project.add_suite(_name(row), suite, [{"case": case, "output": "2"}])
    (folder / "hook.py").write_text(_WRITE_DOWN, "utf-8")


def _add_grader(project: ProjectOnDisk, row: Row) -> None:
    """A suite of the case that a grader received; its target makes the recorded changes and answers as recorded."""
    payload, name = row.data["payload"], _name(row)
    config = payload["config"] or {}
    grader = {"type": "code-grader", "name": "log", "command": [sys.executable, "grader.py"], **config}
    test = {field: payload[field] for field in ("criteria", "input", "expected_output") if payload[field]}
    suite = {"tests": [{"id": "t", **test, "assertions": [grader]}], "workspace": {"template": "template"}}
    folder = project.add_suite(name, suite, [])
    for copy in ("template", "changed"):
        (folder / copy).mkdir()
        (folder / copy / "hello.txt").write_text("hello\n", "utf-8")
    answer = payload["output"][0]["content"]
    files = {"grader.py": _GRADE, "answer.py": _ANSWER, "answer.txt": answer, "patch": payload["file_changes"] + "\n"}
    for file, text in files.items():
        (folder / file).write_text(text, "utf-8")
    subprocess.run(["git", "apply", folder / "patch"], cwd=folder / "changed", check=True)
    target = [sys.executable, *(str(folder / file) for file in ("answer.py", "changed", "answer.txt"))]
    project.replace_runner(name, adapter="command", command=target)
