"""A warehouse to write to: making the schema takes a quarter of a second, so it is made once and copied."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from eval_pipeline.warehouse.store import Warehouse


@pytest.fixture(scope="session")
def empty_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """The one that is copied: nobody writes to it."""
    warehouse = Warehouse(tmp_path_factory.mktemp("empty"))
    warehouse.write("sweeps", [{"sweep_id": "first"}])
    with warehouse.transaction() as connection:
        connection.execute("DELETE FROM sweeps")
    return warehouse


@pytest.fixture
def warehouse(empty_warehouse: Warehouse, tmp_path: Path) -> Warehouse:
    """An empty warehouse of the present schema, in the test's own folder."""
    folder = tmp_path / "data"
    folder.mkdir()
    shutil.copyfile(empty_warehouse.path, folder / "warehouse.duckdb")
    return Warehouse(folder)
