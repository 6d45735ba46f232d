"""The statements that make an empty database the schema of `tables.py` and `views.py`, with every comment."""

from __future__ import annotations

from eval_pipeline.warehouse.tables import TABLES
from eval_pipeline.warehouse.views import VIEWS

SCHEMA_VERSION = 2


def create_statements() -> list[str]:
    """Everything that makes an empty database this schema: tables with comments, then views."""
    return table_statements() + view_statements()


def table_statements() -> list[str]:
    """The tables, where they are not there yet, and what they and their columns say."""
    statements: list[str] = []
    for table in TABLES:
        columns = ", ".join(f'"{column.name}" {column.type}' for column in table.columns)
        statements.append(f'CREATE TABLE IF NOT EXISTS "{table.name}" ({columns})')
        statements.append(f'COMMENT ON TABLE "{table.name}" IS {_quoted(table.comment)}')
        statements += [
            f'COMMENT ON COLUMN "{table.name}"."{column.name}" IS {_quoted(column.comment)}' for column in table.columns
        ]
    return statements


def view_statements() -> list[str]:
    """The views, made anew: they hold no data, so a newer version of the code simply replaces them."""
    statements: list[str] = []
    for view in VIEWS:
        statements.append(f'CREATE OR REPLACE VIEW "{view.name}" AS {view.query}')
        statements.append(f'COMMENT ON VIEW "{view.name}" IS {_quoted(view.comment)}')
    return statements


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
