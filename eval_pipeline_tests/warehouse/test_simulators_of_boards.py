"""Who played the users of the answers that a board counts, on rows made by hand."""

from __future__ import annotations

import duckdb
import polars as pl

from eval_pipeline.warehouse.simulators import with_simulators

_TABLES = """
CREATE TABLE leaderboard (
    suite VARCHAR, runner VARCHAR, suite_revision VARCHAR, runner_revision VARCHAR, sweep_id VARCHAR);
CREATE TABLE sweeps (sweep_id VARCHAR, finished_at TIMESTAMPTZ);
CREATE TABLE verdicts (
    suite VARCHAR, runner VARCHAR, suite_revision VARCHAR, runner_revision VARCHAR, case_id VARCHAR, repetition INTEGER,
    execution_id VARCHAR, decided_at TIMESTAMPTZ, verdict_id VARCHAR);
CREATE TABLE session_reports (execution_id VARCHAR, turns JSON);
INSERT INTO leaderboard VALUES ('s', 'r', '1', '1', 'whole');
INSERT INTO sweeps VALUES ('whole', '2026-01-02'), ('later', '2026-01-03');
INSERT INTO verdicts SELECT 's', 'r', '1', '1', c, 1, c || day, ('2026-01-0' || day)::TIMESTAMPTZ, c || day
    FROM (VALUES ('a', 1), ('a', 2), ('b', 2), ('b', 3)) t(c, day);
INSERT INTO session_reports
    SELECT execution_id, json_array(json_object('speech', json_object('simulator', 'user' || right(execution_id, 1))))
    FROM verdicts;
"""


def test_simulators_are_those_of_the_standing_and_not_of_a_later_part_of_its_plans() -> None:
    standings = pl.DataFrame({"suite": ["s"], "runner": ["r"]})
    with duckdb.connect() as connection:
        connection.execute(_TABLES)
        played = with_simulators(standings, lambda query: _frame(connection, query))

    assert played["simulators"].to_list() == ["user2"]


def _frame(connection: duckdb.DuckDBPyConnection, query: str) -> pl.DataFrame:
    cursor = connection.execute(query)
    names = [column[0] for column in cursor.description or ()]
    return pl.DataFrame(cursor.fetchall(), schema=names, orient="row")
