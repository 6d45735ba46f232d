"""New databases as copies: making a warehouse and an instance of Dagster takes 0.5 s of CPU, copying them nothing.

The processes of the tests, and those forked for them, begin every warehouse and instance with a copy of an empty one
that is made once. Processes of the interpreter, and tests with the fixture `new_databases`, make their own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData

from eval_pipeline.orchestration import sqlite_storage
from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline.sweeps.dagster_databases import is_empty
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.migrations import MIGRATIONS

_PATCH = pytest.MonkeyPatch()
_TURN = threading.RLock()
_PLACE = tempfile.gettempdir()
"""Where temporary files are before a test chooses a place that goes with it."""
_FOLDER: list[Path] = []
"""The folder that is copied, once it is made."""
_OPEN, _MAKE_IF_MISSING = DuckDBWarehouse._open, sqlite_storage._make_if_missing


def copy_new_databases(folder: Path | None = None) -> None:
    """Let every new database of this process begin as a copy: of those in this folder, else of its own."""
    if folder is not None:
        _FOLDER[:] = [folder]
    _PATCH.setattr(DuckDBWarehouse, "_open", _open)
    _PATCH.setattr(sqlite_storage, "_make_if_missing", _make_if_missing)


@contextmanager
def databases_made_anew() -> Iterator[None]:
    """Let new databases inside be made, as a process of the interpreter does."""
    _PATCH.undo()
    try:
        yield
    finally:
        copy_new_databases()


def make_data(folder: Path) -> None:
    """Make a data folder as the start of a first run leaves it: an empty warehouse and an instance without runs."""
    shutil.copytree(blank_folder(), folder, dirs_exist_ok=True)


def _open(warehouse: DuckDBWarehouse) -> AbstractContextManager[Any]:
    if warehouse._migrations is MIGRATIONS and not warehouse.exists():
        _copy(blank_folder() / warehouse.path.name, warehouse.path)
    return _OPEN(warehouse)


def _make_if_missing(database: Path, tables: MetaData, migrated: Sequence[str] = ()) -> None:
    if is_empty(database):
        (blank,) = blank_folder().rglob(database.name)
        database.parent.mkdir(parents=True, exist_ok=True)
        _copy(blank, database)
    _MAKE_IF_MISSING(database, tables, migrated)


def _copy(blank: Path, database: Path) -> None:
    part = database.with_suffix(".part")
    try:
        shutil.copyfile(blank, part)
        part.replace(database)
    except OSError:  # a folder without rights, a full disk: the making reports it
        part.unlink(missing_ok=True)


def blank_folder() -> Path:
    """Return the data folder that is copied; it goes with this process."""
    with _TURN:
        if not _FOLDER:
            folder = Path(tempfile.mkdtemp(prefix="new-data-", dir=_PLACE))
            atexit.register(_remove, folder, os.getpid())
            with databases_made_anew(), pytest.MonkeyPatch.context() as patch:
                patch.delenv("DAGSTER_HOME", raising=False)
                with DuckDBWarehouse(folder).transaction(), open_instance(folder):
                    pass
            _FOLDER.append(folder)
    return _FOLDER[0]


def _remove(folder: Path, maker: int) -> None:
    if os.getpid() == maker:  # no process that was forked from it
        shutil.rmtree(folder, ignore_errors=True)
