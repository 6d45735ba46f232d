"""AgentV's rows about tests that something stopped: it is brought about in a sweep, and becomes a failure class.

The rows hold AgentV's code for it and its words, seldom the suite that it happened to: a suite of ours stands in.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eval_pipeline_tests.conformance.agentv_tests import SANDBOX, hook_of, is_stop, output_of, stop_of
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations, Problem
from eval_pipeline_tests.conformance.public_verbs import ProjectOnDisk, Sweep, command, new_folder, once
from eval_pipeline_tests.conformance.recorded_facts import Row, rows_of
from eval_pipeline_tests.conformance.row_outcomes import not_recorded
from eval_pipeline_tests.conformance.sweep_observations import seen_of

Json = Mapping[str, Any]


def observe(row: Row) -> Observations:
    """Return what became of a test that the row's cause stops."""
    code = str(stop_of(row))
    if code == SANDBOX:
        return {AS_WRITTEN: _sandboxed(row)}
    if code not in _SUITES:
        not_recorded(f"what stopped the test: {code}")
    return {AS_WRITTEN: seen_of(_sweep().suites[_name(row)], "b")}


def check(row: Row, seen: Observation) -> None:
    """Assert that it has the recorded status and score."""
    assert not seen.problems, seen.problems
    assert seen.values["status"] == row.data["execution_status"]
    assert "score" not in row.data["asserted"] or seen.values["score"] == row.data["score"]


def _name(row: Row) -> str:
    return f"stop-{row.file.replace('_', '-')}-{row.number}"


@once
def _sweep() -> Sweep:
    project = ProjectOnDisk()
    for row in rows_of("agentv"):
        if is_stop(row) and stop_of(row) in _SUITES:
            document, answers = _SUITES[str(stop_of(row))](row)
            project.add_suite(_name(row), document, answers)
            project.change_runner(_name(row), concurrency=1)
    return project.run()


def _test(id_: str, **fields: Any) -> Json:
    return {"id": id_, "input": "2 apples", "assertions": [{"type": "contains", "value": "2"}], **fields}


def _answers(**errors: Any) -> Sequence[Json]:
    return [{"case": case, "output": "2", **errors.get(case, {})} for case in ("a", "b")]


def _workspace(workspace: Json) -> tuple[Json, Sequence[Json]]:
    return {"tests": [_test("b")], "workspace": workspace}, _answers()


def _hook(row: Row) -> tuple[Json, Sequence[Json]]:
    name, last_words = hook_of(row)
    exits = [sys.executable, "-c", "import sys; sys.exit(sys.argv[1])", last_words]
    return _workspace({"hooks": {name: {"command": exits}}})


def _clone(row: Row) -> tuple[Json, Sequence[Json]]:
    source = {"type": "git", "url": "file:///no/such/repository"}
    return _workspace({"repos": [{"path": "./repository", "source": source}]})


def _local_path(row: Row) -> tuple[Json, Sequence[Json]]:
    path = "${{ NOT_SET }}" if "is empty" in output_of(row.data) else "no/such/folder"
    return _workspace({"repos": [{"path": "./repository", "source": {"type": "local", "path": path}}]})


def _template(row: Row) -> tuple[Json, Sequence[Json]]:
    return _workspace({"template": "no/such/folder"})


def _budget(row: Row) -> tuple[Json, Sequence[Json]]:
    execution = {"total_budget_usd": 1}
    return {"tests": [_test("a"), _test("b")], "execution": execution}, _answers(a={"cost_usd": 2.0})


def _earlier_error(row: Row) -> tuple[Json, Sequence[Json]]:
    execution = {"fail_on_error": True}
    return {"tests": [_test("a"), _test("b")], "execution": execution}, _answers(a={"error": "it crashed"})


def _dependency(row: Row) -> tuple[Json, Sequence[Json]]:
    return {"tests": [_test("a"), _test("b", depends_on=["a"])]}, _answers(a={"error": "it crashed"})


_SUITES: Mapping[str, Callable[[Row], tuple[Json, Sequence[Json]]]] = {
    "script_error": _hook,
    "setup_error": _hook,
    "clone_error": _clone,
    "local_path_not_found": _local_path,
    "template_error": _template,
    "budget_exceeded": _budget,
    "error_threshold_exceeded": _earlier_error,
    "dependency_failed": _dependency,
}


def _sandboxed(row: Row) -> Observation:
    """A target that asks for a sandbox, in a targets file that is validated."""
    provider = re.search(r"provider '([^']+)'", output_of(row.data))
    target = {"name": "boxed", "provider": provider[1] if provider else "codex-cli", "runtime": {"mode": "sandbox"}}
    folder = new_folder()
    suite = {"tests": [_test("b")], "execution": {"target": "boxed"}}
    files = {"targets.yaml": {"targets": [target]}, "suite.eval.json": suite,
             "eval-pipeline.yaml": {"suites": ["suite.eval.json"], "runners": "targets.yaml"}}  # fmt: skip
    for name, document in files.items():
        (folder / name).write_text(json.dumps(document), "utf-8")
    result = command("validate", "--project", folder, "--json")
    assert result.code in (0, 2), result.err
    return Observation(problems=tuple(Problem(*_finding(finding)) for finding in result.json))


def _finding(finding: Json) -> tuple[str, str, str]:
    return str(finding["field"]), str(finding["message"]), str(finding["severity"])
