"""Which sweeps `latest` and `previous` are for comparisons and trends."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.warehouse.comparable_sweeps import RECENT, comparable_sweep, comparable_sweeps
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline_tests.builders import NOON

ALL = {"suites": ["a", "b"], "runners": ["x", "y"]}
PAIR = {"suites": ["a"], "runners": ["x"]}


def store(warehouse: DuckDBWarehouse, *sweeps: dict[str, Any]) -> None:
    """Store sweeps, oldest first: what they cover, and `status`."""
    named = [(f"{number:02}", sweep) for number, sweep in enumerate(sweeps)]
    rows = [
        {"sweep_id": id_, "started_at": NOON, "status": sweep.get("status", "finished"),
         "selection": {"cases": [], "tags": [], **sweep}}
        for id_, sweep in named
    ]  # fmt: skip
    pairs = [
        {"sweep_id": id_, "suite": suite, "runner": runner, "finished_at": NOON}
        for id_, sweep in named
        for suite in sweep["suites"]
        for runner in sweep["runners"]
    ]
    warehouse.write("sweeps", rows)
    warehouse.write("sweep_pairs", pairs)


@pytest.mark.parametrize(
    ("sweeps", "expected"),
    [
        pytest.param([ALL, ALL, PAIR], ["01", "00"], id="a-pair-after-the-whole"),
        pytest.param([ALL, PAIR, PAIR, ALL], ["03", "00"], id="pairs-in-between"),
        pytest.param([ALL, {**ALL, "cases": ["c"]}], ["00"], id="one-case"),
        pytest.param([{**ALL, "cases": ["c"]}, {**ALL, "cases": ["c"]}], ["01", "00"], id="the-same-case-twice"),
        pytest.param([ALL, {**ALL, "tags": ["t"]}, ALL], ["02", "00"], id="one-tag"),
        pytest.param([ALL, {**ALL, "status": "interrupted"}, ALL], ["02", "00"], id="interrupted"),
        pytest.param([ALL, {**ALL, "status": "running"}], ["00"], id="under-way"),
        pytest.param([PAIR, PAIR], ["01", "00"], id="only-pairs"),
        pytest.param([{"suites": ["a"], "runners": ["x"]}, {"suites": ["b"], "runners": ["x"]}], ["01"], id="others"),
        pytest.param(
            [ALL, *[PAIR] * RECENT, PAIR], [f"{n:02}" for n in range(RECENT + 1, 0, -1)], id="a-runner-less-for-long"
        ),
        pytest.param([], [], id="none"),
    ],
)  # fmt: skip
def test_sweeps_of_one_scope_are_comparable(
    warehouse: DuckDBWarehouse, sweeps: list[dict[str, Any]], expected: list[str]
) -> None:
    store(warehouse, *sweeps)

    with warehouse.transaction() as connection:
        assert comparable_sweeps(connection) == expected


def test_of_named_suites_and_runners_only_these_are_the_scope(warehouse: DuckDBWarehouse) -> None:
    store(warehouse, ALL, PAIR, {"suites": ["b"], "runners": ["x"]})

    with warehouse.transaction() as connection:
        assert comparable_sweeps(connection, ["a"], ["x"]) == ["01", "00"]
        assert comparable_sweeps(connection, ["b"]) == ["00"]
        assert comparable_sweep(connection, "previous", ["a"], ["x"]) == "00"


@pytest.mark.parametrize(("sweeps", "message"), [([], "no sweep has finished"), ([ALL], "no sweep before 00 finished")])
def test_a_sweep_that_there_is_not_is_an_error(
    warehouse: DuckDBWarehouse, sweeps: list[dict[str, Any]], message: str
) -> None:
    store(warehouse, *sweeps)

    with warehouse.transaction() as connection, pytest.raises(InputError, match=message):
        comparable_sweep(connection, "previous", (), ())
