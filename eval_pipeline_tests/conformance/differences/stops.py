"""Differences about tests that something stopped before they could be graded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eval_pipeline.failures import (
    BUDGET_EXCEEDED,
    DEPENDENCY_FAILED,
    STOPPED,
    WORKSPACE,
    WORKSPACE_BOOTSTRAP,
    FailureClass,
)
from eval_pipeline_tests.conformance.agentv_tests import SANDBOX, hook_of, is_stop, output_of, stop_of
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Difference, Expected, Observations, refuses
from eval_pipeline_tests.conformance.recorded_facts import Row

_CLASSES: Mapping[str, FailureClass] = {
    "script_error": WORKSPACE_BOOTSTRAP,
    "setup_error": WORKSPACE_BOOTSTRAP,
    "clone_error": WORKSPACE,
    "local_path_not_found": WORKSPACE,
    "budget_exceeded": BUDGET_EXCEEDED,
    "error_threshold_exceeded": STOPPED,
    "dependency_failed": DEPENDENCY_FAILED,
}
_WORDS = {"clone_error": ("file:///no/such/repository",), "local_path_not_found": ("no/such/folder",)}


def _refusal_of(row: Row) -> Sequence[Expected]:
    """The error that finds the cause before anything runs; none for causes that show only then."""
    code = stop_of(row) if is_stop(row) else None
    if code == SANDBOX:
        return [("targets[0].runtime", "has no such setting")]
    if code == "template_error":
        return [("workspace.template", "no/such/folder")]
    if code == "local_path_not_found" and "is empty" in output_of(row.data):
        return [("workspace.repos[0].source.path", "NOT_SET|empty")]
    return []


def _has_no_score(row: Row) -> bool:
    pinned = is_stop(row) and "score" in row.data["asserted"]
    return pinned and stop_of(row) in _CLASSES and not _refusal_of(row)


def _is_unscored(row: Row, observations: Observations) -> None:
    values = observations[AS_WRITTEN].values
    code = str(stop_of(row))

    assert (values["status"], values["score"], values["scores"]) == ("execution_error", None, [])
    assert values["failure_class"] == _CLASSES[code].id
    words = hook_of(row) if code in ("script_error", "setup_error") else _WORDS.get(code, ())
    assert all(word in values["reason"] for word in words)


STOPS = (
    Difference(
        "refused before it runs",
        "AgentV finds a missing template, an unset path or a sandbox that it does not have when the test runs, and "
        "scores it 0; what can be known before the first call is an error of the suite or of the target",
        lambda row: bool(_refusal_of(row)),
        refuses(_refusal_of),
    ),
    Difference(
        "stopped, no score",
        "AgentV gives a test that was never carried out the score 0; unknown is not zero: it has no score, and a "
        "failure class that says whose fault it is",
        _has_no_score,
        _is_unscored,
    ),
)
