"""The statements that make an empty database the schema of `tables.py` and `views.py`, with every comment."""

from __future__ import annotations

from collections.abc import Iterable

from eval_pipeline.warehouse.columns import Table
from eval_pipeline.warehouse.macros import MACROS
from eval_pipeline.warehouse.tables import TABLES
from eval_pipeline.warehouse.view_comments import column_comment
from eval_pipeline.warehouse.views import VIEWS

SCHEMA_VERSION = 46


def table_statements(tables: Iterable[Table] = TABLES) -> list[str]:
    """Return the statements that create tables where they do not exist."""
    return [f'CREATE TABLE IF NOT EXISTS "{table.name}" ({_columns(table)})' for table in tables]


def _columns(table: Table) -> str:
    return ", ".join(f'"{column.name}" {column.type}' for column in table.columns)


def comment_statements() -> list[str]:
    """Return the statements that store the comment of each table and column."""
    statements: list[str] = []
    for table in TABLES:
        statements.append(f'COMMENT ON TABLE "{table.name}" IS {_quoted(table.comment)}')
        statements += [
            f'COMMENT ON COLUMN "{table.name}"."{column.name}" IS {_quoted(column.comment)}' for column in table.columns
        ]
    return statements


def view_statements() -> list[str]:
    """Return the statements that create or replace all views: they hold no data, so the newest definition wins."""
    statements: list[str] = []
    for view in VIEWS:
        statements.append(f'CREATE OR REPLACE VIEW "{view.name}" AS {view.query}')
        statements.append(f'COMMENT ON VIEW "{view.name}" IS {_quoted(view.comment)}')
    return statements


def macro_statements() -> list[str]:
    """Return the statements that create or replace all macros."""
    kinds = {True: "TABLE", False: ""}
    return [f"CREATE OR REPLACE MACRO {each.signature} AS {kinds[each.is_table]} {each.definition}" for each in MACROS]


def view_comment_statements(columns: Iterable[tuple[str, str]]) -> list[str]:
    """Return the statements that store the comments of columns of views, named (view, column)."""
    return [
        f'COMMENT ON COLUMN "{view}"."{column}" IS {_quoted(column_comment(view, column))}' for view, column in columns
    ]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
