"""A copy of a warehouse has the same rows, goes on where it broke off, and replaces nobody's results."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline.errors import InputError, WarehouseError
from eval_pipeline.warehouse import copying
from eval_pipeline.warehouse.copying import copy_warehouse
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse

ROWS = [{"sweep_id": name, "status": "finished", "selection": {"suites": [name, "ä"]}} for name in "abc"]


@pytest.fixture
def other(tmp_path: Path) -> DuckDBWarehouse:
    return DuckDBWarehouse(tmp_path / "other")


def test_a_copy_has_the_same_rows(warehouse: DuckDBWarehouse, other: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", ROWS)
    warehouse.write("verdicts", [{"verdict_id": "v", "score": 0.1, "score_keys": ["x", None]}])

    copied = {table.name: table for table in copy_warehouse(warehouse, other)}

    assert (copied["sweeps"].rows, copied["sweeps"].is_new) == (3, True)
    assert (copied["cases"].rows, copied["cases"].is_new) == (0, False)
    for table in ("sweeps", "verdicts"):
        query = f"SELECT * FROM {table} ORDER BY 1"
        assert other.frame(query).equals(warehouse.frame(query))
    with other.published() as connection:
        assert connection.execute("SELECT count(*) FROM sweeps").fetchone() == (3,)


def test_a_copy_that_broke_off_goes_on_with_what_differs(
    warehouse: DuckDBWarehouse, other: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.write("sweeps", ROWS)
    warehouse.write("suites", [{"suite": "s", "suite_revision": "1"}])
    for table in copy_warehouse(warehouse, other):
        if table.name == "suites":
            break

    again = {table.name: table.is_new for table in copy_warehouse(warehouse, other)}

    assert (again["suites"], again["sweeps"]) == (False, True)


def test_other_values_of_the_same_rows_are_noticed(warehouse: DuckDBWarehouse, other: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", ROWS)
    other.write("sweeps", [*ROWS[1:], ROWS[0] | {"status": "interrupted"}])

    assert [table.name for table in copy_warehouse(warehouse, other) if table.is_new] == ["sweeps"]


def test_rows_that_differ_after_the_copy_are_an_error(
    warehouse: DuckDBWarehouse, other: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.write("sweeps", ROWS)
    monkeypatch.setattr(copying, "_fill", lambda connection, table, columns, path: None)

    with pytest.raises(WarehouseError, match="table sweeps: 0 rows after the copy, 3 before it"):
        list(copy_warehouse(warehouse, other))


def test_results_of_the_target_are_not_replaced(warehouse: DuckDBWarehouse, other: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", ROWS)
    other.write("sweeps", [{"sweep_id": "mine", "status": "finished"}])

    with pytest.raises(InputError, match="has 1 sweeps that the other has not, such as mine; nothing was copied"):
        list(copy_warehouse(warehouse, other))

    assert other.frame("SELECT sweep_id FROM sweeps")["sweep_id"].to_list() == ["mine"]


def test_an_empty_or_busy_warehouse_is_not_copied(warehouse: DuckDBWarehouse, other: DuckDBWarehouse) -> None:
    with pytest.raises(InputError, match="has no results"):
        list(copy_warehouse(warehouse, other))

    warehouse.write("sweeps", [{"sweep_id": "a", "status": "running"}])
    with pytest.raises(InputError, match="a sweep is under way"):
        list(copy_warehouse(warehouse, other))
