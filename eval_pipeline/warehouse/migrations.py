"""How an older warehouse becomes this one: numbered steps, each applied once, in one transaction.

Version 1 makes what `schema.py` describes. A change of the schema adds a step here that brings what an older version
made to the same; views are made anew with the last step, when every column they name is there, and need no step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from eval_pipeline.errors import WarehouseError
from eval_pipeline.warehouse.schema import create_statements, table_statements, view_statements
from eval_pipeline.warehouse.tables import BY_NAME


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: the version it leads to, what it does in words and in SQL."""

    version: int
    description: str
    statements: tuple[str, ...]


def _added(columns: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The statements that add columns to tables, as the schema describes them, where they are not yet."""
    chosen = ((table, column) for table, names in columns.items() for column in BY_NAME[table].columns
              if column.name in names)  # fmt: skip
    return tuple(
        f'ALTER TABLE "{table}" ADD COLUMN IF NOT EXISTS "{column.name}" {column.type}' for table, column in chosen
    )


_SECOND = {
    "cases": ("conversation", "workspace", "depends_on", "conversation_id", "case_group", "strategy"),
    "sweep_cells": ("strategy", "threshold", "skipped"),
    "target_executions": ("workspace", "answered_by"),
    "session_reports": ("file_changes",),
    "evaluator_scores": ("passes",),
}
MIGRATIONS: tuple[Migration, ...] = (
    Migration(1, "first schema", tuple(create_statements())),
    Migration(2, "workspaces, conversations, members of scores", (*_added(_SECOND), *table_statements())),
)


def migrate(connection: duckdb.DuckDBPyConnection, migrations: Sequence[Migration] = MIGRATIONS) -> list[int]:
    """Brings a database to the newest version; returns the versions applied. Raises WarehouseError for a newer one."""
    current = schema_version(connection)
    newest = max(migration.version for migration in migrations)
    if current > newest:
        raise WarehouseError(f"the warehouse has schema version {current}, this program knows {newest}: update it")
    steps = sorted((step for step in migrations if step.version > current), key=lambda step: step.version)
    for step in steps:
        _apply(connection, step, views=view_statements() if step is steps[-1] else ())
    return [step.version for step in steps]


def schema_version(connection: duckdb.DuckDBPyConnection) -> int:
    """The version a database is at; 0 for an empty one."""
    there = connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'schema_migrations'").fetchone()
    if there is None:
        return 0
    row = connection.execute("SELECT coalesce(max(version), 0) FROM schema_migrations").fetchone()
    return int(row[0]) if row else 0


def _apply(connection: duckdb.DuckDBPyConnection, migration: Migration, views: Sequence[str]) -> None:
    connection.execute("BEGIN")
    try:
        for statement in (*migration.statements, *views):
            connection.execute(statement)
        connection.execute(
            "INSERT INTO schema_migrations VALUES (?, ?, now() AT TIME ZONE 'UTC')",
            [migration.version, migration.description],
        )
        connection.execute("COMMIT")
    except Exception:
        connection.execute("ROLLBACK")
        raise
