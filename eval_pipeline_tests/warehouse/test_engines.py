"""An engine that is kept between transactions leaves nothing of one in the next, and no file open."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from eval_pipeline.warehouse import duckdb_file
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.engines import THREADS, opened_file
from eval_pipeline_tests.forks import run_python

SETTINGS = "SELECT current_setting('memory_limit'), current_setting('threads'), current_setting('TimeZone')"
FORKS = """
import atexit, os, sys
from eval_pipeline.cli import leaving
from pathlib import Path
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse

warehouse = DuckDBWarehouse(Path(sys.argv[1]))
warehouse.write("sweeps", [{"sweep_id": "of the parent"}])
child = os.fork()
warehouse.write("sweeps", [{"sweep_id": "of the child" if child == 0 else "of the parent, later"}])
if child == 0:
    atexit.unregister(leaving._leave)  # the interpreter ends as usual: it destroys the engines
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_changed_setting_and_a_temporary_table_end_with_their_transaction(warehouse: DuckDBWarehouse) -> None:
    with warehouse.transaction() as connection:
        before = connection.execute(SETTINGS).fetchall()
        connection.execute("SET memory_limit = '500MB'; SET threads = 3; SET TimeZone = 'Asia/Tokyo'")
        connection.execute("CREATE TEMP TABLE left_over AS SELECT 1")

    with warehouse.transaction() as connection:
        assert connection.execute(SETTINGS).fetchall() == before
        with pytest.raises(duckdb.CatalogException):
            connection.execute("FROM left_over")
    assert before[0][1:] == (1, "UTC")


def test_a_large_file_is_read_by_several_threads(warehouse: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_file, "SMALL_BYTES", 0)
    warehouse.write("sweeps", [{"sweep_id": "one"}])

    with warehouse.transaction() as connection:
        assert connection.execute(SETTINGS).fetchall()[0][1:] == (THREADS, "UTC")


def test_a_small_file_is_stored_as_it_is_and_a_large_one_compressed(
    warehouse: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.write("sweeps", [{"sweep_id": f"{n}", "status": "finished"} for n in range(3000)])
    small = compressed_by(warehouse)
    warehouse.compact()
    assert "Uncompressed" not in compressed_by(warehouse)
    monkeypatch.setattr(duckdb_file, "SMALL_BYTES", 0)
    warehouse.write("sweeps", [{"sweep_id": f"{n}", "status": "finished"} for n in range(3000, 6000)])

    assert small == {"Uncompressed"}
    assert "Uncompressed" not in compressed_by(warehouse)


def test_what_a_large_log_holds_is_compressed_when_little_is_stored_after_it(
    warehouse: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    with warehouse.transaction():
        pass
    monkeypatch.setattr(duckdb_file, "SMALL_BYTES", warehouse.path.stat().st_size + 50_000)

    with warehouse.kept_open():
        warehouse.write("sweeps", [{"sweep_id": f"{n}", "status": "finished"} for n in range(3000)])
        warehouse.write("suites", [{"suite": "few rows"}])

    assert "Uncompressed" not in compressed_by(warehouse)


def compressed_by(warehouse: DuckDBWarehouse) -> set[str]:
    """How the ids and states of sweeps are compressed in the file."""
    with warehouse.transaction() as connection:
        found = connection.execute(
            """SELECT DISTINCT compression FROM pragma_storage_info('sweeps')
               WHERE column_name IN ('sweep_id', 'status') AND segment_type = 'VARCHAR'"""
        ).fetchall()
    return {method for (method,) in found}


def test_a_transaction_in_another_warehouse_sees_its_tables_only(warehouse: DuckDBWarehouse, tmp_path: Path) -> None:
    warehouse.write("sweeps", [{"sweep_id": "here"}])

    with warehouse.transaction(), opened_file(tmp_path / "other.duckdb", warehouse._config) as other:
        assert other.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]


def test_after_a_failed_transaction_the_next_one_works(warehouse: DuckDBWarehouse) -> None:
    with pytest.raises(duckdb.CatalogException), warehouse.transaction() as connection:
        connection.execute("INSERT INTO sweeps (sweep_id) VALUES ('half')")
        connection.execute("FROM nowhere")

    warehouse.write("sweeps", [{"sweep_id": "whole"}])

    assert warehouse.frame("SELECT sweep_id FROM sweeps").rows() == [("whole",)]


def test_what_a_transaction_wrote_is_in_the_file_and_nobody_has_it_open(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", [{"sweep_id": "1"}])

    assert not warehouse.path.with_name(f"{warehouse.path.name}.wal").exists()
    assert str(warehouse.path) not in [str(link.resolve()) for link in Path("/proc/self/fd").iterdir()]


def test_a_forked_process_has_an_engine_of_its_own_and_ends(warehouse: DuckDBWarehouse) -> None:
    ended = run_python(FORKS, str(warehouse.folder))

    assert (ended.stdout, ended.stderr, ended.returncode) == ("7\n", "", 0)
    assert warehouse.frame("SELECT sweep_id FROM sweeps ORDER BY 1").rows() == [
        ("of the child",), ("of the parent",), ("of the parent, later",),
    ]  # fmt: skip


TEMPORARY = "SELECT current_setting('temp_directory')"
SORTED = "SELECT range, hash(range)::VARCHAR AS text FROM range(1_000_000) ORDER BY text"


def test_what_does_not_fit_into_memory_is_written_beside_the_file(
    warehouse: DuckDBWarehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    current, other = tmp_path / "current", tmp_path / "other.duckdb"
    current.mkdir()
    monkeypatch.chdir(current)
    warehouse.memory_mb = 48
    with warehouse.transaction() as connection:
        connection.execute(SORTED)
        assert list(warehouse.path.with_suffix(".duckdb.tmp").iterdir()) != []

    with opened_file(other, warehouse._config) as connection:
        assert connection.execute(TEMPORARY).fetchall() == [(f"{other}.tmp",)]
    assert list(current.iterdir()) == []


def test_a_reader_writes_temporary_files_beside_the_results_under_a_name_of_its_own(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", [{"sweep_id": "1"}])
    warehouse.publish()

    with warehouse.published() as first, warehouse.published() as second:
        folders = [Path(each.execute(TEMPORARY).fetchall()[0][0]) for each in (first, second)]

    assert {folder.parent for folder in folders} == {warehouse.folder}
    assert len({folder.name for folder in folders}) == 2
