"""The journal of a pair: each finished execution on disk at once, and everything derived from it.

One append-only file of JSON lines per table under `journals/<sweep>/<runner>/<suite>/`. An execution is written with
one unbuffered `write`, so a killed process loses at most the line it was writing; derived rows are buffered,
since they can be derived again. `Warehouse.ingest` stores the files, after which they are deleted.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from filelock import BaseFileLock, FileLock, Timeout

from eval_pipeline.errors import WarehouseError
from eval_pipeline.executions.model import Artifact, Execution
from eval_pipeline.fingerprints import file_fingerprint, to_json
from eval_pipeline.parsing.redaction import redact_line
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.journal_lines import SET_ASIDE, UnwritableJournal, ingest_readable, read_rows, write_line
from eval_pipeline.warehouse.shared_files import SharedJournal
from eval_pipeline.warehouse.storage import Storage
from eval_pipeline.warehouse.store import Warehouse

TABLES = (
    "target_executions", "session_reports", "session_events", "evaluator_scores", "member_scores", "verdicts",
    "evaluator_specs", "unranked_pairs",
)  # fmt: skip
EVENTS = "session_events"
"""Not searched for secrets: events are made from raw output without secrets, and are most of what is written."""
PAIR_COLUMNS = ("suite", "runner")
INLINE_BYTES = 65_536
SYNC_EVERY_S = 1.0
BUFFER_BYTES = 2**20
OWNED = "owned.lock"
FOLD_BYTES = 8 * 2**20
"""Bytes of journals that are ingested together: DuckDB takes about five times as much memory for them."""
SHARED_FOLD_BYTES = 32 * 2**20
"""The same of a shared warehouse, where a transaction of few rows takes as long as one of many."""


@dataclass(frozen=True, slots=True)
class PairKey:
    """The identity of a pair: suite × runner."""

    suite: str
    runner: str


class Journal:
    """The open journal of one suite × runner in one sweep."""

    def __init__(self, folder: Path, warehouse: Warehouse, pair: PairKey | None = None) -> None:
        self._folder = folder
        self._warehouse = warehouse
        files = warehouse.shared_files if pair is not None else None
        self._shared = None if files is None or pair is None else SharedJournal(files, pair.suite, pair.runner)
        self._files: dict[str, BinaryIO] = {}
        self._bytes = 0
        self._owned: BaseFileLock | None = None
        self._synced_at = time.monotonic()

    def append(self, table: str, row: Row) -> None:
        """Append a row; executions are synced to disk within a second. Raises UnwritableJournal, as `flush` does."""
        try:
            self._append(table, row)
        except OSError as error:
            raise UnwritableJournal(self._folder, error) from error

    def _append(self, table: str, row: Row) -> None:
        file: BinaryIO | None = self._files.get(table)
        if file is None:
            self._claim()
            buffering = 0 if table == TABLES[0] else BUFFER_BYTES
            file = self._files[table] = (self._folder / f"{table}.jsonl").open("ab", buffering=buffering)
            if table == "verdicts":  # in the transaction that stores them: a kill must not leave an old board for ever
                self._append("unranked_pairs", {**{name: row.get(name) for name in PAIR_COLUMNS}, "finished": False})
        # Executions first, unbuffered: they cost money and cannot be derived again. fsync is limited to one a second.
        line = to_json(row) if table == EVENTS else redact_line(to_json(row))
        if table == TABLES[0]:
            write_line(file, line + b"\n")
            if self._shared is not None:
                self._shared.append(line, _files_of(row, self._warehouse.storage.artifacts))
        else:
            file.write(line)
            file.write(b"\n")  # no copy of a line that may be as large as an answer
        self._bytes += len(line) + 1
        if table == TABLES[0] and time.monotonic() - self._synced_at > SYNC_EVERY_S:
            os.fsync(file.fileno())
            self._synced_at = time.monotonic()

    def ingest_when_large(self) -> None:
        """Ingest now when the files have grown large, so that memory stays bounded for pairs of any size."""
        if self._bytes > fold_bytes(self._warehouse):
            self.ingest()

    @property
    def files(self) -> dict[str, Path]:
        """The path of each table's file, existing or not."""
        return {table: self._folder / f"{table}.jsonl" for table in TABLES}

    @property
    def bytes(self) -> int:
        """Bytes that are not ingested yet."""
        return self._bytes

    def ingest(self) -> None:
        """Store all rows so far in the warehouse."""
        self.flush()  # the files are deleted only after their rows are committed
        self._warehouse.ingest(self.files)
        self.remove()

    def remove(self) -> None:
        """Delete the files, once their rows are committed."""
        self.flush()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._bytes = 0
        if self._shared is not None:
            self._shared.remove()
        self.close()

    def _claim(self) -> None:
        """Lock the folder until its rows are committed or the journal is closed."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._owned is None:
            self._owned = FileLock(self._folder / OWNED)
            self._owned.acquire()

    def flush(self) -> None:
        """Write what is buffered and close the files; the folder stays locked until its rows are committed."""
        files, self._files = self._files, {}
        try:
            with ExitStack() as closing:
                for file in files.values():
                    closing.callback(file.close)
        except OSError as error:
            raise UnwritableJournal(self._folder, error) from error

    def close(self) -> None:
        """Close the files, and unlock the folder. Derived rows that cannot be written are derived again."""
        with suppress(UnwritableJournal):
            self.flush()
        if self._owned is not None:
            self._owned.release()
            self._owned = None


def fold_bytes(warehouse: Warehouse) -> int:
    """Return how many bytes of journals a warehouse ingests together."""
    return FOLD_BYTES if warehouse.leases is None else SHARED_FOLD_BYTES


def journal_folder(storage: Storage, sweep_id: str, pair: PairKey) -> Path:
    """Return the folder of the journal of a pair."""
    return storage.journals / sweep_id / pair.runner / pair.suite


def recover(warehouse: Warehouse, pair: PairKey) -> int:
    """Ingest the executions of a pair that killed processes left; return the number of journals.

    Only the holder of the sweep lock, or of the pair's lease, may call this: a journal that is being ingested looks
    like one that is left over. Only executions are ingested: derived rows may have been lost in a buffer, and are
    derived again. A journal that a process has open is skipped; that of a killed part of the same sweep is not.
    """
    here = sum(_recover_folder(folder, warehouse) for folder in _left_over(warehouse.storage, pair))
    return here + _recover_shared(warehouse, pair)


def journaled_executions(storage: Storage, pair: PairKey) -> Iterator[Row]:
    """Yield the executions of a pair that are not ingested yet, of killed sweeps and of one under way; change nothing.

    Lines that cannot be read are skipped, and so is a journal that its sweep ingests at this moment.
    """
    for folder in _left_over(storage, pair):
        with suppress(FileNotFoundError):
            yield from [row for _, row in read_rows(folder / f"{TABLES[0]}.jsonl") if row is not None]


def _recover_folder(folder: Path, warehouse: Warehouse) -> bool:
    try:
        with FileLock(folder / OWNED, timeout=0):  # the operating system releases the lock of a killed process
            ingest_readable(warehouse, TABLES[0], folder / f"{TABLES[0]}.jsonl")
            _remove_stored(folder)
    except Timeout:
        return False
    return True


def _recover_shared(warehouse: Warehouse, pair: PairKey) -> int:
    """Ingest what machines with data folders of their own had executed of a pair and did not live to store."""
    if warehouse.shared_files is None:
        return 0
    shared = SharedJournal(warehouse.shared_files, pair.suite, pair.runner)
    try:
        left = dict(shared.left_over())
    except Exception as error:  # any kind of store
        raise WarehouseError(
            f"the files of the warehouse in {warehouse.shared_files.url} cannot be read: {error}"
        ) from error
    if left:
        folder = journal_folder(warehouse.storage, f"shared-{uuid.uuid4().hex[:12]}", pair)
        folder.mkdir(parents=True)
        (folder / f"{TABLES[0]}.jsonl").write_bytes(b"".join(left.values()))
        _without_stored(folder / f"{TABLES[0]}.jsonl", warehouse)
        _recover_folder(folder, warehouse)
        warehouse.shared_files.remove(left)
    return len(left)


def _without_stored(path: Path, warehouse: Warehouse) -> None:
    """Remove the lines of executions that are stored: what became of them later must not be undone."""
    lines = {row["execution_id"]: line for line, row in read_rows(path) if row is not None}
    query = f"SELECT execution_id FROM {TABLES[0]} WHERE execution_id IN (SELECT unnest(?::VARCHAR[]))"
    stored = set(warehouse.frame(query, [list(lines)])["execution_id"])
    path.write_bytes(b"".join(line.rstrip(b"\n") + b"\n" for id_, line in lines.items() if id_ not in stored))


def _files_of(row: Row, artifacts: Path) -> list[tuple[Path, str]]:
    """Return the files that an execution names, with their SHA-256."""
    return [(artifacts / each.path, each.sha256) for each in row.get("artifacts") or ()]


def _remove_stored(folder: Path) -> None:
    """Remove a journal whose rows are committed, but not the lines that were set aside."""
    if not any(folder.glob(f"*{SET_ASIDE}")):
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in folder.iterdir():
        if path.suffix != SET_ASIDE:
            path.unlink(missing_ok=True)


def _left_over(storage: Storage, pair: PairKey) -> Iterator[Path]:
    root = storage.journals
    if root.is_dir():
        for sweep in sorted(root.iterdir()):  # oldest first
            folder = journal_folder(storage, sweep.name, pair)
            if folder.is_dir() and any(path.suffix != SET_ASIDE for path in folder.iterdir()):
                yield folder


def remove_empty_journals(storage: Storage) -> None:
    """Remove folders of journals without content. Only the holder of the sweep lock may call this."""
    folders = [path for path in storage.journals.rglob("*") if path.is_dir()]
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        if {path.name for path in folder.iterdir()} <= {OWNED}:
            shutil.rmtree(folder, ignore_errors=True)


def keep_artifacts(
    execution: Execution, artifacts: Path, folder: Callable[[], Path]
) -> tuple[tuple[Artifact, ...], bool]:
    """Return the files of an execution as artifacts, and whether its payload is small enough for the row.

    A large payload is written to the file `payload.json` in the execution's `folder`.
    """
    raw = execution.raw
    if raw is None or not (raw.files or raw.payload):
        return (), True
    stored = [_artifact(role, path, artifacts) for role, path in raw.files.items()]
    payload = to_json(raw.payload)
    if len(payload) <= INLINE_BYTES:
        return tuple(stored), True
    folder().mkdir(parents=True, exist_ok=True)
    path = folder() / "payload.json"
    path.write_bytes(payload)
    return (*stored, _artifact("payload", path, artifacts)), False


def _artifact(role: str, path: Path, root: Path) -> Artifact:
    shown = path.relative_to(root) if path.is_relative_to(root) else path
    return Artifact(role=role, path=str(shown), bytes=path.stat().st_size, sha256=file_fingerprint(path))
