"""AgentV's `.agentv/config.yaml`."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.formats.agentv.project_file import ProjectFile, nearest_project_file, read_project_file
from eval_pipeline_tests.formats.agentv.sample_suites import write

pytestmark = pytest.mark.usefixtures("in_the_folder")


def read(text: str) -> ProjectFile:
    return read_project_file(write(".agentv/config.yaml", text), {"BACKEND": "langfuse"})


def test_a_project_file_is_read() -> None:
    project = read("""\
        required_version: '>=4'
        eval_patterns: ['**/evals/*.yaml']
        execution: {keep_workspaces: true, pool_slots: 3, otel_backend: '${{ BACKEND }}', verbose: null}
        """)

    assert project == ProjectFile(
        path=Path(".agentv/config.yaml"),
        required_version=">=4",
        eval_patterns=("**/evals/*.yaml",),
        execution={"keep_workspaces": True, "pool_slots": 3, "otel_backend": "langfuse"},
    )


def test_an_empty_project_file_says_nothing() -> None:
    assert read("").execution == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("execution: {verbose: 'yes'}", ".agentv/config.yaml:1: execution.verbose: expected true or false"),
        ("execution: {otel_backend: ' '}", "execution.otel_backend: expected a text, got an empty one"),
        ("execution: {pool_slots: 51}", "execution.pool_slots: expected at most 50, got 51"),
        ("execution: {verbos: true}", "did you mean 'verbose'?"),
        ("execution: []", "execution: expected a mapping, got a list"),
        ("[]", "expected a mapping, got a list"),
    ],
)
def test_what_is_wrong_in_a_project_file_is_said(text: str, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        read(text)

    assert problem in str(raised.value)


@pytest.mark.parametrize(("at", "found"), [(".git", True), ("evals/.git", False)])
def test_the_nearest_project_file_in_the_repository_holds(
    at: str, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(".agentv/config.yaml").absolute()
    write(f"{at}/HEAD")
    write("evals/deep/math.yaml")
    monkeypatch.chdir("evals")

    assert nearest_project_file(Path("deep")) == (file if found else None)
