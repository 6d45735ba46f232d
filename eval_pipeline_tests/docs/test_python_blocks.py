"""The Python that the guides show runs, on a project that `init` writes."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from eval_pipeline import LaunchRequest
from eval_pipeline_tests.cli.sample_project import CliProject
from eval_pipeline_tests.console_blocks import blocks, read_page


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DAGSTER_HOME", "EVAL_PIPELINE_PROJECT", "EVAL_PIPELINE_DATA"):
        monkeypatch.delenv(name, raising=False)
    assert CliProject(tmp_path)("init", "project", "--kind", "program").code == 0
    return tmp_path / "project"


def run_block(page: str, folder_shown: str, project: Path) -> dict[str, Any]:
    """The names that the one Python block of a page defines, with another project's folder in it."""
    (block,) = blocks(read_page(page), "py")
    names: dict[str, Any] = {}
    exec(block.text.replace(folder_shown, str(project)).replace("[...]", "[]"), names)
    return names


def test_the_sweep_of_the_notebook_guide_has_a_board(project: Path) -> None:
    names = run_block("docs/how-to/notebook.md", "path/to/project", project)

    assert len(names["sweep"].outcomes) == 2
    assert [runner for runner, _ in names["board"]] == ["rules-v2", "rules-v1"]


def test_the_definitions_of_the_dagster_guide_have_the_assets_of_a_project(project: Path) -> None:
    names = run_block("docs/how-to/existing-dagster.md", "/srv/evals", project)

    keys = {key.to_user_string() for key in names["defs"].resolve_all_asset_keys()}

    assert keys >= {"suites", "evaluator_scores", "leaderboards", "best_runner"}


def test_the_agent_of_the_plug_in_guide_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    normalizer = ModuleType("my_package.normalizer")
    vars(normalizer)["ScribeNormalizer"] = object
    monkeypatch.setitem(sys.modules, "my_package", ModuleType("my_package"))
    monkeypatch.setitem(sys.modules, "my_package.normalizer", normalizer)
    names: dict[str, Any] = {}
    exec(blocks(read_page("docs/how-to/write-a-plugin.md"), "python")[1].text, names)

    launch = names["SCRIBE"].launch(LaunchRequest(executable="scribe", model="m-1"))

    assert launch.command == ("scribe", "--json", "--model", "m-1")
