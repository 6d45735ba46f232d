"""AgentV's `.agentv/config.yaml`."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.formats.agentv.project_file import ProjectFile, read_project_file
from eval_pipeline.suites.load import LoadOptions, load_suite
from eval_pipeline.sweeps.project import load_project
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline_tests.builders import make_repository
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


# What it does.

SUITE = "tests: [{id: a, input: hi, assertions: [{type: contains, value: hi}]}]"


def suite_warnings(config: str) -> list[str]:
    write(".agentv/config.yaml", config)
    write("evals/deep/math.yaml", SUITE)
    return [str(warning) for warning in load_suite(Path("evals/deep/math.yaml"), LoadOptions({})).warnings]


@pytest.mark.parametrize(
    ("config", "warning"),
    [
        (
            "required_version: '>=9'",
            ".agentv/config.yaml:1: required_version: requires AgentV '>=9'; this",
        ),
        ("required_version: newest", "required_version: requires AgentV 'newest'"),
        ("execution: {verbose: true}", "execution.verbose: has no effect: 'eval-pipeline show'"),
        ("execution:\n  export_otel: true", ".agentv/config.yaml:2: execution.export_otel: a run exports no traces"),
        ("execution: {otel_file: out.json}", "execution.otel_file: a run exports no traces; run 'eval-pipeline export"),
        ("execution: {otel_backend: langfuse}", "execution.otel_backend: a run exports no traces"),
        ("execution: {otel_capture_content: true}", "'eval-pipeline export' has --content"),
        ("execution: {otel_group_turns: true}", "exported ones have a span per turn"),
        ("studio: {threshold: 0.5}", "studio: is for AgentV's own web page"),
        ("results: {repo_path: .}", "results: results are not pushed to a Git repository"),
        ("hooks: {before_session: ./login.sh}", "hooks: is not run; export the variables that it sets"),
        ("execution: {keep_workspaces: true}", "execution.keep_workspaces: is a setting of a whole run"),
        ("execution: {pool_slots: many}", "execution.pool_slots: expected a whole number of at least 1"),
        ("exectuion: {}", "unknown field, ignored; did you mean 'execution'?"),
    ],
)
def test_a_setting_without_effect_is_a_warning_of_every_suite_below(config: str, warning: str) -> None:
    warnings = suite_warnings(config)

    assert len(warnings) == 1
    assert warning in warnings[0]


@pytest.mark.parametrize(
    "config", ["", "required_version: '>=4'", "execution: {verbose: false, export_otel: false, pool_workspaces: true}"]
)
def test_a_setting_that_asks_for_nothing_is_no_warning(config: str) -> None:
    assert suite_warnings(config) == []


def test_the_nearest_readable_project_file_applies() -> None:
    make_repository(Path())
    write("evals/.agentv/config.yaml", "required_version: '>=8'")
    write("evals/deep/.agentv/config.yaml", "- a")

    unreadable, nearer = suite_warnings("required_version: '>=9'")

    assert "evals/deep/.agentv/config.yaml:1: expected a mapping, got a list; ignored" in unreadable
    assert nearer.startswith("evals/.agentv/config.yaml:1: required_version: requires AgentV '>=8'")


def test_workspaces_are_not_pooled_where_the_project_file_says_so() -> None:
    repositories = "workspace: {repos: [{path: x, source: {type: git, url: 'https://h/x.git'}}]}\n"
    write("math.yaml", repositories + SUITE)
    modes = []
    for pooled in ("true", "false"):
        write(".agentv/config.yaml", f"execution: {{pool_workspaces: {pooled}}}")
        (case,) = load_suite(Path("math.yaml"), LoadOptions({})).cases
        assert case.workspace is not None
        modes.append(case.workspace.mode)

    assert modes == ["pooled", "temp"]


def test_a_project_takes_its_suites_and_run_settings_from_it_where_its_own_file_sets_none() -> None:
    write(
        ".agentv/config.yaml",
        "eval_patterns: ['checks/**/*.eval.yaml', 'none/*.yaml']\nexecution: {keep_workspaces: true, pool_slots: 3}",
    )
    write("checks/deep/math.eval.yaml", SUITE)
    write("checks/other.yaml", SUITE)

    alone = load_project(Path.cwd())
    write("eval-pipeline.yaml", "suites: [checks/other.yaml]\ndefaults: {pool_slots: 7}")
    loaded = load_project(Path.cwd())

    assert (alone.suites, alone.defaults.keep_workspaces, alone.defaults.pool_slots) == (
        ("checks/**/*.eval.yaml",),
        "always",
        3,
    )
    assert (loaded.suites, loaded.defaults.keep_workspaces, loaded.defaults.pool_slots) == (
        ("checks/other.yaml",),
        "always",
        7,
    )
    assert [ready.suite.warnings for ready in ProjectSession(alone).load_suites()] == [()]
