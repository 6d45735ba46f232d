"""A process that waits for the lock of the warehouse says which one holds it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eval_pipeline.errors import WarehouseError
from eval_pipeline.warehouse import duckdb_file
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse

HOLDER = f"`eval-pipeline delete orphans`, process {os.getpid()}, under way since 2"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/bin/eval-pipeline", "delete", "orphans"])
    monkeypatch.setattr(duckdb_file, "LOCK_SILENT_S", 0.05)
    monkeypatch.setattr(duckdb_file.DuckDBWarehouse, "lock_timeout_s", 0.1)


@contextmanager
def writing_elsewhere(folder: Path) -> Iterator[None]:
    """A transaction under way in another thread, with a warehouse of its own, as another process has."""
    begun, ends = threading.Event(), threading.Event()

    def write() -> None:
        with DuckDBWarehouse(folder).transaction():
            begun.set()
            ends.wait(60)

    thread = threading.Thread(target=write)
    thread.start()
    assert begun.wait(60)
    try:
        yield
    finally:
        ends.set()
        thread.join(60)


def test_a_wait_names_the_process_that_writes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with writing_elsewhere(tmp_path), pytest.raises(WarehouseError), DuckDBWarehouse(tmp_path).transaction():
        pass

    (message,) = caplog.messages
    assert message.startswith(f"the warehouse is locked: waiting for {HOLDER}")


def test_a_wait_that_is_too_long_is_an_error_that_names_it_too(tmp_path: Path) -> None:
    with (
        writing_elsewhere(tmp_path),
        pytest.raises(WarehouseError, match=r"warehouse\.lock is held by") as raised,
        DuckDBWarehouse(tmp_path).transaction(),
    ):
        pass

    assert HOLDER in str(raised.value)


def test_nothing_is_left_of_a_lock_that_is_released(tmp_path: Path) -> None:
    with writing_elsewhere(tmp_path):
        assert (tmp_path / "warehouse.holder").exists()

    assert not (tmp_path / "warehouse.holder").exists()
    with DuckDBWarehouse(tmp_path).transaction() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
