"""Temporary files of killed processes go with the next use of the warehouse; those of live ones stay."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from eval_pipeline.processes import process_start
from eval_pipeline.warehouse import scraps
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.journal import PairKey, journal_folder, remove_empty_journals
from eval_pipeline.warehouse.storage import LocalStorage

COPIES = [
    "results.17.tmp",
    "results.17.tmp.wal",
    "warehouse.17.tmp",
    "warehouse.17.compact",
    "warehouse.17.compact.wal",
]


def spooled_by(pid: int, start: str, folder: Path, stem: str, suffix: str) -> Path:
    """The path that a process of this machine gives a temporary file."""
    own = scraps.scratch_path(folder, stem, suffix)
    return own.with_name(own.name.replace(f"-{os.getpid()}-{process_start(os.getpid())}-", f"-{pid}-{start}-"))


@pytest.fixture
def dead() -> tuple[int, str]:
    with subprocess.Popen(["sleep", "600"]) as process:
        start = process_start(process.pid) or ""
        process.kill()
    return process.pid, start


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_that_was_not_renamed_is_removed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("half of it")

    DuckDBWarehouse(tmp_path).frame("SELECT 1")

    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(("stem", "suffix"), [("verdicts", ".jsonl"), ("answer", ".parquet")])
def test_a_temporary_file_of_a_dead_process_is_removed_and_that_of_a_live_one_stays(
    tmp_path: Path, dead: tuple[int, str], stem: str, suffix: str
) -> None:
    left, own = spooled_by(*dead, tmp_path, stem, suffix), scraps.scratch_path(tmp_path, stem, suffix)
    reused = spooled_by(os.getpid(), "17", tmp_path, stem, suffix)
    for path in (left, own, reused):
        path.write_text("{}")

    DuckDBWarehouse(tmp_path).frame("SELECT 1")

    assert [path.exists() for path in (left, own, reused)] == [False, True, False]


@pytest.mark.parametrize("name", [".verdicts.0f6c1d.jsonl", ".verdicts.abcdef12-1-17-00000000.jsonl"],
                         ids=["of an earlier version", "of another machine"])  # fmt: skip
def test_a_temporary_file_whose_process_cannot_be_looked_up_is_removed_after_a_day(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("{}")
    DuckDBWarehouse(tmp_path).frame("SELECT 1")
    stays = file.exists()
    os.utime(file, (0, 0))

    DuckDBWarehouse(tmp_path).frame("SELECT 1")

    assert (stays, file.exists()) == (True, False)


def test_journals_without_content_are_removed_and_all_others_stay(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    empty, full, aside = (journal_folder(storage, f"sweep-{name}", PairKey("s", "r")) for name in ("a", "b", "c"))
    for folder, name in ((empty, "owned.lock"), (full, "target_executions.jsonl"), (aside, "x.unreadable")):
        folder.mkdir(parents=True)
        (folder / name).write_text("")

    remove_empty_journals(storage)

    assert sorted(path.name for path in storage.journals.iterdir()) == ["sweep-b", "sweep-c"]
    assert full.exists()
    assert aside.exists()


def test_what_a_dead_process_put_beside_memory_is_removed_and_that_of_others_stays(
    tmp_path: Path, dead: tuple[int, str]
) -> None:
    left, own = spooled_by(*dead, tmp_path, "lake", ".tmp"), scraps.scratch_path(tmp_path, "lake", ".tmp")
    for folder in (left, own):
        folder.mkdir()
        (folder / "duckdb_temp_storage-0.tmp").touch()

    scraps.remove_left_over(tmp_path)

    assert list(tmp_path.iterdir()) == [own]
