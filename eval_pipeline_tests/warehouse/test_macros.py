"""The macros that analysts call in the published results."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from eval_pipeline.statistics.intervals import wilson_at
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline_tests.builders import NOON

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "ask-in-sql.md"
PAIR = {"suite": "s", "runner": "r", "suite_revision": "1", "runner_revision": "1"}


def sweep(warehouse: DuckDBWarehouse, id_: str, hour: int, statuses: dict[str, str], **selection: Any) -> None:
    """Store a sweep that ended at an hour after noon, with the verdicts that it decided."""
    at = NOON + timedelta(hours=hour)
    warehouse.write("sweeps", [{"sweep_id": id_, "started_at": at, "selection": selection}])
    warehouse.write("sweep_pairs", [{**PAIR, "sweep_id": id_, "finished_at": at, "repetitions": 1}])
    warehouse.write(
        "verdicts",
        [
            {**PAIR, "verdict_id": f"{id_}-{case}", "case_id": case, "repetition": 1, "status": status,
             "decided_at": at, "reason": f"{case} {status}", "tags": [case.upper()], "sweep_id": id_}
            for case, status in statuses.items()
        ],
    )  # fmt: skip


@pytest.fixture
def two_sweeps(warehouse: DuckDBWarehouse) -> DuckDBWarehouse:
    """`c2` broke between two sweeps, `c3` was mended, `c1` was reused."""
    sweep(warehouse, "20260115-first", 0, {"c1": "passed", "c2": "passed", "c3": "failed"})
    sweep(warehouse, "20260115-second", 1, {"c2": "failed", "c3": "passed"})
    return warehouse


def answers(warehouse: DuckDBWarehouse, query: str) -> list[tuple[Any, ...]]:
    warehouse.publish()
    with warehouse.published() as connection:
        return connection.execute(query).fetchall()


@pytest.mark.parametrize(
    ("id_", "expected"),
    [
        ("first", [("c1", "passed"), ("c2", "passed"), ("c3", "failed")]),
        ("second", [("c1", "passed"), ("c2", "failed"), ("c3", "passed")]),
    ],
)
def test_the_verdicts_of_a_sweep_are_those_at_its_end(
    two_sweeps: DuckDBWarehouse, id_: str, expected: list[tuple[str, str]]
) -> None:
    query = f"SELECT case_id, status FROM verdicts_of('20260115-{id_}') ORDER BY case_id"

    assert answers(two_sweeps, query) == expected
    assert answers(two_sweeps, "FROM verdicts_of(NULL)") == []


def test_a_sweep_that_does_not_exist_is_an_error(two_sweeps: DuckDBWarehouse) -> None:
    with pytest.raises(duckdb.InvalidInputException, match="no sweep 20260115-none; the table sweeps has their ids"):
        answers(two_sweeps, "FROM changes_between('20260115-first', '20260115-none')")


@pytest.mark.parametrize("selection", [{"cases": ["c2"]}, {"tags": ["C2", "C9"]}])
def test_the_verdicts_of_a_sweep_are_those_that_it_selected(
    two_sweeps: DuckDBWarehouse, selection: dict[str, list[str]]
) -> None:
    sweep(two_sweeps, "part", 2, {"c2": "passed"}, **selection)

    assert answers(two_sweeps, "SELECT case_id, status FROM verdicts_of('part')") == [("c2", "passed")]


def test_the_regressions_of_the_page_are_one_select(two_sweeps: DuckDBWarehouse) -> None:
    (query,) = re.findall(
        r"^-- what passed in one sweep and fails in a later one\n(.*?;)$", PAGE.read_text(), re.M | re.S
    )

    rows = answers(two_sweeps, query.replace("SWEEP-1", "20260115-first").replace("SWEEP-2", "20260115-second"))

    assert rows == [("s", "r", "c2", 1, "failed", "c2 failed")]


def test_everything_that_changed_between_two_sweeps_has_a_name(warehouse: DuckDBWarehouse) -> None:
    before = {"a": "passed", "b": "failed", "c": "passed", "d": "error", "e": "expected-failed", "f": "passed"}
    after = {"a": "failed", "b": "passed", "c": "error", "d": "failed", "e": "unexpected-passed", "g": "passed"}
    sweep(warehouse, "1", 0, before)
    sweep(warehouse, "2", 1, after)

    changes = answers(warehouse, "SELECT case_id, change FROM changes_between('1', '2') ORDER BY case_id")

    assert changes == [
        ("a", "regression"), ("b", "fixed"), ("c", "error"), ("d", "graded"), ("e", "regression"), ("f", "same"),
        ("g", "new"),
    ]  # fmt: skip


@pytest.mark.parametrize(("minutes", "ranks"), [(-1, []), (0, [1]), (59, [1]), (61, [2])])
def test_a_board_is_shown_as_it_was(warehouse: DuckDBWarehouse, minutes: int, ranks: list[int]) -> None:
    warehouse.write(
        "leaderboards",
        [
            {"board_id": str(hour), "scope": "suite", "suite": "s", "runner": "r", "rank": hour + 1,
             "computed_at": NOON + timedelta(hours=hour)}
            for hour in range(2)
        ],
    )  # fmt: skip
    moment = (NOON + timedelta(minutes=minutes)).isoformat()

    assert answers(warehouse, f"SELECT rank FROM board_as_of('{moment}')") == [(rank,) for rank in ranks]


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (10, 10), (0, 0)])
def test_an_interval_in_sql_is_the_one_of_boards(warehouse: DuckDBWarehouse, k: int, n: int) -> None:
    warehouse.write("sweeps", [{"sweep_id": "1"}])

    ((low, high),) = answers(warehouse, f"SELECT w.low, w.high FROM (SELECT wilson({k}, {n}) AS w)")

    expected = wilson_at(k / n, n) if n else (None, None)
    assert (low, high) == (pytest.approx(expected, abs=1e-12) if n else expected)


def test_a_case_that_the_better_runners_pass_discriminates(warehouse: DuckDBWarehouse) -> None:
    """`x` and `y` pass `a` and `b`, `z` passes `c` only."""
    for runner, passed in {"x": "ab", "y": "ab", "z": "c"}.items():
        statuses = {case: "passed" if case in passed else "failed" for case in "abc"}
        pair = {**PAIR, "runner": runner}
        warehouse.write("sweep_pairs", [{**pair, "sweep_id": "1", "finished_at": NOON, "repetitions": 1}])
        warehouse.write(
            "verdicts",
            [
                {**pair, "verdict_id": runner + case, "case_id": case, "repetition": 1, "status": status,
                 "decided_at": NOON, "sweep_id": "1"}
                for case, status in statuses.items()
            ],
        )  # fmt: skip
    warehouse.write("sweeps", [{"sweep_id": "1", "started_at": NOON}])

    found = dict(answers(warehouse, "SELECT case_id, discrimination FROM discriminating_cases"))

    assert found == {"a": None, "b": None, "c": pytest.approx(-1.0)}
