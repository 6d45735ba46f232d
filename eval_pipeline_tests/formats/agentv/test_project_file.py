"""AgentV's `.agentv/config.yaml`."""

from __future__ import annotations

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.formats.agentv.project_file import ProjectFile, read_project_file
from eval_pipeline_tests.formats.agentv.sample_suites import write

pytestmark = pytest.mark.usefixtures("in_the_folder")


def read(text: str) -> ProjectFile:
    return read_project_file(write(".agentv/config.yaml", text), {"BACKEND": "langfuse"})


def test_a_project_file_is_read() -> None:
    project = read("""\
        required_version: '>=4'
        eval_patterns: ['**/evals/*.yaml']
        execution: {keep_workspaces: true, pool_slots: 3, otel_backend: '${{ BACKEND }}', verbose: null}
        studio: {threshold: 0.5}
        """)

    assert project == ProjectFile(
        settings={
            "required_version": ">=4",
            "eval_patterns": ("**/evals/*.yaml",),
            "execution": {"keep_workspaces": True, "pool_slots": 3, "otel_backend": "langfuse"},
            "studio": {"threshold": 0.5},
        }
    )


def test_an_empty_project_file_sets_nothing() -> None:
    assert read("") == ProjectFile()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("execution: {verbose: 'yes'}", ".agentv/config.yaml:1: execution.verbose: expected true or false"),
        ("execution: {otel_backend: ' '}", "execution.otel_backend: expected a text, got an empty one"),
        ("execution: {pool_slots: 51}", "execution.pool_slots: expected at most 50, got 51"),
        ("execution: {verbos: true}", "did you mean 'verbose'?"),
        ("execution: []", "execution: expected a mapping, got a list"),
        ("eval_patterns: evals", "eval_patterns: expected a list of texts, got a text ('evals')"),
    ],
)
def test_what_is_wrong_in_a_project_file_is_a_warning(text: str, problem: str) -> None:
    (warning,) = read(text).problems

    assert problem in warning


def test_a_project_file_that_is_no_mapping_is_an_error() -> None:
    with pytest.raises(InputError, match="expected a mapping, got a list"):
        read("[]")
