"""Dagster's SQLite storage, cheaper to open; the files and their content stay Dagster's own.

Dagster loads all of its migration scripts each time it opens a database, and makes the tables of a run's database
statement by statement. Here a database that already has a migration stamp opens as it is (Dagster only tests whether
there is a stamp), and a run's database starts as a copy of an empty one that Dagster made.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import dagster
from alembic.runtime.migration import MigrationContext
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.runs import SqliteRunStorage
from dagster._core.storage.schedules import SqliteScheduleStorage
from dagster._core.storage.sqlite import create_db_conn_string
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData
from sqlalchemy import NullPool, create_engine
from sqlalchemy.engine import Engine


class QuickSqliteStorage(DagsterSqliteStorage):
    """`DagsterSqliteStorage` over the storages below."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        history = Path(base_dir, "history")
        self.base_dir = base_dir
        self._run_storage = QuickRunStorage.from_local(str(history))
        self._event_log_storage = QuickEventLogStorage(str(history / "runs"))
        self._schedule_storage = QuickScheduleStorage.from_local(str(Path(base_dir, "schedules")))
        self._inst_data = inst_data

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Any) -> Self:
        return cls.from_local(inst_data=inst_data, **config_value)


class QuickRunStorage(SqliteRunStorage):
    """Opens a stamped `runs.db` without Dagster's migration scripts."""

    @classmethod
    def from_local(cls, base_dir: str, inst_data: ConfigurableClassData | None = None) -> Self:
        address = create_db_conn_string(base_dir, "runs")
        if _is_complete(create_engine(address, poolclass=NullPool), "instance_info"):
            return cls(address, inst_data)
        return super().from_local(base_dir, inst_data)


class QuickScheduleStorage(SqliteScheduleStorage):
    """Opens a stamped `schedules.db` without Dagster's migration scripts."""

    @classmethod
    def from_local(cls, base_dir: str, inst_data: ConfigurableClassData | None = None) -> SqliteScheduleStorage:
        address = create_db_conn_string(base_dir, "schedules")
        if _is_complete(create_engine(address, poolclass=NullPool), "job_ticks"):
            return cls(address, inst_data)
        return super().from_local(base_dir, inst_data)


class QuickEventLogStorage(SqliteEventLogStorage):
    """Opens stamped databases without Dagster's migration scripts, and copies the tables of a new run's database."""

    def _initdb(self, engine: Engine, for_index_shard: bool = False) -> None:
        if _is_complete(engine, "event_logs"):
            return
        database = Path(str(engine.url.database))
        blank = database.parent.parent / f"blank-events-{dagster.__version__}.db"
        if blank.exists() and not for_index_shard:
            shutil.copyfile(blank, database)
            return
        super()._initdb(engine, for_index_shard)
        _copy_database(database, blank)


def _is_complete(engine: Engine, table: str) -> bool:
    """Whether Dagster finished making a database: it has this table and a migration stamp."""
    if not Path(str(engine.url.database)).exists():
        return False
    with engine.connect() as connection:
        stamped = MigrationContext.configure(connection).get_current_revision() is not None
        return stamped and engine.dialect.has_table(connection, table)


def _copy_database(database: Path, target: Path) -> None:
    """Copy a database that may be in use; the target appears whole or not at all."""
    part = target.with_suffix(".part")
    part.unlink(missing_ok=True)
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(part)) as copy:
        source.backup(copy)
    part.replace(target)
