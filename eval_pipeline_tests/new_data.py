"""The data folder of a project that has no results yet: making its databases takes 0.3 s of CPU, so they are copied."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

import pytest

from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse


def make_data(folder: Path) -> None:
    """Make a data folder as the start of a first run leaves it: an empty warehouse and an instance without runs."""
    shutil.copytree(_made_once(), folder, dirs_exist_ok=True)


@functools.cache
def _made_once() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="new-data-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with DuckDBWarehouse(folder).transaction():
        pass
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DAGSTER_HOME", raising=False)
        with open_instance(folder):
            pass
    return folder
