"""Dagster's SQLite databases before anything is in them: its tables, made in one go, and its migration stamp."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from dagster._core.storage.sql import ALEMBIC_SCRIPTS_LOCATION
from sqlalchemy import MetaData, create_engine
from sqlalchemy.engine import Engine


def is_complete(engine: Engine, table: str) -> bool:
    """Return whether Dagster finished making a database: it has this table and a migration stamp."""
    if not Path(str(engine.url.database)).exists():
        return False
    with engine.connect() as connection:
        stamped = MigrationContext.configure(connection).get_current_revision() is not None
        return stamped and engine.dialect.has_table(connection, table)


def make_if_missing(database: Path, tables: MetaData) -> bool:
    """Make an empty database as Dagster does, stamped with its newest migration; return False when the file exists.

    SQLite commits each statement that makes a table to the disk, so they run in memory. The file appears whole or not
    at all.
    """
    if database.exists():
        return False
    database.parent.mkdir(parents=True, exist_ok=True)
    part = database.with_suffix(".part")
    part.unlink(missing_ok=True)
    with create_engine("sqlite://").connect() as memory, closing(sqlite3.connect(part)) as copy:
        tables.create_all(memory)
        MigrationContext.configure(memory).stamp(_migration_scripts(), "head")
        memory.commit()
        memory.connection.driver_connection.backup(copy)  # type: ignore[union-attr]
        copy.execute("PRAGMA journal_mode=WAL")
    part.replace(database)
    return True


@cache
def _migration_scripts() -> ScriptDirectory:
    """Dagster's migration scripts: 50 modules, loaded once instead of twice per database."""
    config = Config()
    config.set_main_option("script_location", ALEMBIC_SCRIPTS_LOCATION)
    return ScriptDirectory.from_config(config)
