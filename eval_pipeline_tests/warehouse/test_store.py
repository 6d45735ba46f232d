"""The warehouse: what is written is read back, once, whoever else writes or reads at the same time."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import orjson
import polars as pl
import pytest

from eval_pipeline.errors import WarehouseError
from eval_pipeline.warehouse.case_sums import TOTALS_TYPE
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.long_lines import cut_torn_line
from eval_pipeline.warehouse.migrations import MIGRATIONS, Migration
from eval_pipeline.warehouse.published import answer, open_results, rows_frame
from eval_pipeline.warehouse.schema import SCHEMA_VERSION, table_statements
from eval_pipeline.warehouse.tables import BY_NAME, TABLES
from eval_pipeline_tests.forks import start_python

ODD_TEXTS = [
    "",
    " a ",
    "NULL",
    "null",
    "0",
    "a\nb\r\n\t",
    "\x00\x1b[0m",
    "'; DROP TABLE sweeps; --",
    "\"\\'",
    "é 😀 \u2028 \ufeff",
]
MOMENT = datetime(2026, 1, 15, 12, 30, 59, 123_456, tzinfo=UTC)
VALUES: dict[str, Any] = {
    "VARCHAR": "".join(ODD_TEXTS),
    "VARCHAR[]": ODD_TEXTS,
    "INTEGER[]": [3, 0],
    "DOUBLE[]": [0.5, 1e22],
    "JSON": {"deep": [{text: [text, 1, 0.1, None, True]} for text in ODD_TEXTS]},
    "INTEGER": 2**31 - 1,
    "BIGINT": 2**63 - 1,
    "DOUBLE": 0.1 + 0.2,
    "BOOLEAN": False,
    "TIMESTAMPTZ": MOMENT,
    "BLOB": "bits",
    TOTALS_TYPE: dict.fromkeys(re.findall(r"(\w+) (?:BIGINT|DOUBLE)", TOTALS_TYPE), 2),
}


def sweeps(warehouse: DuckDBWarehouse) -> list[str]:
    return warehouse.frame("SELECT sweep_id FROM sweeps ORDER BY sweep_id")["sweep_id"].to_list()


def journal(path: Path, *lines: object, torn: bytes = b"") -> Path:
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines) + torn)
    return path


# Writing and reading.


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_gives_back_what_was_written(warehouse: DuckDBWarehouse, table: Any) -> None:
    row = {column.name: VALUES[column.type] for column in table.columns}

    warehouse.write(table.name, [row])

    with warehouse.transaction() as connection:
        rows = connection.execute(f'SELECT * FROM "{table.name}" ORDER BY ALL').fetchall()
    actual = dict(zip(table.column_names, rows[-1], strict=True))
    json = {column.name for column in table.columns if column.type == "JSON"}
    as_text = {name: value.decode() if isinstance(value, bytes) else value for name, value in actual.items()}
    assert {name: orjson.loads(value) if name in json else value for name, value in as_text.items()} == row


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_what_is_not_known_is_null_and_not_zero(warehouse: DuckDBWarehouse, table: Any) -> None:
    key = {name: VALUES[column.type] for column in table.columns if (name := column.name) in table.key}

    warehouse.write(table.name, [key])

    others = [name for name in table.column_names if name not in table.key]
    key_column, key_value = next(iter(key.items()))
    query = f"SELECT {', '.join(others)} FROM {table.name} WHERE {key_column} = ?"
    with warehouse.transaction() as connection:
        assert connection.execute(query, [key_value]).fetchall() == [(None,) * len(others)]


@pytest.mark.parametrize("value", [5e-324, 1.7976931348623157e308, -0.0, 1e22, 1 / 3])
def test_a_number_keeps_its_last_bit(warehouse: DuckDBWarehouse, value: float) -> None:
    warehouse.write("evaluator_scores", [{"execution_id": "e", "spec_key": "k", "value": value}])

    assert warehouse.frame("SELECT value FROM evaluator_scores")["value"].to_list() == [value]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_unknown(warehouse: DuckDBWarehouse, value: float) -> None:
    warehouse.write("evaluator_scores", [{"execution_id": "e", "spec_key": "k", "value": value}])

    assert warehouse.frame("SELECT value FROM evaluator_scores")["value"].to_list() == [None]


def test_half_a_character_becomes_a_replacement_and_breaks_nothing(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", [{"sweep_id": "half \ud83d"}])

    (actual,) = sweeps(warehouse)
    assert actual.startswith("half \ufffd")


def test_a_row_of_a_known_key_takes_the_place_of_the_old_one(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", [{"sweep_id": "a", "status": "running"}, {"sweep_id": "b", "status": "running"}])

    warehouse.write("sweeps", [{"sweep_id": "a", "status": "finished"}])

    rows = warehouse.frame("SELECT sweep_id, status FROM sweeps ORDER BY 1").rows()
    assert rows == [("a", "finished"), ("b", "running")]


def test_a_key_with_an_unknown_part_is_a_key_too(warehouse: DuckDBWarehouse) -> None:
    row = {"suite": "s", "suite_revision": None, "path": "old"}
    warehouse.write("suites", [row])

    warehouse.write("suites", [{**row, "path": "new"}])

    assert warehouse.frame("SELECT path FROM suites")["path"].to_list() == ["new"]


@pytest.mark.parametrize("name", ["plain", "with space", "it's", "häuser", "a*b", "a{1}", "a,b"])
def test_a_data_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    warehouse = DuckDBWarehouse(tmp_path / name)

    warehouse.write("sweeps", [{"sweep_id": "a"}])

    assert sweeps(warehouse) == ["a"]


# Folding journals.


def test_folding_twice_changes_nothing(warehouse: DuckDBWarehouse, tmp_path: Path) -> None:
    path = journal(tmp_path / "sweeps.jsonl", {"sweep_id": "a", "status": "x"}, {"sweep_id": "b"})
    warehouse.ingest({"sweeps": path})
    before = warehouse.frame("SELECT * FROM sweeps ORDER BY ALL")

    warehouse.ingest({"sweeps": path})

    assert warehouse.frame("SELECT * FROM sweeps ORDER BY ALL").equals(before)


@pytest.mark.parametrize(
    ("torn", "kept"),
    [
        pytest.param(b'{"sweep_id": "c", "sta', ["a", "b"], id="half-a-line"),
        pytest.param(b'{"sweep_id": "c"}', ["a", "b"], id="a-line-without-its-end"),
        pytest.param('{"sweep_id": "é'.encode()[:-1], ["a", "b"], id="half-a-character"),
        pytest.param(b'{"sweep_id": "' + b"x" * 200_000, ["a", "b"], id="a-long-half-line"),
        pytest.param(b"\x00" * 4_096, ["a", "b"], id="zeros-that-a-file-system-left"),
        pytest.param(b"\n", ["a", "b"], id="an-empty-line"),
    ],
)
def test_a_last_line_left_half_written_is_passed_over(
    warehouse: DuckDBWarehouse, tmp_path: Path, torn: bytes, kept: list[str]
) -> None:
    path = journal(tmp_path / "sweeps.jsonl", {"sweep_id": "a"}, {"sweep_id": "b"}, torn=torn)

    warehouse.ingest({"sweeps": path})

    assert sweeps(warehouse) == kept


@pytest.mark.parametrize("content", [b"", b'{"sweep_id": "a"', b"x" * 70_000])
def test_a_file_without_a_whole_line_has_no_rows(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "sweeps.jsonl"
    path.write_bytes(content)

    cut_torn_line(path)

    assert path.read_bytes() == b""


def test_nothing_to_fold_makes_no_warehouse(tmp_path: Path) -> None:
    warehouse = DuckDBWarehouse(tmp_path / "data")

    warehouse.ingest({"sweeps": tmp_path / "missing.jsonl"})

    assert not warehouse.path.exists()


def test_journals_of_several_tables_come_in_together_or_not_at_all(warehouse: DuckDBWarehouse, tmp_path: Path) -> None:
    good = journal(tmp_path / "sweeps.jsonl", {"sweep_id": "a"})
    bad = journal(tmp_path / "runners.jsonl", {"runner": "r"}, torn=b"not json\n")

    with pytest.raises(duckdb.Error):
        warehouse.ingest({"sweeps": good, "runners": bad})

    assert sweeps(warehouse) == []


def test_journals_of_several_pairs_come_in_together(warehouse: DuckDBWarehouse, tmp_path: Path) -> None:
    paths = [journal(tmp_path / f"{id_}[1].jsonl", {"sweep_id": id_}, torn=b'{"sw') for id_ in ("a", "b", "c")]

    warehouse.ingest(*({"sweeps": path} for path in paths))

    assert sweeps(warehouse) == ["a", "b", "c"]


# Transactions, frames.


def test_a_transaction_inside_another_is_part_of_it(warehouse: DuckDBWarehouse) -> None:
    with pytest.raises(RuntimeError, match="half way"), warehouse.transaction():
        warehouse.write("sweeps", [{"sweep_id": "a"}])
        assert sweeps(warehouse) == ["a"]
        raise RuntimeError("half way")

    assert sweeps(warehouse) == []


def test_threads_of_one_process_take_turns(warehouse: DuckDBWarehouse) -> None:
    def write(number: int) -> None:
        warehouse.write("sweeps", [{"sweep_id": f"{number:02}"}])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(16)))

    assert sweeps(warehouse) == [f"{number:02}" for number in range(16)]


def test_a_transaction_that_breaks_leaves_nothing_behind(warehouse: DuckDBWarehouse) -> None:
    with pytest.raises(RuntimeError, match="half way"), warehouse.transaction() as connection:
        connection.execute("INSERT INTO sweeps (sweep_id) VALUES ('a')")
        raise RuntimeError("half way")

    assert sweeps(warehouse) == []


def test_a_frame_takes_the_place_of_the_rows_it_is_about(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("failure_classes", [{"suite": suite, "failure_class": "old"} for suite in ("s", "t")])
    frame = pl.DataFrame({
        "suite": ["s"], "failure_class": ["new"], "examples": [["c1", "c2"]], "share": [0.5],
        "computed_at": [MOMENT.replace(tzinfo=None)],
    })  # fmt: skip

    warehouse.replace("failure_classes", frame, {"suite": "s"})

    with warehouse.transaction() as connection:
        rows = connection.execute(
            "SELECT suite, failure_class, examples, share, computed_at FROM failure_classes ORDER BY suite"
        ).fetchall()
    assert rows == [
        ("s", "new", ["c1", "c2"], 0.5, MOMENT),
        ("t", "old", None, None, None),
    ]


def test_an_empty_frame_only_removes(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", [{"sweep_id": "a"}, {"sweep_id": "b"}])

    warehouse.replace("sweeps", pl.DataFrame(), {"sweep_id": "a"})

    assert sweeps(warehouse) == ["b"]


def test_values_of_a_query_are_values_and_never_sql(warehouse: DuckDBWarehouse) -> None:
    evil = "'; DROP TABLE sweeps; --"
    warehouse.write("sweeps", [{"sweep_id": evil}, {"sweep_id": "b"}])

    rows = warehouse.frame("SELECT sweep_id FROM sweeps WHERE sweep_id = ?", [evil])

    assert rows["sweep_id"].to_list() == [evil]


def test_an_answer_without_rows_still_has_its_columns(warehouse: DuckDBWarehouse) -> None:
    rows = warehouse.frame("SELECT sweep_id, started_at FROM sweeps")

    assert rows.schema == {"sweep_id": pl.String, "started_at": pl.Datetime("us")}
    assert rows.height == 0


def test_nothing_but_the_warehouse_is_left_in_the_folder(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", [{"sweep_id": "a"}])
    sweeps(warehouse)
    warehouse.publish()

    left = {path.name for path in warehouse.folder.iterdir()} - {"warehouse.lock"}
    assert left == {"warehouse.duckdb", "results.duckdb"}


# Publishing.


def published(warehouse: DuckDBWarehouse) -> list[tuple[Any, ...]]:
    with open_results(warehouse.folder) as connection:
        return connection.execute("SELECT sweep_id FROM sweeps ORDER BY ALL").fetchall()


def test_an_open_reader_neither_blocks_a_later_publication_nor_sees_it(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", [{"sweep_id": "a"}])
    warehouse.publish()
    with open_results(warehouse.folder) as analyst:
        warehouse.write("sweeps", [{"sweep_id": "b"}])
        warehouse.publish()
        seen = analyst.execute("SELECT sweep_id FROM sweeps").fetchall()

    assert seen == [("a",)]
    assert published(warehouse) == [("a",), ("b",)]


def test_reconnecting_sees_the_newest_results_while_an_older_connection_is_open(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", [{"sweep_id": "a"}])
    warehouse.publish()
    with open_results(warehouse.folder) as older:
        warehouse.write("sweeps", [{"sweep_id": "b"}])
        warehouse.publish()

        seen = published(warehouse), older.execute("SELECT sweep_id FROM sweeps").fetchall()

    assert seen == ([("a",), ("b",)], [("a",)])


def test_what_is_not_published_is_not_seen(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", [{"sweep_id": "a"}])
    warehouse.publish()

    warehouse.write("sweeps", [{"sweep_id": "b"}])

    assert published(warehouse) == [("a",)]


def test_an_analyst_cannot_write(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", [{"sweep_id": "a"}])
    warehouse.publish()

    with open_results(warehouse.folder) as analyst, pytest.raises(duckdb.InvalidInputException, match="read-only"):
        analyst.execute("DELETE FROM sweeps")


def test_an_analysts_answer_is_a_frame(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", [{"sweep_id": "a", "started_at": MOMENT}, {"sweep_id": "b"}])
    warehouse.publish()

    with open_results(warehouse.folder) as analyst:
        rows = rows_frame(analyst, "SELECT sweep_id, started_at FROM sweeps WHERE sweep_id >= ? ORDER BY 1", ["a"])

    assert rows.rows() == [("a", MOMENT), ("b", None)]


def test_nothing_is_published_before_anything_is_written(tmp_path: Path) -> None:
    warehouse = DuckDBWarehouse(tmp_path)

    warehouse.publish()

    with (
        pytest.raises(WarehouseError, match=r"no results at .*run a sweep first"),
        open_results(warehouse.folder),
    ):
        pass


def test_results_that_are_no_database_are_named(tmp_path: Path) -> None:
    (tmp_path / "results.duckdb").write_text("not a database", encoding="utf-8")

    with pytest.raises(WarehouseError, match=r"results\.duckdb cannot be read.*a backup"), open_results(tmp_path):
        pass


def test_results_that_are_damaged_inside_are_an_error_with_the_cure_that_helps(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", [{"sweep_id": "a", "started_at": MOMENT}])
    warehouse.publish()
    content = bytearray(warehouse.results.read_bytes())
    content[3 * 4_096 + 16 : -262_144] = b"x" * (len(content) - 3 * 4_096 - 16 - 262_144)  # all but the last block
    warehouse.results.write_bytes(content)

    with (
        pytest.raises(WarehouseError, match=r"damaged.*the next eval-pipeline run publishes them anew"),
        open_results(warehouse.folder) as analyst,
    ):
        answer(analyst, "SELECT * FROM sweeps")
    warehouse.publish()
    with open_results(warehouse.folder) as analyst:
        assert answer(analyst, "SELECT sweep_id FROM sweeps")[1] == [("a",)]


# Several processes.

WRITER = """
import sys
from pathlib import Path
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse

warehouse = DuckDBWarehouse(Path(sys.argv[1]))
for number in range(5):
    warehouse.write("sweeps", [{"sweep_id": f"{sys.argv[2]}{number}"}])
    warehouse.publish()
"""


def test_two_processes_that_write_at_once_both_succeed(warehouse: DuckDBWarehouse) -> None:
    folder = str(warehouse.folder)
    with start_python(WRITER, folder, "a") as first, start_python(WRITER, folder, "b") as second:
        printed = [line for writer in (first, second) for text in writer.communicate() for line in text.splitlines()]

    assert [first.returncode, second.returncode] == [0, 0]
    assert [line for line in printed if "the warehouse is locked" not in line] == []  # on a busy machine one waits long
    assert sweeps(warehouse) == [f"{name}{number}" for name in ("a", "b") for number in range(5)]
    assert len(published(warehouse)) == 10


# Versions.


def added(version: int, column: str) -> Migration:
    return Migration(version, f"adds {column}", (f'ALTER TABLE sweeps ADD COLUMN "{column}" VARCHAR',))


def versions(warehouse: DuckDBWarehouse) -> list[int]:
    return warehouse.frame("SELECT version FROM schema_migrations ORDER BY applied_at, version")["version"].to_list()


def test_the_schemas_version_is_that_of_the_newest_step() -> None:
    assert [step.version for step in MIGRATIONS] == list(range(1, SCHEMA_VERSION + 1))


def test_a_new_warehouse_is_made_on_first_use_and_says_its_version(tmp_path: Path) -> None:
    warehouse = DuckDBWarehouse(tmp_path / "not" / "there" / "yet")

    assert versions(warehouse) == [step.version for step in MIGRATIONS]


def test_steps_are_applied_once_and_in_order(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", [{"sweep_id": "a"}])
    steps = [*MIGRATIONS, added(SCHEMA_VERSION + 2, "second"), added(SCHEMA_VERSION + 1, "first")]

    DuckDBWarehouse(warehouse.folder, steps).frame("SELECT first, second FROM sweeps")
    newest = DuckDBWarehouse(warehouse.folder, steps)

    assert versions(newest)[-2:] == [SCHEMA_VERSION + 1, SCHEMA_VERSION + 2]
    assert newest.frame("SELECT sweep_id, first, second FROM sweeps").rows() == [("a", None, None)]


def test_a_step_that_fails_leaves_the_version_before_it_with_all_its_data(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", [{"sweep_id": "a"}])
    half = Migration(SCHEMA_VERSION + 1, "half", (*added(0, "half").statements, "SELECT no_such_column FROM sweeps"))

    with pytest.raises(duckdb.Error, match="no_such_column"):
        DuckDBWarehouse(warehouse.folder, [*MIGRATIONS, half]).write("sweeps", [{"sweep_id": "b"}])

    assert versions(warehouse)[-1] == SCHEMA_VERSION
    assert "half" not in warehouse.frame("SELECT * FROM sweeps").columns
    assert sweeps(warehouse) == ["a"]


def test_views_are_made_when_every_column_they_name_is_there(tmp_path: Path) -> None:
    tables = table_statements()
    old = Migration(1, "without a column", (*tables, 'ALTER TABLE sweep_pairs DROP COLUMN "finished_at"'))
    between = Migration(2, "nothing much", ())
    whole = Migration(3, "adds it", ('ALTER TABLE sweep_pairs ADD COLUMN "finished_at" TIMESTAMP',))

    rows = DuckDBWarehouse(tmp_path, [old, between, whole]).frame("SELECT * FROM current_pairs")

    assert "finished_at" in rows.columns


def test_a_warehouse_of_a_newer_program_is_refused_and_left_alone(warehouse: DuckDBWarehouse) -> None:
    newer = [*MIGRATIONS, added(SCHEMA_VERSION + 1, "later")]
    DuckDBWarehouse(warehouse.folder, newer).write("sweeps", [{"sweep_id": "a"}])

    with pytest.raises(WarehouseError, match=f"has schema version {SCHEMA_VERSION + 1}, this program knows"):
        warehouse.write("sweeps", [{"sweep_id": "b"}])

    assert sweeps(DuckDBWarehouse(warehouse.folder, newer)) == ["a"]


def test_a_file_that_is_no_warehouse_is_named(warehouse: DuckDBWarehouse) -> None:
    warehouse.path.write_text("not a database", encoding="utf-8")

    with pytest.raises(WarehouseError, match=r"warehouse\.duckdb cannot be opened"):
        warehouse.write("sweeps", [{"sweep_id": "a"}])


def test_the_tables_by_name_are_the_tables() -> None:
    assert list(BY_NAME) == [table.name for table in TABLES]
