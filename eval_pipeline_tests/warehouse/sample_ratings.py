"""Ratings of graders in a database that has just the agreement views and the tables that they read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import polars as pl

from eval_pipeline.warehouse.agreement_views import AGREEMENT_VIEWS

GRADERS = ("a", "b", "c", "d")
NAMES = ("execution_id", "spec_key", "suite", "evaluator", "member", "grader", "value", "details")
SCHEMA: dict[str, Any] = {name: pl.Float64 if name == "value" else pl.String for name in NAMES}


@contextmanager
def agreement_database() -> Iterator[duckdb.DuckDBPyConnection]:
    """The tables that the views read, and the views."""
    with duckdb.connect() as connection:
        connection.execute(
            """CREATE TABLE member_scores(execution_id VARCHAR, spec_key VARCHAR, suite VARCHAR, evaluator VARCHAR,
                                          member VARCHAR, grader VARCHAR, value DOUBLE, details JSON);
               CREATE TABLE current_scores(execution_id VARCHAR, spec_key VARCHAR)"""
        )
        for name, _, query in AGREEMENT_VIEWS:
            connection.execute(f"CREATE VIEW {name} AS {query}")
        yield connection


def store(connection: duckdb.DuckDBPyConnection, units: Sequence[Sequence[float | None]], **changes: Any) -> None:
    """One score per unit, its ratings in the order of GRADERS; current unless `current=False`."""
    key, evaluator = changes.get("key", "k"), changes.get("evaluator", "quality")
    members = [
        (f"e{number}", key, "s", evaluator, grader, changes.get("grader", grader), value, changes.get("details"))
        for number, unit in enumerate(units)
        for grader, value in zip(GRADERS, unit, strict=False)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/members.parquet"
        pl.DataFrame(members, schema=SCHEMA, orient="row").write_parquet(path)
        connection.execute("INSERT INTO member_scores BY NAME FROM read_parquet(?)", [path])
        if changes.get("current", True):
            connection.execute(
                "INSERT INTO current_scores SELECT DISTINCT execution_id, spec_key FROM read_parquet(?)", [path]
            )


def rows(connection: duckdb.DuckDBPyConnection, view: str) -> list[dict[str, Any]]:
    cursor = connection.execute(f"FROM {view}")
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
