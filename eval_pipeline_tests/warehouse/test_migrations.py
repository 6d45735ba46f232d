"""An older warehouse becomes this one with everything that was in it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from eval_pipeline.errors import WarehouseError
from eval_pipeline.warehouse.migrations import migrate, schema_version
from eval_pipeline.warehouse.published import open_results
from eval_pipeline.warehouse.schema import SCHEMA_VERSION
from eval_pipeline.warehouse.selections import read_results, select, sweep_ids
from eval_pipeline.warehouse.tables import BY_NAME, TABLES
from eval_pipeline.warehouse.views import VIEWS

STATEMENTS_OF_2 = (Path(__file__).parent / "schema_version_2.sql").read_text(encoding="utf-8")
NEW_IN_2 = {
    "cases": ("conversation", "workspace", "depends_on", "conversation_id", "case_group", "strategy"),
    "sweep_cells": ("strategy", "threshold", "skipped"),
    "target_executions": ("workspace", "answered_by"),
    "session_reports": ("file_changes",),
    "evaluator_scores": ("passes",),
}
NEW_IN_4 = {"session_reports": ("turns",), "session_events": ("turn",)}
NEW_IN_5 = {
    "runners": ("content",), "sweep_pairs": ("updated",), "target_executions": ("identity",),
    "session_reports": ("prices",), "verdicts": ("executed_at",),
    "leaderboards": ("oldest_answer_at", "newest_answer_at"),
}  # fmt: skip
NEW_IN_6 = {"suites": ("category",)}
NEW_TABLES_IN_7 = ("unranked_pairs",)
NEW_TABLES_IN_8 = ("pair_statistics",)
NEW_IN_13 = {
    "evaluator_scores": ("score_key", "grading_cost_usd"),
    "verdicts": ("scores_key", "grading_cost_usd"),
    "leaderboards": ("grading_cost_usd",),
}
NEW_IN_14 = {"session_reports": ("ended_by",)}
NEW_TABLES_IN_13 = ("evaluator_specs", "verdict_changes")
NEW_TABLES_IN_10 = ("retired_pairs",)
NEW_IN_16 = {
    "evaluator_scores": ("failure_label",),
    "verdicts": ("failure_label", "failure_origin"),
    "cases": ("should_trigger",),
    "token_snapshots": (
        "model", "measured", "allowed", "answers", "passed", "reason", "checked_at", "sweep_id",
    ),
}  # fmt: skip
NEW_IN_36 = {"cases": ("repetitions",)}
NEW_IN_37 = {"cases": ("input_key",)}
NEW_IN_18 = {"sweeps": ("name",)}
NEW_IN_19 = dict.fromkeys(("cases", "verdicts", "leaderboards"), ("incomplete",))
NEW_IN_21 = {"runners": ("arm_of", "arm", "arm_place")}
NEW_IN_15 = {"leaderboards": ("board_key",)}
NEW_IN_20 = {"leaderboards": ("effective_cases",)}
NEW_IN_17 = {
    "cases": ("difficulty", "status", "persona", "simulated_user", "mocks", "created_at", "updated_at"),
}
NEW_TABLES = (
    *NEW_TABLES_IN_7, *NEW_TABLES_IN_8, *NEW_TABLES_IN_10, *NEW_TABLES_IN_13, "runner_differences", "explanations",
    "baselines", "human_grades", "anchor_scores", "retired_cases", "seen_plans",
)  # fmt: skip
ADDED = (NEW_IN_4, NEW_IN_5, NEW_IN_6)
NEW_IN_8 = {
    "sweep_pairs": ("statistics_id",), "target_executions": ("retry_of",),
    "leaderboards": (
        "panel_revision", "cases_revision", "statistics_id", "answers", "apart", "note", "rank_best", "rank_worst",
    ),
}  # fmt: skip
NEW_IN_44 = {"session_reports": ("given_up", "answer_cost_usd")}
NEW_IN_9 = {"session_reports": ("reported_times",)}
RENAMED = {"sweep_cells": "sweep_pairs"}
VALUES = {
    "VARCHAR": "x", "VARCHAR[]": ["x", "y"], "JSON": '{"a": 1}', "INTEGER": 3, "BIGINT": 4, "DOUBLE": 0.5,
    "BOOLEAN": True, "TIMESTAMP": "2026-01-15 12:00:00",
}  # fmt: skip

SESSION_TIMES = ["2026-01-15T12:00:00.123456Z", "2026-01-15T14:30:00+02:00"]
TEXTS_BEFORE_9 = {"session_reports": ("started_at", "ended_at")}


def make_version_2(path: Path) -> duckdb.DuckDBPyConnection:
    """A database as version 2 made it, with a row in every table."""
    connection = duckdb.connect(str(path))
    connection.execute(STATEMENTS_OF_2)
    for table in tables_of(connection):
        types = connection.execute(
            "SELECT data_type FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index", [table]
        ).fetchall()
        values = [VALUES[type_] for (type_,) in types]
        if table != "schema_migrations":
            connection.execute(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(values))})', values)
    connection.execute("UPDATE session_reports SET started_at = ?, ended_at = ?", SESSION_TIMES)
    connection.execute("INSERT INTO schema_migrations VALUES (1, '1', now()::TIMESTAMP), (2, '2', now()::TIMESTAMP)")
    return connection


@pytest.fixture
def version_2(tmp_path: Path) -> duckdb.DuckDBPyConnection:
    return make_version_2(tmp_path / "old.duckdb")


@pytest.fixture
def version_1(tmp_path: Path) -> duckdb.DuckDBPyConnection:
    """A database as version 1 made it, with a row."""
    connection = make_version_2(tmp_path / "older.duckdb")
    views = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
    for (view,) in views:
        connection.execute(f'DROP VIEW "{view}"')
    connection.execute("DROP TABLE member_scores")
    connection.execute("DELETE FROM schema_migrations WHERE version = 2")
    for table, columns in NEW_IN_2.items():
        for column in columns:
            connection.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
    return connection


def tables_of(connection: duckdb.DuckDBPyConnection) -> list[str]:
    rows = connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()
    return [name for (name,) in rows]


def rows_of(connection: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of all tables but `schema_migrations`, by the newest names of tables; columns added later left out."""
    rows = {}
    for table in tables_of(connection):
        if table not in ("schema_migrations", *NEW_TABLES):
            name = RENAMED.get(table, table)
            later = [
                added
                for new in (
                    *ADDED,
                    NEW_IN_8,
                    NEW_IN_9,
                    NEW_IN_13,
                    NEW_IN_14,
                    NEW_IN_15,
                    NEW_IN_21,
                    NEW_IN_16,
                    NEW_IN_17,
                    NEW_IN_18,
                    NEW_IN_19,
                    NEW_IN_20,
                    NEW_IN_36,
                    NEW_IN_37,
                    NEW_IN_44,
                    TEXTS_BEFORE_9,
                )
                for added in new.get(name, ())
            ]
            frame = connection.execute(f'SELECT * FROM "{table}" ORDER BY ALL')
            names = [column[0] for column in frame.description or ()]
            rows[name] = [
                tuple(without_zone(value) for column, value in zip(names, row, strict=True) if column not in later)
                for row in frame.fetchall()
            ]
    return rows


def without_zone(value: Any) -> Any:
    """Return a time with a zone as the one in UTC without it, as older versions stored it."""
    return value.astimezone(UTC).replace(tzinfo=None) if getattr(value, "tzinfo", None) is not None else value


def schema_of(connection: duckdb.DuckDBPyConnection) -> list[Any]:
    return connection.execute(
        """SELECT table_name, column_name, data_type, comment FROM duckdb_columns() WHERE NOT internal UNION ALL
           SELECT table_name, NULL, NULL, comment FROM duckdb_tables() UNION ALL
           SELECT view_name, NULL, NULL, comment FROM duckdb_views() WHERE NOT internal ORDER BY ALL"""
    ).fetchall()


def test_a_warehouse_of_version_2_keeps_every_row_under_the_new_names(version_2: duckdb.DuckDBPyConnection) -> None:
    before = rows_of(version_2)

    assert migrate(version_2) == list(range(3, SCHEMA_VERSION + 1))

    assert rows_of(version_2) == before
    assert all(before.values())
    assert version_2.execute("SELECT suite_plans FROM sweep_pairs").fetchall() == [(3,)]


def test_a_warehouse_of_version_1_gets_what_is_new_and_keeps_its_rows(version_1: duckdb.DuckDBPyConnection) -> None:
    assert migrate(version_1) == list(range(2, SCHEMA_VERSION + 1))

    assert version_1.execute("SELECT execution_id, value, passes FROM evaluator_scores").fetchall() == [
        ("x", 0.5, None)
    ]
    assert schema_version(version_1) == SCHEMA_VERSION


def test_changes_among_the_verdicts_of_an_older_version_are_recorded(version_2: duckdb.DuckDBPyConnection) -> None:
    names = [row[0] for row in version_2.execute("DESCRIBE verdicts").fetchall()]
    new = {"verdict_id": "'y'", "sweep_id": "'y'", "status": "'failed'", "decided_at": "decided_at + INTERVAL 1 DAY"}
    columns = ", ".join(new.get(name, f'"{name}"') for name in names)
    version_2.execute(f"INSERT INTO verdicts SELECT {columns} FROM verdicts")

    migrate(version_2)

    changes = version_2.execute("SELECT previous_id, verdict_id, from_status, to_status FROM verdict_changes")
    assert changes.fetchall() == [("x", "y", "x", "failed")]
    assert version_2.execute("SELECT cause FROM verdict_causes").fetchall() == [("not recorded",)]


@pytest.mark.parametrize("version", ["version_1", "version_2"])
def test_a_migrated_warehouse_has_the_schema_of_a_new_one(version: str, request: pytest.FixtureRequest) -> None:
    old: duckdb.DuckDBPyConnection = request.getfixturevalue(version)
    new = duckdb.connect()

    migrate(old)
    migrate(new)

    assert schema_of(old) == schema_of(new)
    assert tables_of(new) == sorted(table.name for table in TABLES)


def test_tokens_that_version_43_counted_with_those_of_the_answer_are_counted_once() -> None:
    given_up = [{"usage": {"input_tokens": 80, "output_tokens": 20, "cached_input_tokens": None}}, {"speech": {}}]
    connection = duckdb.connect()
    migrate(connection)
    insert = """INSERT INTO session_reports (execution_id, normalizer, turns, input_tokens, output_tokens,
                cached_input_tokens, total_tokens) VALUES (?, ?, ?, 400, 100, NULL, 500)"""
    for name, version, lost in (("old", 6, given_up), ("none", 6, None), ("new", 7, given_up)):
        turns = [{"speech": {} if lost is None else {"given_up": lost}}, {"speech": None}]
        connection.execute(insert, [name, f"conversation/{version}", json.dumps(turns)])
    connection.execute("DELETE FROM schema_migrations WHERE version > 43")

    migrate(connection)

    columns = "execution_id, input_tokens, output_tokens, cached_input_tokens, total_tokens"
    rows = connection.execute(f"SELECT {columns} FROM session_reports ORDER BY ALL").fetchall()
    assert rows == [("new", 400, 100, None, 500), ("none", 400, 100, None, 500), ("old", 320, 80, None, 400)]


def test_every_view_answers_after_a_migration(version_1: duckdb.DuckDBPyConnection) -> None:
    migrate(version_1)

    for view in VIEWS:
        version_1.execute(f'SELECT * FROM "{view.name}"').fetchall()


def test_the_old_names_answer_for_one_version_and_say_so(version_2: duckdb.DuckDBPyConnection) -> None:
    before = version_2.execute("SELECT * FROM sweep_cells").fetchall()
    migrate(version_2)

    cursor = version_2.execute("SELECT * FROM sweep_cells")

    assert [tuple(map(without_zone, row)) for row in cursor.fetchall()] == before
    assert "suite_cells" in [column[0] for column in cursor.description or ()]
    assert version_2.execute("SELECT suite_cells FROM current_cells").fetchall() == [(3,)]
    comments = version_2.execute(
        "SELECT comment FROM duckdb_views() WHERE view_name IN ('sweep_cells', 'current_cells')"
    ).fetchall()
    assert all("alias" in comment for (comment,) in comments)


def test_results_that_an_older_version_published_are_read_as_they_are(tmp_path: Path) -> None:
    connection = make_version_2(tmp_path / "results.duckdb")
    connection.execute("UPDATE verdicts SET status = 'passed', decided_at = '2026-01-15 11:00:00'")
    connection.close()
    before = (tmp_path / "results.duckdb").read_bytes()

    with open_results(tmp_path) as opened:
        chosen = [read_results(opened, select(opened, what)) for what in ("current", "sweep:x")]
        sweeps = sweep_ids(opened)

    assert [results.frame["status"].to_list() for results in chosen] == [["passed"], ["passed"]]
    assert sweeps == ["x"]
    assert (tmp_path / "results.duckdb").read_bytes() == before


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_times_of_an_older_version_are_the_same_moments_in_every_zone(
    version_2: duckdb.DuckDBPyConnection, zone: str
) -> None:
    version_2.execute(f"SET TimeZone = '{zone}'")
    migrate(version_2)
    version_2.execute(f"SET TimeZone = '{zone}'")

    query = "SELECT v.decided_at, r.started_at, r.ended_at, r.reported_times FROM verdicts v, session_reports r"
    ((*times, texts),) = version_2.execute(query).fetchall()

    moments = [(12, 0, 0, 0), (12, 0, 0, 123_456), (12, 30, 0, 0)]
    assert [each.astimezone(UTC) for each in times] == [datetime(2026, 1, 15, *at, tzinfo=UTC) for at in moments]
    assert json.loads(texts) == SESSION_TIMES


def test_a_time_of_a_session_that_is_no_time_is_kept_as_its_text(version_2: duckdb.DuckDBPyConnection) -> None:
    version_2.execute("UPDATE session_reports SET started_at = 'yesterday', ended_at = NULL")

    migrate(version_2)

    rows = version_2.execute("SELECT started_at, ended_at, reported_times::VARCHAR FROM session_reports").fetchall()
    assert rows == [(None, None, '["yesterday",null]')]


def test_a_migrated_warehouse_is_not_migrated_again(version_1: duckdb.DuckDBPyConnection) -> None:
    migrate(version_1)

    assert migrate(version_1) == []


def test_a_newer_warehouse_is_refused(version_1: duckdb.DuckDBPyConnection) -> None:
    version_1.execute("INSERT INTO schema_migrations VALUES (99, 'from the future', now()::TIMESTAMP)")

    with pytest.raises(WarehouseError, match=f"schema version 99, this program knows {SCHEMA_VERSION}: update it"):
        migrate(version_1)


def test_every_column_of_the_table_of_members_has_a_comment() -> None:
    assert all(column.comment for column in BY_NAME["member_scores"].columns)


def test_answers_of_an_older_version_are_counted(tmp_path: Path) -> None:
    """Two sweeps of one case: it failed, and was tried again with `--refresh failed`."""
    connection = duckdb.connect(str(tmp_path / "version_7.duckdb"))
    migrate(connection)
    connection.execute("DELETE FROM schema_migrations WHERE version >= 8")
    for number, (refresh, status) in enumerate([("missing", "failed"), ("failed", "passed")]):
        at = f"2026-01-15 12:0{number}:00"
        for table, row in {
            "sweeps": {"sweep_id": number, "refresh": refresh},
            "sweep_pairs": {"sweep_id": number, "suite_plans": 1, "repetitions": 1, "finished_at": at},
            "target_executions": {"execution_id": number, "key": "k", "completed": True, "started_at": at},
            "verdicts": {"verdict_id": number, "execution_id": number, "status": status, "score": status == "passed",
                         "decision_key": "d", "decided_at": at, "repetition": 1, "case_id": "c"},
        }.items():  # fmt: skip
            names = [name for name, in connection.execute(
                "SELECT column_name FROM duckdb_columns() WHERE table_name = ?", [table]).fetchall()]  # fmt: skip
            pair = {"sweep_id": number, "suite": "s", "runner": "r", "suite_revision": "1", "runner_revision": "1"}
            values = {name: value for name, value in {**pair, **row}.items() if name in names}
            marks = ", ".join("?" * len(values))
            connection.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", list(values.values()))

    migrate(connection)

    counted = "SELECT cases, planned, graded, answers, passed, complete FROM pair_statistics"
    assert connection.execute(counted).fetchall() == [(["c"], [1], [1], [2], [0], True)]
    assert connection.execute("SELECT execution_id, retry_of FROM target_executions ORDER BY 1").fetchall() == [
        ("0", None), ("1", "0")
    ]  # fmt: skip
    named = "SELECT count(*) FROM sweep_pairs JOIN pair_statistics USING (statistics_id)"
    assert connection.execute(named).fetchall() == [(2,)]
