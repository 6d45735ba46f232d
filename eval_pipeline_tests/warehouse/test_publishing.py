"""What is published: a checked copy. A warehouse that is damaged, cut or not completely written replaces nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from eval_pipeline.errors import WarehouseError
from eval_pipeline.warehouse import publishing
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.store import publishing_held


@pytest.fixture
def filled(warehouse: DuckDBWarehouse) -> DuckDBWarehouse:
    """A warehouse with a megabyte of rows, published."""
    rows = [{"sweep_id": f"{number:06}", "dagster_run_id": f"{number * 7_919:064}"} for number in range(20_000)]
    warehouse.write("sweeps", rows)
    warehouse.publish()
    return warehouse


def published_sweeps(warehouse: DuckDBWarehouse) -> int:
    with warehouse.published() as connection:
        return int(connection.execute("SELECT count(*) FROM sweeps").fetchall()[0][0])


def cut(path: Path, share: float) -> None:
    with path.open("rb+") as file:
        file.truncate(int(path.stat().st_size * share))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_warehouse_that_was_cut_is_not_published_over_good_results(filled: DuckDBWarehouse, share: float) -> None:
    before = filled.results.read_bytes()
    cut(filled.path, share)

    with pytest.raises(WarehouseError, match="is not published, the results published before stay"):
        filled.publish()

    assert filled.results.read_bytes() == before
    assert [path.name for path in filled.folder.glob("*.tmp")] == []


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_warehouse_that_was_cut_is_an_error_that_names_the_cure(filled: DuckDBWarehouse, share: float) -> None:
    cut(filled.path, share)

    with pytest.raises(WarehouseError, match=r"is damaged: .*; .*results.duckdb has what was published last: .*cp "):
        filled.frame("SELECT sum(hash(sweep_id)), max(dagster_run_id) FROM sweeps")


def test_a_copy_that_is_cut_is_not_published(filled: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    half = filled.results.with_name("half")
    shutil.copyfile(filled.results, half)
    cut(half, 0.5)
    filled.write("sweeps", [{"sweep_id": "new"}])
    monkeypatch.setattr("eval_pipeline.warehouse.publishing.shutil.copyfile", lambda source, copy: half.replace(copy))

    with pytest.raises(WarehouseError, match="is not published"):
        filled.publish()

    assert published_sweeps(filled) == 20_000


def test_rows_that_are_only_in_the_log_survive_a_compaction(filled: DuckDBWarehouse) -> None:
    with duckdb.connect(str(filled.path)) as connection:
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")  # what a full disk does
        connection.execute("INSERT INTO sweeps (sweep_id) VALUES ('new')")
    assert filled.path.with_name("warehouse.duckdb.wal").exists()

    filled.compact()
    filled.publish()

    assert published_sweeps(filled) == 20_001


LIMITED = """
import resource, sys
from pathlib import Path
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse

warehouse = DuckDBWarehouse(Path(sys.argv[1]))
limit = warehouse.path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
for start in range(0, 20_000, 2_000):
    rows = [{"sweep_id": f"x{n:06}", "dagster_run_id": f"{n * 7_919:064}"} for n in range(start, start + 2_000)]
    warehouse.write("sweeps", rows)
warehouse.publish()
"""


def test_a_file_size_limit_is_an_error_and_never_an_empty_board(filled: DuckDBWarehouse) -> None:
    limited = subprocess.run(
        [sys.executable, "-c", LIMITED, str(filled.folder)], capture_output=True, text=True, check=False
    )

    assert limited.returncode == 1, limited.stderr
    assert published_sweeps(filled) == 20_000


def test_what_is_only_in_the_write_ahead_log_is_published(filled: DuckDBWarehouse) -> None:
    program = f"""
import os, duckdb
connection = duckdb.connect({str(filled.path)!r})
connection.execute("INSERT INTO sweeps (sweep_id) VALUES ('logged')")
os._exit(9)
"""
    subprocess.run([sys.executable, "-c", program], check=False)
    assert filled.path.with_name("warehouse.duckdb.wal").exists()

    filled.publish()

    assert published_sweeps(filled) == 20_001
    with duckdb.connect(str(filled.results), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM sweeps WHERE sweep_id = 'logged'").fetchall() == [(1,)]


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_the_log_of_a_commit_that_was_killed_is_no_full_disk(filled: DuckDBWarehouse, share: float) -> None:
    log = filled.path.with_name("warehouse.duckdb.wal")
    with duckdb.connect(str(filled.path)) as connection:
        connection.execute("INSERT INTO sweeps (sweep_id) SELECT 'lost' || range FROM range(1000)")
        content = log.read_bytes()
    with duckdb.connect(str(filled.path)) as connection:
        connection.execute("DELETE FROM sweeps WHERE sweep_id LIKE 'lost%'")
    log.write_bytes(content[: int(len(content) * share)])

    filled.publish()

    assert published_sweeps(filled) == 20_000
    assert not log.exists()


def test_the_blocks_of_a_file_are_not_looked_at_under_the_lock(
    filled: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[bool] = []
    looked: list[bool] = []
    locked, checksums = DuckDBWarehouse._locked, publishing._checksums

    @contextmanager
    def noted(warehouse: DuckDBWarehouse) -> Iterator[None]:
        with locked(warehouse):
            held.append(True)
            yield
            held.pop()

    def looking(path: Path) -> list[bytes]:
        looked.append(bool(held))
        return checksums(path)

    monkeypatch.setattr(DuckDBWarehouse, "_locked", noted)
    monkeypatch.setattr(publishing, "_checksums", looking)
    monkeypatch.setattr(publishing, "_LARGE", 0)
    filled.publish()
    filled.write("sweeps", [{"sweep_id": "new"}])
    filled.publish()

    assert looked and True not in looked


@pytest.mark.parametrize(("large", "synced"), [(0, ["the copy, unlocked"]), (10**12, [])], ids=["large", "small"])
def test_a_large_copy_is_written_to_the_disk_before_the_lock_and_a_small_one_when_the_system_likes(
    filled: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch, large: int, synced: list[str]
) -> None:
    """The name of a file that is not on the disk waits for it; this would be under the lock."""
    held, written = list[bool](), list[str]()
    locked, fsync = DuckDBWarehouse._locked, os.fsync

    @contextmanager
    def noted(warehouse: DuckDBWarehouse) -> Iterator[None]:
        with locked(warehouse):
            held.append(True)
            yield
            held.pop()

    def sync(file: int) -> None:
        copy = Path(f"/proc/self/fd/{file}").readlink().name.startswith(".results.")
        written.append(f"{'the copy' if copy else 'another file'}, {'locked' if held else 'unlocked'}")
        fsync(file)

    filled.write("sweeps", [{"sweep_id": "new"}])
    monkeypatch.setattr(DuckDBWarehouse, "_locked", noted)
    monkeypatch.setattr(publishing, "_LARGE", large)
    monkeypatch.setattr(os, "fsync", sync)
    filled.publish()

    assert written == synced
    assert published_sweeps(filled) == 20_001


def test_what_is_replaced_is_removed_when_the_lock_is_free(
    filled: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Freeing a large file takes long: it keeps another name until the lock is free."""
    names: list[int] = []
    locked = DuckDBWarehouse._locked

    @contextmanager
    def noted(warehouse: DuckDBWarehouse) -> Iterator[None]:
        with locked(warehouse):
            yield
            names.append(os.fstat(before.fileno()).st_nlink)

    filled.write("sweeps", [{"sweep_id": "new"}])
    monkeypatch.setattr(DuckDBWarehouse, "_locked", noted)
    with filled.results.open("rb") as before:
        filled.publish()
        names.append(os.fstat(before.fileno()).st_nlink)

    assert names[-2:] == [1, 0]
    assert published_sweeps(filled) == 20_001
    assert list(filled.folder.glob(".results.*")) == []


def test_a_file_system_without_hard_links_publishes_too(
    filled: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no hard links here")

    filled.write("sweeps", [{"sweep_id": "new"}])
    monkeypatch.setattr("eval_pipeline.warehouse.publishing.os.link", refuse)

    filled.publish()

    assert published_sweeps(filled) == 20_001
    assert list(filled.folder.glob(".results.*")) == []


KILLED = """
import os, sys
from pathlib import Path
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse

link = os.link
os.link = lambda *names: (link(*names), os._exit(9))
DuckDBWarehouse(Path(sys.argv[1])).publish()
"""


def test_a_kill_before_the_old_results_are_removed_leaves_nothing_for_ever(filled: DuckDBWarehouse) -> None:
    filled.write("sweeps", [{"sweep_id": "new"}])
    killed = subprocess.run([sys.executable, "-c", KILLED, str(filled.folder)], check=False, timeout=60)
    assert killed.returncode == 9
    assert len(list(filled.folder.glob(".results.*"))) == 2
    assert published_sweeps(filled) == 20_000

    next_one = DuckDBWarehouse(filled.folder)
    next_one.write("sweeps", [{"sweep_id": "later"}])
    next_one.publish()

    assert published_sweeps(next_one) == 20_002
    assert list(filled.folder.glob(".results.*")) == []


def test_nothing_is_copied_when_nothing_was_written(filled: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[Path] = []
    monkeypatch.setattr("eval_pipeline.warehouse.publishing.shutil.copyfile", lambda source, copy: copies.append(copy))
    filled.frame("SELECT count(*) FROM sweeps")

    filled.publish()

    assert copies == []


def test_while_publishing_is_held_nothing_is_published(filled: DuckDBWarehouse) -> None:
    before = published_sweeps(filled)

    with publishing_held(filled), publishing_held(filled):
        filled.write("sweeps", [{"sweep_id": "one more"}])
        filled.publish()
        held = published_sweeps(filled)
    filled.publish()

    assert (held, published_sweeps(filled)) == (before, before + 1)


def test_results_that_somebody_changed_or_removed_are_published_again(filled: DuckDBWarehouse) -> None:
    with duckdb.connect(str(filled.results)) as connection:
        connection.execute("DELETE FROM sweeps")

    filled.publish()
    assert published_sweeps(filled) == 20_000

    filled.results.unlink()
    filled.publish()
    assert published_sweeps(filled) == 20_000


CHANGES = (
    "INSERT INTO sweeps (sweep_id) SELECT 'x' || range FROM range(60000)",
    "DELETE FROM sweeps WHERE sweep_id > '000009'",
    "CREATE OR REPLACE TABLE cases AS SELECT range::VARCHAR AS suite FROM range(60000)",
)


@pytest.mark.parametrize("change", CHANGES, ids=["more", "less", "other"])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_what_others_write_while_the_copy_is_made_is_published_whole(
    filled: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch, share: float, change: str
) -> None:
    """Another writer commits when a part of the file is copied: the copy has blocks from before and after it."""

    def copy_while_written(source: Path, copy: Path) -> None:
        content = source.read_bytes()
        part = int(len(content) * share)
        with filled.transaction() as connection:
            connection.execute(change)
        copy.write_bytes(content[:part] + source.read_bytes()[part:])

    filled.write("sweeps", [{"sweep_id": "new"}])
    monkeypatch.setattr("eval_pipeline.warehouse.publishing.shutil.copyfile", copy_while_written)

    filled.publish()

    assert filled.results.read_bytes() == filled.path.read_bytes()
    assert list(filled.folder.glob(".results.*")) == []


def test_a_block_that_is_what_it_was_again_after_the_copy_is_copied_again(
    filled: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy_with_another_block(source: Path, copy: Path) -> None:
        content = bytearray(source.read_bytes())
        content[3 * 4_096 : 3 * 4_096 + 262_144] = bytes(262_144)  # what the first block was in between
        copy.write_bytes(content)
        filled.write("sweeps", [{"sweep_id": "later"}])

    filled.write("sweeps", [{"sweep_id": "new"}])
    monkeypatch.setattr("eval_pipeline.warehouse.publishing.shutil.copyfile", copy_with_another_block)

    filled.publish()

    assert filled.results.read_bytes() == filled.path.read_bytes()


def test_the_lock_is_free_while_the_copy_is_made(filled: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    copyfile = shutil.copyfile
    others: list[int] = []

    def copy_beside_another_process(source: Path, copy: Path) -> None:
        program = [sys.executable, "-c", WRITER, str(filled.folder)]
        others.append(subprocess.run(program, check=False, timeout=60).returncode)
        copyfile(source, copy)

    filled.write("sweeps", [{"sweep_id": "new"}])
    monkeypatch.setattr("eval_pipeline.warehouse.publishing.shutil.copyfile", copy_beside_another_process)

    filled.publish()

    assert (others, published_sweeps(filled)) == ([0], 20_002)


WRITER = """
import sys
from pathlib import Path
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse

DuckDBWarehouse(Path(sys.argv[1])).write("sweeps", [{"sweep_id": "other"}])
"""
