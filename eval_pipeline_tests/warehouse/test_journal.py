"""The journal of a cell: what was executed is on disk at once, and comes into the warehouse once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import orjson
import pytest

from eval_pipeline.executions.model import RawExecution
from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.warehouse import rows
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.journal import (
    FOLD_BYTES,
    INLINE_BYTES,
    TABLES,
    Journal,
    PairKey,
    journal_folder,
    keep_artifacts,
    recover,
)
from eval_pipeline.warehouse.tables import BY_NAME
from eval_pipeline_tests.builders import an_execution

CELL = PairKey("s", "r")


def open_journal(warehouse: DuckDBWarehouse, sweep: str = "1", cell: PairKey = CELL) -> Journal:
    return Journal(journal_folder(warehouse.storage, sweep, cell), warehouse)


def row(execution_id: str) -> Row:
    return rows.execution_row(an_execution(execution_id=execution_id), (), True, "1", "1")


def executions(warehouse: DuckDBWarehouse) -> list[str]:
    rows = warehouse.frame("SELECT execution_id FROM target_executions ORDER BY 1")
    return rows["execution_id"].to_list()


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_an_execution_is_on_disk_as_soon_as_it_is_appended(warehouse: DuckDBWarehouse) -> None:
    journal = open_journal(warehouse)

    journal.append("target_executions", row("e1"))

    (path,) = files_below(warehouse.folder / "journals")
    assert orjson.loads(path.read_bytes())["execution_id"] == "e1"
    journal.close()


@pytest.mark.parametrize("table", TABLES)
def test_what_was_appended_is_in_the_warehouse_after_folding_and_its_file_is_gone(
    warehouse: DuckDBWarehouse, table: str
) -> None:
    journal = open_journal(warehouse)
    journal.append(table, {BY_NAME[table].key[0]: "a"})

    journal.ingest()

    rows = warehouse.frame(f'SELECT {BY_NAME[table].key[0]} AS key FROM "{table}"')
    assert rows["key"].to_list() == ["a"]
    assert files_below(warehouse.folder / "journals") == []


def test_a_folded_journal_can_be_appended_to_again(warehouse: DuckDBWarehouse) -> None:
    journal = open_journal(warehouse)
    for name in ("e1", "e2"):
        journal.append("target_executions", row(name))
        journal.ingest()

    assert executions(warehouse) == ["e1", "e2"]


def test_an_empty_journal_leaves_no_trace(warehouse: DuckDBWarehouse) -> None:
    open_journal(warehouse).ingest()

    assert executions(warehouse) == []
    assert not (warehouse.folder / "journals").exists()


def test_a_journal_folds_by_itself_only_when_it_has_grown_large(warehouse: DuckDBWarehouse) -> None:
    journal = open_journal(warehouse)
    journal.append("target_executions", row("small"))
    journal.ingest_when_large()
    before = executions(warehouse)

    for number in range(FOLD_BYTES // 2**23):
        journal.append("target_executions", {**row(f"large{number}"), "error": "x" * 2**23})
    journal.ingest_when_large()

    assert before == []
    assert len(executions(warehouse)) == FOLD_BYTES // 2**23 + 1
    journal.close()


# Crashes.

KILLED = """
import os, signal, sys
from pathlib import Path
from eval_pipeline.warehouse.journal import PairKey, Journal, journal_folder
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.storage import LocalStorage

folder = Path(sys.argv[1])
journal = Journal(journal_folder(LocalStorage(folder), "killed", PairKey("s", "r")), DuckDBWarehouse(folder))
for number in range(3):
    journal.append("target_executions", {"execution_id": f"e{number}", "suite": "s", "runner": "r"})
    journal.append("session_reports", {"execution_id": f"e{number}"})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_executions_of_a_killed_process_are_all_recovered(warehouse: DuckDBWarehouse) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(warehouse.folder)], check=False)

    recovered = recover(warehouse, CELL)

    assert (killed.returncode, recovered) == (-signal.SIGKILL, 1)
    assert executions(warehouse) == ["e0", "e1", "e2"]


def test_recovering_takes_only_this_cells_journals_that_no_process_has_open(warehouse: DuckDBWarehouse) -> None:
    places = {"old": ("1", CELL), "open": ("2", CELL), "other": ("1", PairKey("s", "r2"))}
    journals = {name: open_journal(warehouse, sweep, cell) for name, (sweep, cell) in places.items()}
    for name, journal in journals.items():
        journal.append("target_executions", row(name))
    journals["old"].close()
    journals["other"].close()

    recovered = recover(warehouse, CELL)

    assert (recovered, executions(warehouse)) == (1, ["old"])
    journals["open"].close()
    assert recover(warehouse, CELL) == 1
    assert executions(warehouse) == ["old", "open"]
    assert len(files_below(warehouse.folder / "journals")) == 1


def test_recovering_again_finds_nothing(warehouse: DuckDBWarehouse) -> None:
    journal = open_journal(warehouse)
    journal.append("target_executions", row("e1"))
    journal.close()
    recover(warehouse, CELL)

    assert recover(warehouse, CELL) == 0


def test_a_journal_whose_folding_was_cut_off_after_the_commit_doubles_no_row(warehouse: DuckDBWarehouse) -> None:
    journal = open_journal(warehouse)
    journal.append("target_executions", row("e1"))
    journal.close()
    folder = journal_folder(warehouse.storage, "1", CELL)
    warehouse.ingest({table: folder / f"{table}.jsonl" for table in TABLES})

    recover(warehouse, CELL)

    assert executions(warehouse) == ["e1"]


def test_a_journal_that_cannot_be_folded_stays_where_it_is(warehouse: DuckDBWarehouse) -> None:
    journal = open_journal(warehouse)
    journal.append("target_executions", row("e1"))
    journal.close()
    folder = journal_folder(warehouse.storage, "1", CELL)
    (folder / "session_reports.jsonl").write_bytes(b"not json\n")

    with pytest.raises(duckdb.Error):
        Journal(folder, warehouse).ingest()

    assert sorted(path.name for path in files_below(folder)) == ["session_reports.jsonl", "target_executions.jsonl"]
    assert executions(warehouse) == []


# Artifacts.


def test_a_small_payload_stands_in_the_row(tmp_path: Path) -> None:
    execution = an_execution(raw=RawExecution(format="replay", payload={"output": "x" * (INLINE_BYTES - 100)}))

    assert keep_artifacts(execution, tmp_path, lambda: tmp_path / "own") == ((), True)
    assert files_below(tmp_path) == []


def test_a_large_payload_becomes_a_file_of_its_own(tmp_path: Path) -> None:
    payload = {"output": "é" * INLINE_BYTES}
    execution = an_execution(raw=RawExecution(format="replay", payload=payload))

    (artifact,), inline = keep_artifacts(execution, tmp_path, lambda: tmp_path / "r" / "own")

    path = tmp_path / artifact.path
    assert (artifact.role, artifact.path, inline) == ("payload", "r/own/payload.json", False)
    assert orjson.loads(path.read_bytes()) == payload
    assert (artifact.bytes, artifact.sha256) == (path.stat().st_size, file_fingerprint(path))


def test_files_are_named_from_the_artifacts_folder_when_they_lie_in_it(tmp_path: Path) -> None:
    inside, outside = tmp_path / "artifacts" / "stdout", tmp_path / "recorded"
    inside.parent.mkdir()
    for path in (inside, outside):
        path.write_bytes(b"4")
    execution = an_execution(raw=RawExecution(format="command", files={"stdout": inside, "session": outside}))

    artifacts, inline = keep_artifacts(execution, inside.parent, lambda: tmp_path / "own")

    assert [(artifact.role, artifact.path, artifact.bytes) for artifact in artifacts] == [
        ("stdout", "stdout", 1),
        ("session", str(outside), 1),
    ]
    assert inline


def test_nothing_raw_has_no_artifacts(tmp_path: Path) -> None:
    assert keep_artifacts(an_execution(output=None), tmp_path, lambda: tmp_path / "own") == ((), True)
