"""A warehouse to write to."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse


@pytest.fixture
def warehouse(tmp_path: Path) -> DuckDBWarehouse:
    """An empty warehouse of the present schema, in the test's own folder."""
    folder = tmp_path / "data"
    folder.mkdir()
    return DuckDBWarehouse(folder)
