"""An older warehouse becomes this one with everything that was in it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from eval_pipeline.errors import WarehouseError
from eval_pipeline.warehouse.migrations import MIGRATIONS, migrate, schema_version
from eval_pipeline.warehouse.schema import SCHEMA_VERSION
from eval_pipeline.warehouse.tables import BY_NAME, TABLES
from eval_pipeline.warehouse.views import VIEWS

NEW_IN_2 = {
    "cases": ("conversation", "workspace", "depends_on", "conversation_id", "case_group", "strategy"),
    "sweep_cells": ("strategy", "threshold", "skipped"),
    "target_executions": ("workspace", "answered_by"),
    "session_reports": ("file_changes",),
    "evaluator_scores": ("passes",),
}


@pytest.fixture
def version_1(tmp_path: Path) -> duckdb.DuckDBPyConnection:
    """A database as version 1 made it, with a row."""
    connection = duckdb.connect(str(tmp_path / "old.duckdb"))
    migrate(connection, MIGRATIONS[:1])
    for view in reversed(VIEWS):
        connection.execute(f'DROP VIEW "{view.name}"')
    connection.execute("DROP TABLE member_scores")
    for table, columns in NEW_IN_2.items():
        for column in columns:
            connection.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
    connection.execute("INSERT INTO evaluator_scores (execution_id, spec_key, value) VALUES ('e1', 'k', 0.5)")
    return connection


def columns_of(connection: duckdb.DuckDBPyConnection) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for table, column in connection.execute("SELECT table_name, column_name FROM duckdb_columns()").fetchall():
        found.setdefault(table, set()).add(column)
    return found


def test_a_warehouse_of_version_1_gets_what_is_new_and_keeps_its_rows(version_1: duckdb.DuckDBPyConnection) -> None:
    assert migrate(version_1) == [2]

    columns = columns_of(version_1)
    assert all(set(table.column_names) <= columns[table.name] for table in TABLES)
    assert version_1.execute("SELECT execution_id, value, passes FROM evaluator_scores").fetchall() == [
        ("e1", 0.5, None)
    ]
    assert schema_version(version_1) == SCHEMA_VERSION


def test_every_view_answers_after_a_migration(version_1: duckdb.DuckDBPyConnection) -> None:
    migrate(version_1)

    for view in VIEWS:
        version_1.execute(f'SELECT * FROM "{view.name}"').fetchall()


def test_a_migrated_warehouse_is_not_migrated_again(version_1: duckdb.DuckDBPyConnection) -> None:
    migrate(version_1)

    assert migrate(version_1) == []


def test_a_newer_warehouse_is_refused(version_1: duckdb.DuckDBPyConnection) -> None:
    version_1.execute("INSERT INTO schema_migrations VALUES (99, 'from the future', now()::TIMESTAMP)")

    with pytest.raises(WarehouseError, match="schema version 99, this program knows 2: update it"):
        migrate(version_1)


def test_every_column_of_the_table_of_members_has_a_comment() -> None:
    assert all(column.comment for column in BY_NAME["member_scores"].columns)
