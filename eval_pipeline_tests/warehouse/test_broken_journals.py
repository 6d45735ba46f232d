"""Journals that a crash or a full disk damaged: whole lines are taken, bad ones set aside, writes are whole."""

from __future__ import annotations

import errno
import logging
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from eval_pipeline.warehouse import rows
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.journal import Journal, PairKey, journal_folder, recover
from eval_pipeline.warehouse.journal_lines import UnwritableJournal, write_line
from eval_pipeline.warehouse.stored_pairs import pending_executions
from eval_pipeline_tests.builders import an_execution

PAIR = PairKey("s", "r")


def row(id_: str) -> Row:
    return rows.execution_row(an_execution(execution_id=id_, key=id_), (), True, "1", "1") | {
        "suite": "s",
        "runner": "r",
    }


def line(id_: str) -> bytes:
    return orjson.dumps(row(id_), option=orjson.OPT_NAIVE_UTC) + b"\n"


def left_over(warehouse: DuckDBWarehouse, content: bytes) -> Path:
    """The journal of a killed sweep."""
    folder = journal_folder(warehouse.storage, "1", PAIR)
    folder.mkdir(parents=True)
    path = folder / "target_executions.jsonl"
    path.write_bytes(content)
    return path


def executions(warehouse: DuckDBWarehouse) -> list[str]:
    return warehouse.frame("SELECT execution_id FROM target_executions ORDER BY 1")["execution_id"].to_list()


BAD_LINES = [
    pytest.param(b"not json\n", id="garbage"),
    pytest.param(b"\x00" * 4_096 + b"\n", id="NUL"),
    pytest.param(b"[1, 2]\n", id="no-object"),
    pytest.param(b"null\n", id="null"),
    pytest.param(b"{}\n", id="an-empty-object"),
    pytest.param(b'{"execution_id": "\xff\xfe", "suite": "s", "runner": "r"}\n', id="bad-UTF-8"),
    pytest.param(line("torn").rstrip()[:-40] + line("glued"), id="a-missing-newline"),
    pytest.param(b"[" * 100_000 + b"\n", id="deep"),
    pytest.param(b'{"execution_id": "x", "suite": "s", "runner": "r", "started_at": "soon"}\n', id="type"),
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD_LINES)
def test_a_bad_line_is_set_aside_and_the_others_are_taken(
    warehouse: DuckDBWarehouse, caplog: pytest.LogCaptureFixture, bad: bytes
) -> None:
    path = left_over(warehouse, line("a") + bad + line("b") + line("c"))

    with caplog.at_level(logging.WARNING):
        recovered = recover(warehouse, PAIR)

    aside = path.with_suffix(".unreadable")
    assert (recovered, executions(warehouse)) == (1, ["a", "b", "c"])
    assert aside.read_bytes() == bad
    assert f"1 of 4 lines of an interrupted sweep's journal cannot be read; they are kept in {aside}" in caplog.text


@pytest.mark.parametrize("bad", BAD_LINES)
def test_looking_at_a_damaged_journal_counts_what_can_be_read(warehouse: DuckDBWarehouse, bad: bytes) -> None:
    left_over(warehouse, line("a") + bad + line("b"))

    assert set(pending_executions(warehouse, PAIR)) == {"a", "b"}


def test_lines_that_were_set_aside_are_kept_and_reported_once(
    warehouse: DuckDBWarehouse, caplog: pytest.LogCaptureFixture
) -> None:
    path = left_over(warehouse, b"not json\n" + line("a") + b"nor this\n" + line("b")[:-9])
    recover(warehouse, PAIR)
    caplog.clear()

    again = recover(warehouse, PAIR)

    assert (again, caplog.text) == (0, "")
    assert [file.name for file in path.parent.iterdir()] == ["target_executions.unreadable"]
    assert path.with_suffix(".unreadable").read_bytes() == b"not json\nnor this\n"


def test_a_whole_last_execution_counts_without_its_newline(warehouse: DuckDBWarehouse) -> None:
    path = left_over(warehouse, line("a") + line("b").rstrip())

    recover(warehouse, PAIR)

    assert executions(warehouse) == ["a", "b"]
    assert not path.parent.exists()


# Writes.


class ShortWrites:
    """A file that takes so many bytes at a time, and has room for so many."""

    def __init__(self, path: Path, most: int, room: int) -> None:
        self._file = path.open("ab", buffering=0)
        self._most, self._room = most, room
        self.fileno, self.truncate, self.close = self._file.fileno, self._file.truncate, self._file.close

    def write(self, data: bytes) -> int:
        if not self._room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._file.write(data[: min(self._most, self._room)])
        self._room -= written
        return written


def test_a_line_is_written_until_it_is_whole(tmp_path: Path) -> None:
    with closing(ShortWrites(tmp_path / "file", most=3, room=100)) as file:
        write_line(file, b"0123456789\n")  # type: ignore[arg-type]

    assert (tmp_path / "file").read_bytes() == b"0123456789\n"


def test_a_line_that_does_not_fit_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    with closing(ShortWrites(tmp_path / "file", most=100, room=15)) as file:
        write_line(file, b"0123456789\n")  # type: ignore[arg-type]

        with pytest.raises(OSError, match="No space"):
            write_line(file, b"0123456789\n")  # type: ignore[arg-type]

    assert (tmp_path / "file").read_bytes() == b"0123456789\n"


LIMITED = """
import resource, sys
from pathlib import Path
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.journal import Journal

journal = Journal(Path(sys.argv[1]), DuckDBWarehouse(Path(sys.argv[1])))
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
for number in range(20):
    journal.append("target_executions", {"execution_id": f"e{number}", "text": "x" * 100})
"""


def test_a_journal_on_a_full_disk_ends_with_a_whole_line_and_a_clear_error(tmp_path: Path) -> None:
    full = subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path / "j")], capture_output=True, check=False)

    lines = (tmp_path / "j" / "target_executions.jsonl").read_bytes().splitlines(keepends=True)
    assert full.returncode == 1
    assert b"cannot be written: File too large; what was stored before is kept: free the disk" in full.stderr
    assert [orjson.loads(each)["execution_id"] for each in lines] == [f"e{number}" for number in range(len(lines))]
    assert len(lines) > 1 and lines[-1].endswith(b"\n")


def test_derived_rows_that_do_not_fit_are_a_clear_error_too(
    warehouse: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(journal_folder(warehouse.storage, "1", PAIR), warehouse)
    journal.append("target_executions", row("a"))
    journal._files["verdicts"] = Path("/dev/full").open("ab")  # noqa: SIM115 — the named point of the fault
    journal.append("verdicts", {"verdict_id": "v"})

    with pytest.raises(UnwritableJournal, match="No space left on device"):
        journal.ingest()

    journal.close()
    assert recover(warehouse, PAIR) == 1
    assert executions(warehouse) == ["a"]
