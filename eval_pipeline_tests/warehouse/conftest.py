"""A warehouse to write to: making the schema takes a quarter of a second, so it is made once and copied."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse


@pytest.fixture(scope="session")
def empty_warehouse(tmp_path_factory: pytest.TempPathFactory) -> DuckDBWarehouse:
    """The one that is copied: nobody writes to it."""
    warehouse = DuckDBWarehouse(tmp_path_factory.mktemp("empty"))
    warehouse.write("sweeps", [{"sweep_id": "first"}])
    with warehouse.transaction() as connection:
        connection.execute("DELETE FROM sweeps")
    return warehouse


@pytest.fixture
def warehouse(empty_warehouse: DuckDBWarehouse, tmp_path: Path) -> DuckDBWarehouse:
    """An empty warehouse of the present schema, in the test's own folder."""
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copyfile(empty_warehouse.path, folder / "warehouse.duckdb")
    return DuckDBWarehouse(folder)
