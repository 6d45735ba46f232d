"""Files that machines have in common: journals, raw output and replies of graders, named by their content."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.executions.model import Artifact
from eval_pipeline.warehouse import shared_files
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.journal import Journal, PairKey, journal_folder, recover
from eval_pipeline.warehouse.replies import Replies
from eval_pipeline.warehouse.shared_files import SharedFiles, SharedJournal, local_artifact

PAIR = PairKey("s", "r")
ROW = {"execution_id": "e1", "suite": "s", "runner": "r", "key": "k", "case_id": "c", "completed": True}


@pytest.fixture
def shared(tmp_path: Path) -> SharedFiles:
    return SharedFiles(str(tmp_path / "common"))


def machine(folder: Path, shared: SharedFiles) -> DuckDBWarehouse:
    """A warehouse that has files in common with others; each has rows of its own here, which a lake has not."""
    warehouse = DuckDBWarehouse(folder)
    warehouse.shared_files = shared
    return warehouse


def journal_of(warehouse: DuckDBWarehouse) -> Journal:
    return Journal(journal_folder(warehouse.storage, "1", PAIR), warehouse, PAIR)


def settled(shared: SharedFiles) -> None:
    """Wait for what is done in the background."""
    done = shared.submit(lambda: None)
    done.result()
    assert shared._pool is not None
    shared._pool.shutdown(wait=True)
    shared._pool = None


def test_another_machine_takes_over_what_was_executed_with_its_files(tmp_path: Path, shared: SharedFiles) -> None:
    dead, alive = machine(tmp_path / "dead", shared), machine(tmp_path / "alive", shared)
    raw = dead.storage.artifacts / "out.txt"
    raw.parent.mkdir(parents=True)
    raw.write_text("much")
    sha256 = hashlib.sha256(b"much").hexdigest()
    artifact = Artifact(role="stdout", path="out.txt", bytes=4, sha256=sha256)
    journal = journal_of(dead)
    journal.append("target_executions", ROW | {"artifacts": (artifact,)})
    journal.close()
    settled(shared)

    assert recover(alive, PAIR) == 1

    assert alive.frame("SELECT execution_id FROM target_executions").rows() == [("e1",)]
    fetched = local_artifact(shared, alive.storage.artifacts / "out.txt", sha256)
    assert fetched.read_text() == "much"
    assert recover(alive, PAIR) == 0
    assert recover(alive, PairKey("s", "other")) == 0


def test_what_is_stored_is_not_taken_over(tmp_path: Path, shared: SharedFiles) -> None:
    here, other = machine(tmp_path / "here", shared), machine(tmp_path / "other", shared)
    journal = journal_of(here)
    journal.append("target_executions", ROW)
    settled(shared)

    journal.ingest()
    settled(shared)

    assert recover(other, PAIR) == 0


def test_what_became_of_a_stored_execution_is_not_undone(tmp_path: Path, shared: SharedFiles) -> None:
    here = machine(tmp_path / "here", shared)
    SharedJournal(shared, "s", "r").append(b'{"execution_id":"e1","suite":"s","runner":"r","key":"old"}', ())
    settled(shared)
    here.write("target_executions", [ROW])

    assert recover(here, PAIR) == 1

    assert here.frame("SELECT key FROM target_executions").rows() == [("k",)]


def test_a_file_that_is_not_as_its_name_says_is_skipped(tmp_path: Path, shared: SharedFiles) -> None:
    journal = SharedJournal(shared, "s", "r")
    journal.append(b'{"execution_id":"e1"}', ())
    settled(shared)
    (file,) = (tmp_path / "common" / "journals").rglob("*.jsonl")
    file.write_bytes(file.read_bytes()[:5])

    assert list(journal.left_over()) == []


def test_lines_are_written_after_a_store_was_away(shared: SharedFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_files, "_TRIES_AFTER_S", (0.0,))
    put, failures = shared.put, [OSError("away"), OSError("away")]

    def sometimes(name: str, content: bytes) -> None:
        if failures:
            raise failures.pop()
        put(name, content)

    monkeypatch.setattr(shared, "put", sometimes)
    journal = SharedJournal(shared, "s", "r")

    journal.append(b"one", ())
    settled(shared)
    journal.append(b"two", ())
    settled(shared)

    assert [lines for _, lines in journal.left_over()] == [b"one\ntwo\n"]


def test_raw_output_that_no_row_names_goes_when_it_is_old(tmp_path: Path, shared: SharedFiles) -> None:
    names = []
    for text in ("kept", "old", "new"):
        path = tmp_path / text
        path.write_text(text)
        names.append(hashlib.sha256(text.encode()).hexdigest())
        shared.keep_artifact(path, names[-1])
    for sha256 in names[:2]:
        os.utime(tmp_path / "common" / "artifacts" / sha256[:2] / sha256, (0, 0))

    assert shared.remove_artifacts_but([names[0]], older_than_s=60.0) == 1

    assert [shared.fetch_artifact(tmp_path / "again", sha256) for sha256 in names] == [True, False, True]


def test_a_reply_of_a_grader_is_there_for_all(tmp_path: Path, shared: SharedFiles) -> None:
    key = "ab" * 32
    Replies(tmp_path / "one", shared).put(key, {"text": "yes"})
    settled(shared)
    get: Callable[[Replies], object] = lambda replies: asyncio.run(replies.get(key))  # noqa: E731

    assert get(Replies(tmp_path / "two", shared)) == {"text": "yes"}
    assert get(Replies(tmp_path / "two")) is None


def test_an_unknown_store_is_an_error_of_the_address() -> None:
    with pytest.raises(InputError, match="files of the warehouse"):
        SharedFiles("nosuchstore://bucket/files").get("x")
