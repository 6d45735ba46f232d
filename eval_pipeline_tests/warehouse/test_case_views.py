"""The views of results by what their cases are, on rows made by hand; what is expected was computed by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pytest

from eval_pipeline.warehouse.case_views import CASE_VIEWS

_TABLES = """
CREATE TABLE current_verdicts (
    suite VARCHAR, suite_revision VARCHAR, runner VARCHAR, case_id VARCHAR, execution_id VARCHAR, tags VARCHAR[],
    status VARCHAR, score DOUBLE);
CREATE VIEW first_verdicts AS FROM current_verdicts;
CREATE TABLE verdicts (
    suite VARCHAR, suite_revision VARCHAR, runner VARCHAR, runner_revision VARCHAR, case_id VARCHAR,
    repetition INTEGER, execution_id VARCHAR, status VARCHAR, score DOUBLE, decided_at INTEGER, verdict_id INTEGER);
CREATE TABLE cases (suite VARCHAR, suite_revision VARCHAR, case_id VARCHAR, difficulty VARCHAR, persona VARCHAR);
CREATE TABLE current_pairs (suite VARCHAR, runner VARCHAR, statistics_id INTEGER);
CREATE TABLE pair_statistics (statistics_id INTEGER, cases VARCHAR[], weights DOUBLE[]);
CREATE TABLE session_reports (execution_id VARCHAR, turns JSON);
CREATE TABLE current_scores (
    suite VARCHAR, runner VARCHAR, case_id VARCHAR, execution_id VARCHAR, spec_key VARCHAR);
CREATE TABLE member_scores (
    execution_id VARCHAR, spec_key VARCHAR, member VARCHAR, type VARCHAR, value DOUBLE, details JSON);
CREATE TABLE conversation_turns (
    suite VARCHAR, runner VARCHAR, case_id VARCHAR, execution_id VARCHAR, speaker VARCHAR, duration_ms DOUBLE);
"""
_QUERIES = {name: query for name, _, query in CASE_VIEWS}


class Rows:
    """Tables with the columns that the views read."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        connection.execute(_TABLES)

    def add(self, table: str, *rows: Sequence[Any]) -> None:
        self._connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)

    def read(self, view: str, *columns: str) -> list[tuple[Any, ...]]:
        """The rows of a view, numbers to six places."""
        rows = self._connection.execute(f"SELECT {', '.join(columns)} FROM ({_QUERIES[view]})").fetchall()
        return [tuple(round(value, 6) if isinstance(value, float) else value for value in row) for row in rows]


@pytest.fixture
def rows() -> Iterator[Rows]:
    with duckdb.connect() as connection:
        yield Rows(connection)


def _add_results(rows: Rows) -> None:
    """Case a is hard, passes once in two; b passes; c ends in an error, and nothing is known of it."""
    rows.add(
        "current_verdicts",
        ("s", "1", "r", "a", "a1", ["x", "y"], "passed", 0.8),
        ("s", "1", "r", "a", "a2", ["x", "y"], "failed", 0.4),
        ("s", "1", "r", "b", "b1", ["x"], "passed", 1.0),
        ("s", "1", "r", "c", "c1", ["y"], "error", None),
    )
    rows.add("cases", ("s", "1", "a", "hard", "commuter"), ("s", "1", "b", "normal", "commuter"))


@pytest.mark.parametrize(
    ("view", "column", "expected"),
    [
        ("results_by_tag", "tag", [("x", 2, 2, 0.75, 0.8), ("y", 2, 1, 0.5, 0.6)]),
        ("results_by_difficulty", "difficulty", [("hard", 1, 1, 0.5, 0.6), ("normal", 2, 1, 1.0, 1.0)]),
        ("results_by_persona", "persona", [("commuter", 2, 2, 0.75, 0.8)]),
    ],
)
def test_each_case_counts_once_in_results_by_a_property(
    rows: Rows, view: str, column: str, expected: list[tuple[Any, ...]]
) -> None:
    _add_results(rows)

    assert rows.read(view, column, "cases", "graded_cases", "pass_rate", "mean_score") == expected


def test_cases_count_by_the_weights_of_their_suite(rows: Rows) -> None:
    _add_results(rows)
    rows.add("current_pairs", ("s", "r", 7))
    rows.add("pair_statistics", (7, ["a", "b", "c"], [3.0, 1.0, 5.0]), (6, ["a", "b"], [1.0, 9.0]))
    for case, execution, points in (("a", "a1", 1), ("b", "b1", 5)):
        rows.add("current_scores", ("s", "r", case, execution, "k"))
        rows.add("member_scores", (execution, "k", "tone", "metric", points / 5, f'{{"points": {points}}}'))

    assert rows.read("results_by_tag", "tag", "pass_rate", "mean_score") == [("x", 0.625, 0.7), ("y", 0.5, 0.6)]
    assert rows.read("results_by_persona", "pass_rate", "mean_score") == [(0.625, 0.7)]
    assert rows.read("results_by_metric", "mean", "lowest") == [(2.0, 1.0)]


def test_results_of_two_simulators_are_never_in_one_mean(rows: Rows) -> None:
    _add_results(rows)
    rows.add("session_reports", ("a1", '[{"speech": {"simulator": "anna"}}]'), ("a2", "[]"))

    found = rows.read("results_by_difficulty", "simulator", "difficulty", "pass_rate")
    assert sorted(found, key=str) == [("anna", "hard", 1.0), (None, "hard", 0.0), (None, "normal", 1.0)]


def test_a_metric_has_the_mean_over_cases_of_points_or_of_the_share_of_yes(rows: Rows) -> None:
    for case, execution, points, polite in (("a", "a1", 4, 1), ("a", "a2", 2, 0), ("b", "b1", 5, 1)):
        rows.add("current_scores", ("s", "r", case, execution, "k"))
        rows.add(
            "member_scores",
            (execution, "k", "tone", "metric", points / 5, f'{{"points": {points}, "binary": false}}'),
            (execution, "k", "polite", "metric", polite, '{"binary": true}'),
            (execution, "k", "found", "outcome", 1, "{}"),
        )

    found = rows.read("results_by_metric", "metric", "is_binary", "cases", "mean", "lowest")
    assert found == [("polite", True, 2, 0.75, 0.5), ("tone", False, 2, 4.0, 3.0)]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([100], (1, 100, 100, 100, 100)),
        ([100, 600], (2, 350, 350, 600, 600)),
        ([100, 600, 200], (3, 300, 200, 600, 600)),
        ([10 * number for number in range(1, 21)], (20, 105, 105, 199.5, 200)),
    ],
    ids=["one", "two", "three", "twenty"],
)
def test_quantiles_of_few_turns_are_times_that_were_measured(
    rows: Rows, times: list[int], expected: tuple[float, ...]
) -> None:
    rows.add("conversation_turns", *(("s", "r", "a", "a1", "agent", time) for time in times))
    rows.add("conversation_turns", ("s", "r", "a", "a1", "user", 9_000), ("s", "r", "a", "a1", "agent", None))

    columns = ("turns", "latency_mean_ms", "latency_p50_ms", "latency_p95_ms", "latency_max_ms")
    assert rows.read("conversation_latency", *columns) == [expected]


def test_agreement_of_simulators_is_of_the_newest_graded_verdicts_of_plans_that_both_played(rows: Rows) -> None:
    played: dict[str, list[tuple[str, float | None]]] = {
        "anna": [("passed", 1.0), ("passed", 0.5), ("failed", 0.0), ("passed", 1.0)],
        "bert": [("passed", 0.8), ("failed", 0.3), ("failed", 0.2), ("error", None)],
    }
    for simulator, verdicts in played.items():
        for number, (status, score) in enumerate(verdicts):
            key = ("s", "1", "r", "1", f"c{number}", 1, f"{simulator}{number}")
            rows.add("verdicts", (*key, "failed", 0.0, 1, 1), (*key, status, score, 2, 2))
            rows.add("session_reports", (f"{simulator}{number}", f'[{{"speech": {{"simulator": "{simulator}"}}}}]'))
    rows.add("verdicts", ("s", "1", "r", "1", "only", 1, "anna9", "passed", 1.0, 1, 1))

    columns = ("plans", "agreement", "cohens_kappa", "pass_rate_a", "pass_rate_b", "mean_difference")
    found = rows.read("simulator_agreement", "simulator_a", "simulator_b", *columns)
    # The error of the fourth plan leaves the graded verdict before it: a failure that disagrees with anna's pass.
    assert found == [("anna", "bert", 4, 0.5, 0.2, 0.75, 0.25, 0.3)]
