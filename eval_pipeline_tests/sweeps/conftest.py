"""What every test of this room starts with: an environment that names no project, and a small project in a folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from eval_pipeline.sweeps.project import DATA_VARIABLE, PROJECT_VARIABLE
from eval_pipeline_tests.new_data import blank_folder
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, make_project


@pytest.fixture(autouse=True, scope="module")
def no_project_in_the_environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in (PROJECT_VARIABLE, DATA_VARIABLE, "DAGSTER_HOME"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    made = make_project(tmp_path / "project")
    made.data.mkdir()
    shutil.copy(blank_folder() / "warehouse.duckdb", made.data)
    return made
