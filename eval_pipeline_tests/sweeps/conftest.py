"""What every test of this room starts with: an environment that names no project, and a small project in a folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from eval_pipeline.sweeps.project import DATA_VARIABLE, PROJECT_VARIABLE
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, make_project


@pytest.fixture(autouse=True, scope="module")
def no_project_in_the_environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in (PROJECT_VARIABLE, DATA_VARIABLE, "DAGSTER_HOME"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def empty_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with its schema and no rows: making one takes longer than copying it."""
    warehouse = DuckDBWarehouse(tmp_path_factory.mktemp("empty"))
    with warehouse.transaction():
        return warehouse.path


@pytest.fixture
def folder(tmp_path: Path, empty_warehouse: Path) -> ProjectFolder:
    made = make_project(tmp_path / "project")
    made.data.mkdir()
    shutil.copyfile(empty_warehouse, made.data / empty_warehouse.name)
    return made
