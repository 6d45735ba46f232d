"""A DuckLake with its catalog in PostgreSQL is a warehouse like a DuckDB file."""

from __future__ import annotations

import importlib.util
import sys
import threading
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from eval_pipeline.errors import InputError, NoResults, WarehouseError
from eval_pipeline.warehouse import ducklake, lake_engine
from eval_pipeline.warehouse.ducklake import DuckLakeWarehouse
from eval_pipeline.warehouse.published import describe
from eval_pipeline.warehouse.store import open_warehouse
from eval_pipeline.warehouse.views import VIEWS
from eval_pipeline_tests.postgres_server import PASSWORD, PostgresServer
from eval_pipeline_tests.team.conftest import machine
from eval_pipeline_tests.team.postgres import lake_url, new_database


def ids(warehouse: DuckLakeWarehouse) -> list[str]:
    rows: list[str] = warehouse.frame("SELECT sweep_id FROM sweeps ORDER BY 1")["sweep_id"].to_list()
    return rows


def test_rows_replace_rows_of_the_same_key(lake: DuckLakeWarehouse) -> None:
    lake.write("sweeps", [{"sweep_id": "a", "status": "running"}, {"sweep_id": "b"}])
    lake.write("sweeps", [{"sweep_id": "a", "status": "finished", "selection": {"suites": ["x"]}}])

    rows = lake.frame("SELECT sweep_id, status, selection->>'$.suites[0]' AS suite FROM sweeps ORDER BY 1").rows()

    assert rows == [("a", "finished", "x"), ("b", None, None)]


def test_a_frame_replaces_what_a_condition_selects(lake: DuckLakeWarehouse) -> None:
    lake.write("sweeps", [{"sweep_id": "a", "name": "x"}, {"sweep_id": "b", "name": "y"}])

    lake.replace("sweeps", lake.frame("SELECT * FROM sweeps WHERE name = 'y'").clear(), {"name": "x"})

    assert ids(lake) == ["b"]


def test_nothing_exists_before_the_first_row(lake: DuckLakeWarehouse) -> None:
    assert not lake.exists()
    assert lake.published_version() is None
    with pytest.raises(NoResults), lake.published():
        pass


def test_tables_views_and_macros_have_their_comments(lake: DuckLakeWarehouse) -> None:
    lake.write("sweeps", [{"sweep_id": "a"}])

    with lake.published() as connection:
        listed = describe(connection)

    assert {name for name, kind, _ in listed if kind == "view"} == {view.name for view in VIEWS}
    assert all(comment for _, _, comment in listed)
    assert {"table", "view", "macro"} == {kind for _, kind, _ in listed}


def test_a_failed_transaction_leaves_nothing(lake: DuckLakeWarehouse) -> None:
    with pytest.raises(ZeroDivisionError), lake.transaction():
        lake.write("sweeps", [{"sweep_id": "a"}])
        _ = 1 / 0

    assert ids(lake) == []


def test_transactions_nest(lake: DuckLakeWarehouse) -> None:
    with lake.transaction():
        lake.write("sweeps", [{"sweep_id": "a"}])
        assert ids(lake) == ["a"]


def test_open_readers_keep_what_they_opened(lake: DuckLakeWarehouse) -> None:
    lake.write("sweeps", [{"sweep_id": "a"}])
    before = lake.published_version()

    with lake.published() as connection:
        lake.write("sweeps", [{"sweep_id": "b"}])
        assert connection.execute("SELECT sweep_id FROM sweeps").fetchall() == [("a",)]
        assert connection.cursor().execute("SELECT count(*) FROM sweeps").fetchone() == (1,)

    assert lake.published_version() != before


def test_readers_of_a_snapshot_share_an_engine(lake: DuckLakeWarehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bool] = []
    make = lake_engine.lake_engine

    def counted(*given: Any, read_only: bool = False, **how: Any) -> Any:
        made.append(read_only)
        return make(*given, read_only=read_only, **how)

    monkeypatch.setattr(ducklake, "lake_engine", counted)
    for sweep, engines in (("a", 1), ("b", 2)):
        lake.write("sweeps", [{"sweep_id": sweep}])
        with lake.published() as one, lake.published() as other:
            assert one.execute("SELECT max(sweep_id) FROM sweeps").fetchone() == (sweep,)
            assert other.execute("SELECT count(*) FROM sweeps").fetchone() == (engines,)
        assert made.count(True) == engines

    with lake.published() as connection, pytest.raises(duckdb.Error):
        connection.execute("SELECT nothing_of_that_name FROM sweeps")
    with lake.published() as connection:
        assert connection.execute("SELECT count(*) FROM sweeps").fetchone() == (2,)


def test_all_connections_are_in_utc_wherever_the_machine_is(lake: DuckLakeWarehouse) -> None:
    zone = "SELECT current_setting('TimeZone')"
    lake.write("sweeps", [{"sweep_id": "a"}])

    with lake.transaction() as writer, lake.published() as reader:
        for connection in (writer, reader, reader.cursor()):
            assert connection.execute(zone).fetchone() == ("UTC",)


def test_a_reader_whose_server_went_away_meanwhile_gets_another_engine(lake: DuckLakeWarehouse) -> None:
    lake.write("sweeps", [{"sweep_id": "a"}])
    with lake.published() as connection:
        assert connection.execute("SELECT sweep_id FROM sweeps").fetchall() == [("a",)]

    lake.catalog.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )

    with lake.published() as connection:
        assert connection.execute("SELECT sweep_id FROM sweeps").fetchall() == [("a",)]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO sweeps (sweep_id) VALUES ('x')",
        "DROP TABLE sweeps",
        "SELECT * FROM read_text('/etc/hostname')",
        "COPY (SELECT 1) TO '/tmp/never-written.csv'",
        "ATTACH '/tmp/never-written.db'",
        "SET enable_external_access = true",
        "CALL ducklake_expire_snapshots('lake', older_than => now())",
        "FROM postgres_execute('__ducklake_metadata_lake', 'DELETE FROM ducklake_snapshot')",
    ],
)
def test_a_reader_can_neither_write_nor_reach_files(lake: DuckLakeWarehouse, statement: str) -> None:
    lake.write("sweeps", [{"sweep_id": "a"}])

    with lake.published() as connection, pytest.raises(duckdb.Error):
        connection.execute(statement)

    assert ids(lake) == ["a"]


def test_machines_that_make_the_first_schema_at_once_do_not_disturb_each_other(url: str, tmp_path: Path) -> None:
    machines = [machine(url, tmp_path / str(number)) for number in range(4)]
    threads = [
        threading.Thread(target=each.write, args=("sweeps", [{"sweep_id": f"s{number}"}]))
        for number, each in enumerate(machines)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert ids(machines[0]) == ["s0", "s1", "s2", "s3"]
    assert machines[0].frame("SELECT count(*) - count(DISTINCT version) FROM schema_migrations").item() == 0
    for each in machines:
        each.close()


def test_compaction_keeps_rows_and_leaves_nothing_of_deleted_ones(lake: DuckLakeWarehouse, tmp_path: Path) -> None:
    rows = [{"sweep_id": f"{number:04}", "selection": {"text": f"text-{number}" * 20}} for number in range(300)]
    lake.write("sweeps", rows)
    lake.replace("sweeps", pl.DataFrame(), {"sweep_id": "0007"})

    lake.compact()

    assert len(ids(lake)) == 299
    files = list((tmp_path / "lake").rglob("sweeps/**/*.parquet"))
    assert len(files) == 1
    assert duckdb.execute(
        "SELECT count(*) FROM read_parquet(?) WHERE sweep_id = '0007'", [str(files[0])]
    ).fetchall() == [(0,)]


def test_another_writer_is_waited_for(url: str, tmp_path: Path) -> None:
    one, two = machine(url, tmp_path / "one"), machine(url, tmp_path / "two")
    two.lock_timeout_s = 0.0
    two.write("sweeps", [{"sweep_id": "first"}])

    with one.transaction(), pytest.raises(WarehouseError, match=r"held by eval-pipeline on .* waited 0 s"):
        threaded(lambda: two.write("sweeps", [{"sweep_id": "never"}]))

    one.close()
    two.close()


def threaded(work: object) -> None:
    """Call in another thread; raise what it raised."""
    raised: list[BaseException] = []

    def call() -> None:
        try:
            work()  # type: ignore[operator]
        except BaseException as error:  # noqa: BLE001 — raised again by the caller
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def test_a_wrong_password_or_database_is_said_without_the_password(server: PostgresServer, tmp_path: Path) -> None:
    for broken in (
        lake_url(server, "no_such_database", tmp_path),
        lake_url(server, "postgres", tmp_path) + " sslmode=nonsense",
    ):
        with pytest.raises(WarehouseError) as caught:
            machine(broken, tmp_path).exists()
        assert PASSWORD not in str(caught.value)
        assert "Traceback" not in str(caught.value)


def test_another_data_path_than_the_lakes_is_an_error(server: PostgresServer, tmp_path: Path) -> None:
    database = new_database(server)
    machine(lake_url(server, database, tmp_path / "lake"), tmp_path / "one").write("sweeps", [{"sweep_id": "a"}])

    with pytest.raises(InputError, match="data_path of the warehouse"):
        open_warehouse(lake_url(server, database, tmp_path / "elsewhere")).frame("SELECT 1 FROM sweeps")


class _Searches(MetaPathFinder):
    """Counts how often a module is searched for by all means."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        self.names.append(fullname)


@pytest.mark.skipif(importlib.util.find_spec("pandas") is not None, reason="pandas is installed")
def test_values_of_parameters_cost_no_search_for_pandas(
    lake: DuckLakeWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = _Searches()
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, searches])

    assert lake.frame("SELECT len($1::VARCHAR[]) AS n", [["a"] * 50]).item() == 50

    assert "pandas" not in searches.names
