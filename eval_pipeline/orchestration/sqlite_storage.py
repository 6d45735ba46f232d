"""Dagster's default storage, cheaper to open and to write; the files and their content stay Dagster's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from dagster._core.storage.runs import SqliteRunStorage
from dagster._core.storage.runs.schema import RunStorageSqlMetadata
from dagster._core.storage.schedules import SqliteScheduleStorage
from dagster._core.storage.schedules.schema import ScheduleStorageSqlMetadata
from dagster._core.storage.sqlite import create_db_conn_string
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData
from sqlalchemy import NullPool, create_engine

from eval_pipeline.orchestration.blank_databases import is_complete, make_if_missing
from eval_pipeline.orchestration.event_storage import PooledEventLogStorage


class SweepSqliteStorage(DagsterSqliteStorage):
    """`DagsterSqliteStorage` over the storages below and the pooled event log."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        history = Path(base_dir, "history")
        self.base_dir = base_dir
        self._run_storage = QuickRunStorage.from_local(str(history))
        self._event_log_storage = PooledEventLogStorage(str(history / "runs"))
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
        new = make_if_missing(Path(base_dir, "runs.db"), RunStorageSqlMetadata)
        if not is_complete(create_engine(address, poolclass=NullPool), "instance_info"):
            return super().from_local(base_dir, inst_data)
        storage = cls(address, inst_data)
        if new:
            storage.migrate()
            storage.optimize()
        return storage


class QuickScheduleStorage(SqliteScheduleStorage):
    """Opens a stamped `schedules.db` without Dagster's migration scripts."""

    @classmethod
    def from_local(cls, base_dir: str, inst_data: ConfigurableClassData | None = None) -> SqliteScheduleStorage:
        address = create_db_conn_string(base_dir, "schedules")
        new = make_if_missing(Path(base_dir, "schedules.db"), ScheduleStorageSqlMetadata)
        if not is_complete(create_engine(address, poolclass=NullPool), "job_ticks"):
            return super().from_local(base_dir, inst_data)
        storage = cls(address, inst_data)
        if new:
            storage.migrate()
            storage.optimize()
        return storage
