"""AgentV's rows about tests that got no score: what stopped them is brought about here, and our answer to it checked.

The rows hold AgentV's code for it and its words, seldom the suite that it happened to: a suite of ours stands in, and a
whole sweep carries it out where only a sweep can.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError, InputErrors
from eval_pipeline.executions.runners import load_runners, require_environment
from eval_pipeline.failures import (
    BUDGET_EXCEEDED,
    DEPENDENCY_FAILED,
    EVALUATOR,
    STOPPED,
    TARGET_ERROR,
    WORKSPACE,
    FailureClass,
)
from eval_pipeline.suites.load import LoadOptions, load_suite
from eval_pipeline_tests.conformance.agentv_rows import PROVIDER_ERROR, answer_of, stop_of
from eval_pipeline_tests.conformance.agentv_whole_tests import as_scored, carry_out_whole, recorded
from eval_pipeline_tests.conformance.recorded_facts import Row
from eval_pipeline_tests.sweeps.sample_project import a_runner_entry, a_test, make_project


@dataclass(frozen=True, slots=True)
class Stopped:
    """What the warehouse says of a case that was not graded."""

    status: str
    failure_class: str | None
    score: float | None
    reason: str


def is_stopped(row: Row) -> bool:
    """Whether a row is about a test that got no score."""
    return row.kind == "test-aggregate" and stop_of(row) is not None


def check_stopped(row: Row) -> None:
    """Whether what stopped the test leaves it without a score, in the failure class that is ours for it."""
    STOPS[str(stop_of(row))](row)


def _by_target(row: Row) -> None:
    carried = carry_out_whole(row)

    assert carried.verdict is not None, carried.errors
    assert (carried.status, carried.verdict.score) == ("execution_error", None)
    assert carried.verdict.failure_class == TARGET_ERROR.id
    assert carried.verdict.reason == answer_of(row).failure


def _by_grader(row: Row) -> None:
    """The others keep their scores. A gate among them that fails decides alone: no other score could mend it."""
    carried = carry_out_whole(row)

    assert carried.verdict is not None, carried.errors
    assert as_scored(carried) == recorded(row)
    if any(score.passes_gate is False for score in carried.scores):
        assert (carried.status, carried.verdict.score) == ("quality_failure", 0)
        return
    assert (carried.status, carried.verdict.score) == ("execution_error", None)
    assert carried.verdict.failure_class == EVALUATOR.id


def _by_hook(row: Row) -> None:
    said = _words(row)
    hook = re.search(r"before_(?:all|each)", said)
    name, last_words = hook[0] if hook else "before_all", said.rpartition(": ")[2]
    exits = [sys.executable, "-c", "import sys; sys.exit(sys.argv[1])", last_words]

    stopped = swept(a_test("a"), workspace={"hooks": {name: {"command": exits}}})["a"]

    _is(stopped, WORKSPACE, name, last_words)


def _by_clone(row: Row) -> None:
    stopped = swept(a_test("a"), workspace=_repository(type="git", url="file:///no/such/repository"))["a"]

    _is(stopped, WORKSPACE, "file:///no/such/repository")


def _by_local_path(row: Row) -> None:
    """A name that is empty, as that of an unset variable, is found before anything runs."""
    if "is empty" in _words(row):
        _is_refused("repos[0].source.path", _repository(type="local", path="${{ NOT_SET }}"))
        return
    stopped = swept(a_test("a"), workspace=_repository(type="local", path="no/such/folder"))["a"]

    _is(stopped, WORKSPACE, "no/such/folder", "no such folder")


def _by_template(row: Row) -> None:
    _is_refused("template", {"template": "no/such/folder"})


def _by_budget(row: Row) -> None:
    answers = {"a": {"output": "2", "cost_usd": 2.0}}
    stopped = swept(a_test("a"), a_test("b"), answers=answers, execution={"total_budget_usd": 1})["b"]

    _is(stopped, BUDGET_EXCEEDED)


def _by_earlier_error(row: Row) -> None:
    stopped = swept(a_test("a"), a_test("b"), answers={"a": "crash"}, execution={"fail_on_error": True})["b"]

    _is(stopped, STOPPED)


def _by_dependency(row: Row) -> None:
    stopped = swept(a_test("a"), a_test("b", depends_on=["a"]), answers={"a": "crash"})["b"]

    _is(stopped, DEPENDENCY_FAILED, "a")


def _by_sandbox(row: Row) -> None:
    """A target that asks for a sandbox cannot be used: it would run without one."""
    provider = re.search(r"provider '([^']+)'", _words(row))
    target = {"name": "boxed", "provider": provider[1] if provider else "codex-cli", "runtime": {"mode": "sandbox"}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "targets.yaml"
        path.write_text(json.dumps({"targets": [target]}), "utf-8")

        with pytest.raises(InputErrors) as refused:
            require_environment(load_runners(path, {}))

    (error,) = refused.value.errors
    assert error.place.field == "targets[0].runtime"


def swept(*tests: Mapping[str, Any], answers: Mapping[str, Any] | None = None, **suite: Any) -> dict[str, Stopped]:
    """What became of the cases of a suite, one after the other, through a whole sweep."""
    with tempfile.TemporaryDirectory() as name:
        folder = make_project(Path(name) / "project")
        folder.write_runners(a_runner_entry(concurrency=1))
        folder.write_suite(*tests, **suite)
        folder.write_answers(**(answers or {}))
        folder.sweep()
        rows = folder.ask("SELECT case_id, status, failure_class, score, reason FROM current_verdicts")
    return {case: Stopped(*told) for case, *told in rows}


def _is(stopped: Stopped, failure: FailureClass, *words: str) -> None:
    assert (stopped.status, stopped.failure_class, stopped.score) == ("error", failure.id, None)
    for word in words:
        assert word in stopped.reason


def _is_refused(field: str, workspace: Mapping[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "suite.yaml"
        path.write_text(json.dumps({"workspace": workspace, "tests": [a_test("a")]}), "utf-8")

        with pytest.raises(InputError) as refused:
            load_suite(path, LoadOptions({}))

    assert refused.value.place.field == f"workspace.{field}"


def _repository(**source: str) -> dict[str, Any]:
    return {"repos": [{"path": "./repository", "source": source}]}


def _words(row: Row) -> str:
    return str(row.data.get("output"))


STOPS: Mapping[str, Callable[[Row], None]] = {
    PROVIDER_ERROR: _by_target,
    "evaluator_error": _by_grader,
    "script_error": _by_hook,
    "setup_error": _by_hook,
    "clone_error": _by_clone,
    "local_path_not_found": _by_local_path,
    "template_error": _by_template,
    "budget_exceeded": _by_budget,
    "error_threshold_exceeded": _by_earlier_error,
    "dependency_failed": _by_dependency,
    "target_sandbox_infra_failure": _by_sandbox,
}
