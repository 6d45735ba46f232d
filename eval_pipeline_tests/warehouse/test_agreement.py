"""The views on graders' agreement say what the functions say."""

from __future__ import annotations

import random
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import polars as pl
import pytest

from eval_pipeline.statistics.agreement import cohens_kappa, krippendorffs_alpha
from eval_pipeline.warehouse.agreement_views import AGREEMENT_VIEWS

GRADERS = ("a", "b", "c")
NAMES = ("execution_id", "spec_key", "suite", "evaluator", "member", "grader", "value", "details")
SCHEMA: dict[str, Any] = {name: pl.Float64 if name == "value" else pl.String for name in NAMES}


@pytest.fixture
def warehouse() -> Iterator[duckdb.DuckDBPyConnection]:
    """The tables that the views look at, and the views."""
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


@pytest.mark.parametrize("seed", range(5))
def test_agreement_of_random_ratings_is_what_the_functions_say(warehouse: duckdb.DuckDBPyConnection, seed: int) -> None:
    chance = random.Random(seed)
    units = [[chance.choice([None, 0.0, 0.35, 0.8, 0.95, 1.0]) for _ in GRADERS] for _ in range(60)]
    store(warehouse, units)

    (overall,) = rows(warehouse, "grader_agreement")
    pairs = rows(warehouse, "grader_pairs")

    passed = [[None if value is None else value >= 0.8 for value in unit] for unit in units]
    rated = [unit for unit in units if sum(value is not None for value in unit) > 1]
    assert (overall["units"], overall["graders"]) == (len(rated), 3)
    assert overall["ratings"] == sum(value is not None for unit in rated for value in unit)
    assert overall["krippendorffs_alpha"] == pytest.approx(krippendorffs_alpha(units, "interval"), abs=1e-12)
    assert overall["krippendorffs_alpha_passed"] == pytest.approx(krippendorffs_alpha(passed), abs=1e-12)
    columns = list(zip(*passed, strict=True))
    for pair in pairs:
        first, second = (columns[GRADERS.index(pair[name])] for name in ("grader_a", "grader_b"))
        assert pair["cohens_kappa"] == pytest.approx(cohens_kappa(first, second), abs=1e-12)
    assert [(pair["grader_a"], pair["grader_b"]) for pair in pairs] == [("a", "b"), ("a", "c"), ("b", "c")]


def test_the_share_of_agreement_is_a_mean_over_units(warehouse: duckdb.DuckDBPyConnection) -> None:
    store(warehouse, [[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])

    (overall,) = rows(warehouse, "grader_agreement")

    assert overall["agreement"] == pytest.approx((1 + 1 / 3) / 2)
    assert overall["unanimous"] == 0.5


def test_graders_that_always_say_the_same_agree_fully(warehouse: duckdb.DuckDBPyConnection) -> None:
    store(warehouse, [[0.1, 0.1]] * 7)

    assert rows(warehouse, "grader_agreement")[0]["krippendorffs_alpha"] == 1.0
    assert rows(warehouse, "grader_pairs")[0]["cohens_kappa"] == 1.0


def test_a_graders_own_word_on_passing_counts_before_its_value(warehouse: duckdb.DuckDBPyConnection) -> None:
    store(warehouse, [[0.5, 0.9]], details='{"passes": true}')

    assert rows(warehouse, "grader_pairs")[0]["agreement"] == 1.0


def test_scores_of_the_past_members_of_composites_and_single_ratings_are_left_out(
    warehouse: duckdb.DuckDBPyConnection,
) -> None:
    store(warehouse, [[1.0, 0.0]], key="old", current=False)
    store(warehouse, [[1.0, 0.0]], key="composite", evaluator="composite", grader=None)
    store(warehouse, [[1.0, None]], key="single", evaluator="single")

    assert rows(warehouse, "grader_agreement") == []
    assert rows(warehouse, "grader_pairs") == []


def test_panels_are_told_apart(warehouse: duckdb.DuckDBPyConnection) -> None:
    store(warehouse, [[1.0, 1.0]] * 3, key="k1", evaluator="tone")
    store(warehouse, [[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3, key="k2", evaluator="facts")

    found = defaultdict(
        float, {row["evaluator"]: row["krippendorffs_alpha"] for row in rows(warehouse, "grader_agreement")}
    )

    assert found["tone"] == 1.0
    assert found["facts"] < 0
