"""The schema documents itself, and its views answer the daily questions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pytest

from eval_pipeline.warehouse.case_sums import TOTALS_TYPE
from eval_pipeline.warehouse.columns import Table
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.macros import MACROS
from eval_pipeline.warehouse.published import describe
from eval_pipeline.warehouse.tables import TABLES
from eval_pipeline.warehouse.views import VIEWS, View

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
TYPES = {
    "VARCHAR",
    "VARCHAR[]",
    "JSON",
    "INTEGER",
    "BIGINT",
    "DOUBLE",
    "BOOLEAN",
    "TIMESTAMPTZ",
    "INTEGER[]",
    "DOUBLE[]",
    "BLOB",
    TOTALS_TYPE,
}
NAMES = {"TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE"}
"""How the database names a type."""
PROMISED = {
    "suites", "cases", "runners", "sweeps", "target_executions", "session_reports", "session_events",
    "evaluator_scores", "verdicts", "leaderboards", "failure_classes", "comparisons", "token_snapshots",
}  # fmt: skip


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    with DuckDBWarehouse(tmp_path_factory.mktemp("empty")).transaction() as connection:
        yield connection


# Comments and keys.


def test_every_table_column_and_view_has_a_comment_in_a_real_database(empty: duckdb.DuckDBPyConnection) -> None:
    named = empty.execute(
        """SELECT table_name, NULL, comment FROM duckdb_tables() UNION ALL
           SELECT view_name, NULL, comment FROM duckdb_views() WHERE NOT internal UNION ALL
           SELECT table_name, column_name, comment FROM duckdb_columns()
           WHERE NOT internal"""
    ).fetchall()

    assert [(name, column) for name, column, comment in named if not comment] == []
    columns = [(name, column) for name, column, _ in named if column is not None]
    assert len(named) - len(columns) == len(TABLES) + len(VIEWS)
    assert {name for name, _ in columns} == {table.name for table in TABLES} | {view.name for view in VIEWS}


def test_a_database_has_the_tables_that_the_schema_says_with_their_types(empty: duckdb.DuckDBPyConnection) -> None:
    rows = empty.execute(
        """SELECT table_name, column_name, data_type FROM duckdb_columns()
           WHERE table_name IN (SELECT table_name FROM duckdb_tables()) ORDER BY table_name, column_index"""
    ).fetchall()

    expected = [
        (table.name, column.name, NAMES.get(column.type, column.type)) for table in TABLES for column in table.columns
    ]
    assert rows == sorted(expected, key=lambda row: row[0])


def test_a_computed_column_of_a_view_has_a_comment_of_its_own(empty: duckdb.DuckDBPyConnection) -> None:
    query = "SELECT comment FROM duckdb_columns() WHERE column_name = 'passed' AND table_name = ?"

    passed = {name: empty.execute(query, [name]).fetchall()[0][0] for name in ("flaky_cases", "current_pairs")}

    assert passed == {
        "flaky_cases": "Repetitions that passed, or failed as expected",
        "current_pairs": "Plans that passed (or failed as expected)",
    }


def test_everything_is_described_with_its_kind(empty: duckdb.DuckDBPyConnection) -> None:
    kinds = {name: kind for name, kind, comment in describe(empty) if comment}

    assert kinds == {
        **{table.name: "table" for table in TABLES},
        **{view.name: "view" for view in VIEWS},
        **{macro.signature: "macro" for macro in MACROS},
    }


def test_the_promised_tables_are_there() -> None:
    assert {table.name for table in TABLES} >= PROMISED


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_tables_key_is_made_of_its_columns(table: Table) -> None:
    assert table.key
    assert set(table.key) <= set(table.column_names)
    assert len(set(table.column_names)) == len(table.column_names)
    assert {column.type for column in table.columns} <= TYPES


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_every_view_can_be_selected_from_when_nothing_is_there(empty: duckdb.DuckDBPyConnection, view: View) -> None:
    assert empty.execute(f'SELECT * FROM "{view.name}"').fetchall() == []


def test_the_leaderboard_has_the_columns_that_analysts_were_promised(empty: duckdb.DuckDBPyConnection) -> None:
    columns = {row[0] for row in empty.execute("DESCRIBE leaderboard").fetchall()}

    assert columns >= {
        "suite", "runner", "planned", "graded", "passed", "pass_rate", "pass_rate_low", "pass_rate_high", "mean_score",
        "coverage",
    }  # fmt: skip


# What the views say.


def swept(warehouse: DuckDBWarehouse, sweep: str = "1", *, revision: str = "1", at: int = 0, runner: str = "r") -> None:
    """A sweep of suite `s` × a runner, carried out `at` minutes past noon."""
    row = {"sweep_id": sweep, "suite": "s", "runner": runner, "suite_revision": revision, "runner_revision": "1",
           "finished_at": NOON + timedelta(minutes=at)}  # fmt: skip
    warehouse.write("sweep_pairs", [row])


def decided(
    warehouse: DuckDBWarehouse, *verdicts: tuple[str, str], revision: str = "1", at: int = 0, **fields: Any
) -> None:
    """Verdicts (case, status) of suite `s` × runner `r`, repetitions numbered as they come."""
    rows = []
    for number, (case, status) in enumerate(verdicts):
        repetition = [each for each, _ in verdicts[:number]].count(case) + 1
        rows.append({
            "verdict_id": f"{case}-{repetition}-{at}", "suite": "s", "runner": "r", "suite_revision": revision,
            "runner_revision": "1", "case_id": case, "repetition": repetition, "status": status,
            "score": None if status == "error" else float(status == "passed"),
            "decided_at": NOON + timedelta(minutes=at), **fields,
        })  # fmt: skip
    warehouse.write("verdicts", rows)


def test_the_newest_verdict_of_a_cell_is_current(warehouse: DuckDBWarehouse) -> None:
    swept(warehouse)
    decided(warehouse, ("c1", "failed"), ("c2", "passed"), at=0)
    decided(warehouse, ("c1", "passed"), at=1)

    rows = warehouse.frame("SELECT case_id, status FROM current_verdicts ORDER BY case_id")

    assert rows.rows() == [("c1", "passed"), ("c2", "passed")]


def test_verdicts_of_another_revision_of_the_suite_are_not_current(warehouse: DuckDBWarehouse) -> None:
    swept(warehouse, "1", revision="old", at=0)
    swept(warehouse, "2", revision="new", at=1)
    decided(warehouse, ("c1", "passed"), ("gone", "failed"), revision="old", at=0)
    decided(warehouse, ("c1", "failed"), revision="new", at=1)

    rows = warehouse.frame("SELECT case_id, status FROM current_verdicts")

    assert rows.rows() == [("c1", "failed")]


def test_the_execution_selected_last_stands_for_its_cell(warehouse: DuckDBWarehouse) -> None:
    cell = {"suite": "s", "runner": "r", "case_id": "c1", "repetition": 1}
    warehouse.write(
        "target_executions",
        [
            {**cell, "execution_id": "old", "selected_at": NOON},
            {**cell, "execution_id": "new", "selected_at": NOON + timedelta(microseconds=1)},
            {**cell, "execution_id": "other", "repetition": 2, "selected_at": NOON},
        ],
    )

    rows = warehouse.frame("SELECT execution_id FROM current_executions ORDER BY 1")

    assert rows["execution_id"].to_list() == ["new", "other"]


def test_the_scores_of_current_verdicts_are_current(warehouse: DuckDBWarehouse) -> None:
    swept(warehouse)
    decided(warehouse, ("c1", "passed"), execution_id="e1", score_keys=["used"])
    scores = [{"execution_id": "e1", "spec_key": key} for key in ("used", "unused")]
    warehouse.write("evaluator_scores", scores)

    assert warehouse.frame("SELECT spec_key FROM current_scores")["spec_key"].to_list() == ["used"]


def test_the_case_matrix_leaves_out_what_could_not_be_graded(warehouse: DuckDBWarehouse) -> None:
    swept(warehouse)
    decided(
        warehouse, ("c1", "passed"), ("c1", "failed"), ("c1", "error"), ("c2", "error"),
        ("c3", "expected-failed"), ("c4", "unexpected-passed"),
    )  # fmt: skip

    rows = warehouse.frame("SELECT case_id, graded, pass_rate, mean_score FROM case_matrix ORDER BY case_id")

    assert rows.rows() == [
        ("c1", 2, 0.5, 0.5), ("c2", 0, None, None), ("c3", 1, 1.0, 0.0), ("c4", 1, 0.0, 0.0),
    ]  # fmt: skip


def test_a_case_is_flaky_when_it_both_passed_and_failed(warehouse: DuckDBWarehouse) -> None:
    swept(warehouse)
    decided(
        warehouse, ("flaky", "passed"), ("flaky", "failed"), ("flaky", "error"), ("good", "passed"), ("good", "passed"),
        ("sick", "passed"), ("sick", "error"),
    )  # fmt: skip

    rows = warehouse.frame("SELECT case_id, repetitions, passed, failed, errored FROM flaky_cases")

    assert rows.rows() == [("flaky", 3, 1, 1, 1)]


def test_failures_are_summed_over_suites_and_runners(warehouse: DuckDBWarehouse) -> None:
    rows = [("s", "a", "gate", 1), ("s", "b", "gate", 2), ("t", "a", "gate", 3), ("s", "a", "timeout", 7)]
    names = ("suite", "runner", "failure_class", "count")
    pairs = [{"sweep_id": "1", "suite": suite, "runner": runner} for suite in "st" for runner in "ab"]
    warehouse.write("sweep_pairs", [{**pair, "suite_revision": "1"} for pair in pairs])
    warehouse.write("failure_classes", [{"suite_revision": "1"} | dict(zip(names, row, strict=True)) for row in rows])

    actual = warehouse.frame("SELECT failure_class, count, suites, runners FROM failure_summary")

    assert actual.rows() == [("timeout", 7, 1, 1), ("gate", 6, 2, 2)]


def test_an_unknown_cost_is_no_cost_of_zero(warehouse: DuckDBWarehouse) -> None:
    costs = [("cheap", 0.5), ("cheap", 1.5), ("cheap", None), ("secret", None)]
    rows = [
        {"execution_id": f"e{number}", "runner": runner, "cost_usd": cost}
        for number, (runner, cost) in enumerate(costs)
    ]
    warehouse.write("session_reports", rows)

    actual = warehouse.frame(
        "SELECT runner, executions, cost_known, cost_usd, cost_per_execution_usd FROM cost_by_runner"
    )

    assert actual.rows() == [("cheap", 3, 2, 2.0, 1.0), ("secret", 1, 0, None, None)]


def test_the_leaderboard_is_the_newest_board_and_the_older_ones_are_history(warehouse: DuckDBWarehouse) -> None:
    boards = [("1", "suite", "s", 1), ("2", "suite", "s", 2), ("2", "suite", "t", 1), ("2", "overall", "(all)", 1)]
    names = ("board_id", "scope", "suite", "rank")
    warehouse.write("leaderboards", [{**dict(zip(names, row, strict=True)), "runner": "r"} for row in boards])

    assert warehouse.frame("SELECT suite, rank FROM leaderboard").rows() == [("s", 2), ("t", 1)]
    assert warehouse.frame("SELECT runner FROM leaderboard_overall").rows() == [("r",)]
    assert warehouse.frame("SELECT board_id FROM leaderboard_history")["board_id"].to_list() == ["2", "2", "2", "1"]
