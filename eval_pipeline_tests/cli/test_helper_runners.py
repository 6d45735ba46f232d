"""Runners that only grade or play users: not evaluated unless somebody names them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project

PARROT = {"adapter": "python", "function": "parrot:say"}
NAMES = ("agent", "judge", "user", "checker")
GRADED = {"type": "llm-grader", "prompt": "polite?", "target": "judge"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    return make_cli_project(tmp_path_factory.mktemp("helpers"))


def evaluated(
    project: CliProject, *options: str, runner: dict[str, Any] | None = None, usual: dict[str, Any] | None = None,
    sweeps: dict[str, Any] | None = None, **case: Any,
) -> list[str]:  # fmt: skip
    """Who answers a suite that names no runners, where the agent and the case have these settings."""
    entries = [{"name": name, **PARROT, **((runner or {}) if name == "agent" else {})} for name in NAMES]
    project.write("runners.yaml", json.dumps({"runners": entries}))
    of_project = {"defaults": {"simulator": "user", **(usual or {})}, "sweeps": sweeps or {}}
    project.write("eval-pipeline.yaml", json.dumps({"suites": ["suites/helped.yaml"], **of_project}))
    settings = {"user": {"persona": "in a hurry"}, "assertions": [{"type": "contains", "value": "a"}], **case}
    project.write("suites/helped.yaml", json.dumps({"name": "helped", "tests": [{"id": "c", **settings}]}))
    return [each["runner"] for each in project("plan", "--json", *options).document]


@pytest.mark.parametrize(
    ("options", "settings", "expected"),
    [
        ([], {}, ["agent", "judge", "checker"]),
        (["--simulator", "judge"], {}, ["agent", "checker"]),
        ([], {"runner": {"grader": "judge"}}, ["agent", "checker"]),
        ([], {"usual": {"grader": "judge"}}, ["agent", "checker"]),
        ([], {"user": {"persona": "x", "simulator": "judge", "reviewer": "checker"}}, ["agent"]),
        ([], {"assertions": [GRADED]}, ["agent", "checker"]),
        ([], {"runner": {"grader": "agent"}}, ["agent", "judge", "checker"]),
        ([], {"usual": {"runners": ["user", "agent"]}}, ["user", "agent"]),
        ([], {"sweeps": {"all": {"runners": ["user"]}}}, list(NAMES)),
        (["--runner", "user"], {}, ["user"]),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else " ".join(value),
)
def test_who_only_helps_is_not_evaluated(
    project: CliProject, options: list[str], settings: dict[str, Any], expected: list[str]
) -> None:
    assert sorted(evaluated(project, *options, **settings)) == sorted(expected)


def test_the_plan_names_who_is_not_evaluated(project: CliProject) -> None:
    evaluated(project)

    assert "not evaluated, as they only grade or play users: user (`runners` or --runner" in project("plan").text
