"""What `import eval_pipeline` offers: this list, each name with a docstring, and nothing imported before it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

import eval_pipeline
from eval_pipeline import Outcome, Subject, open_results, register_evaluator, run_sweep
from eval_pipeline.errors import InputError
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline_tests.sweeps.sample_project import a_test, contains, make_project

NAMES = {
    "AgentCli", "Call", "Case", "Endpoint", "EvalPipelineError", "EvalProject", "EvalResults", "EvaluatorSpec",
    "ExportOptions", "FailureClass", "Field", "FieldCursor", "FieldTable", "FileChunk", "InputError", "InputErrors",
    "JsonlSessions", "Kind", "Launch", "LaunchRequest", "LoadOptions", "Message", "MessageEvent", "OpenAI",
    "Options", "Outcome", "PluginError", "RawExecution", "RawSession", "RecordField", "RecordedSample",
    "RecordedScoreEvent", "Reply", "ResultRow", "Runner", "SessionReport", "SourceLocation", "Subject", "Suite",
    "SweepResult", "TargetFailure", "ToolAnswer", "ToolCallEvent", "ToolError", "ToolPlace", "ToolRequest",
    "ToolResultEvent", "Usage", "build_definitions", "content_revision", "failure_class", "load_suite",
    "open_results", "prompt_text", "register_adapter", "register_agent", "register_evaluator", "register_export",
    "register_format", "register_normalizer", "register_result_log", "register_tool", "register_wire", "run_sweep",
    "classify", "command", "commands", "explain", "file_reads", "output", "parse_command", "skills", "soft",
    "tool_calls",
}  # fmt: skip
HEAVY = {"aiohttp", "dagster", "duckdb", "httpx", "matplotlib", "polars", "pydantic"}


def test_the_public_names_are_these() -> None:
    assert set(eval_pipeline.__all__) == NAMES
    assert set(dir(eval_pipeline)) >= NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(eval_pipeline, name).__doc__


def test_a_name_that_there_is_not_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="module 'eval_pipeline' has no attribute 'run_sweeps'"):
        eval_pipeline.run_sweeps  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_imports_nothing_heavy() -> None:
    source = "import sys, eval_pipeline; print(*{name.partition('.')[0] for name in sys.modules})"

    imported = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout

    assert HEAVY & set(imported.split()) == set()


def test_a_sweep_is_run_and_asked_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAGSTER_HOME", "EVAL_PIPELINE_PROJECT", "EVAL_PIPELINE_DATA"):
        monkeypatch.delenv(name, raising=False)
    folder = make_project(tmp_path / "project")
    folder.write_suite(a_test("a", contains("a")), a_test("b", contains("something else")))

    sweep = run_sweep(folder.root, runners=["echo"], data=tmp_path / "elsewhere")

    (outcome,) = sweep.outcomes
    assert (outcome.counts.executed, outcome.counts.passed, outcome.counts.failed) == (2, 1, 1)
    assert (sweep.problem, sweep.invalid) == (None, ())
    query = "SELECT case_id, status FROM current_verdicts ORDER BY ALL"
    with sweep.open_results() as theirs, open_results(tmp_path / "elsewhere") as ours:
        rows = theirs.execute(query).fetchall()
        assert rows == ours.execute(query).fetchall() == [("a", "passed"), ("b", "failed")]


def test_a_sweep_of_nothing_is_an_input_error(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "project")

    with pytest.raises(InputError, match="no runner 'nobody'"):
        run_sweep(folder.root, runners=["nobody"])


def test_an_evaluator_is_registered_for_one_process() -> None:
    @register_evaluator("always-half")
    class AlwaysHalf:
        """Half a point."""

        version: ClassVar[str] = "1"
        reads: ClassVar[tuple[str, ...]] = ()

        def evaluate(self, subject: Subject) -> Outcome:
            return Outcome(0.5, "half")

    try:
        assert EVALUATORS.get("always_half").__name__ == "AlwaysHalf"
    finally:
        EVALUATORS._parts.pop("always-half")
