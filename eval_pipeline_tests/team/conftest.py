"""Shared warehouses: one server for all tests of a process, a database for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eval_pipeline.warehouse.ducklake import DuckLakeWarehouse
from eval_pipeline.warehouse.storage import LocalStorage
from eval_pipeline.warehouse.store import open_warehouse
from eval_pipeline_tests.postgres_server import PostgresServer
from eval_pipeline_tests.team.postgres import lake_server, new_lake, why_not


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL server, for tests that leave it running."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with lake_server() as started:
        yield started


@pytest.fixture
def url(server: PostgresServer, tmp_path: Path) -> str:
    """The URL of an empty shared warehouse."""
    return new_lake(server, tmp_path / "lake")


@pytest.fixture
def lake(url: str, tmp_path: Path) -> Iterator[DuckLakeWarehouse]:
    """An empty shared warehouse."""
    opened = machine(url, tmp_path / "one")
    yield opened
    opened.close()


def machine(url: str, folder: Path) -> DuckLakeWarehouse:
    """Return the warehouse as a machine with a folder of its own has it."""
    opened = open_warehouse(url, storage=LocalStorage(folder))
    assert isinstance(opened, DuckLakeWarehouse)
    return opened
