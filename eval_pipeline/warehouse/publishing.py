"""A checked copy of the warehouse for readers: a damaged or unfinished one never replaces good results."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import duckdb

from eval_pipeline.errors import WarehouseError
from eval_pipeline.exhaustion import CURE, exhaustion
from eval_pipeline.warehouse.engines import Config, opened_file

_HEADERS = 3 * 4_096
"""Bytes before the first block of a DuckDB file."""
_BLOCK = 262_144
"""Bytes of a block, its checksum included, of the files that we make."""
_LARGE = 1 << 28
"""Bytes from which a file may not be in memory."""
_BLOCK_BYTES = struct.Struct(f"<{4_096 + 5 * 8}xQ")
STORAGE_VERSION = "v1.0.0"
"""What new files are written for: the published copy opens in every DuckDB since then. A file keeps its version."""
_MAGIC_AND_VERSION = struct.Struct("<8x4sQ")
"""The start of a DuckDB file: a checksum, `DUCK`, the number of its storage version."""
_STORAGE_NUMBER = 64
"""The number of STORAGE_VERSION in a file."""
_READER: Config = {"threads": 1, "memory_limit": "64MB"}
_DAMAGE = ("Corrupt database", "Could not read enough bytes", "not a valid DuckDB database", "Failed to load metadata")
_SIZE = "SELECT total_blocks, block_size FROM pragma_database_size() WHERE database_name = current_database()"
_TABLES = "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND estimated_size > 0"
"""The tables with rows: DuckDB gives one without a size of 0, and it has no blocks."""
_USED = """SELECT greatest(block_id, coalesce(list_max(additional_block_ids), -1)) AS block_id
           FROM pragma_storage_info('{}') WHERE persistent"""
"""The blocks of a table's rows, those of its long texts included."""


@dataclass(slots=True)
class Copy:
    """A copy of a warehouse (`source`) that is made beside it (`path`) and then replaces `target`, which is removed at
    the end by its other name (`replaced`): to free a large file takes long, and the lock is not needed for it.

    `begin` and `publish` need the lock of the warehouse, which keeps its file closed; `is_needed`, `write` and
    `read_ahead`, which take long, do not. Between the first two of these the lock has to be free once: who wrote while
    the file was looked at has finished then. DuckDB starts every block with its checksum: a block is copied again if
    its checksum at `publish` is another one than `is_needed` read, or than in the copy. Only such a block can have been
    copied half written.
    """

    source: Path
    target: Path
    path: Path
    replaced: Path
    config: Config
    _size: int = 0
    _begun: bytes = b""
    _before: list[bytes] = field(default_factory=list)

    def begin(self) -> None:
        """Note which version of the file is copied: every checkpoint of DuckDB changes the headers of its file."""
        merge_log(self.source, self.config)
        with self._reported():
            self._size, self._begun = self.source.stat().st_size, _headers(self.source)

    def is_needed(self) -> bool:
        """Return whether there is something to publish; it reads a little of every block, which takes long where the
        file is not in memory. What others write meanwhile they publish themselves."""
        with self._reported():
            self._before = _checksums(self.source)
            there = self.target.is_file() and self.target.stat().st_size == self._size
            same = there and self._begun == _headers(self.target)
            return not same or _checksums(self.target) != self._before  # a damaged block has another one

    def write(self) -> None:
        """Copy the file as it is, while others may write to it."""
        with self._reported():
            shutil.copyfile(self.source, self.path)
        if self.path.stat().st_size < min(self._size, self.source.stat().st_size):  # another may have made it smaller
            raise _unpublished(self.source, "its copy is shorter than it")

    def read_ahead(self) -> None:
        """Read what `publish` reads of a large file, so that it is in memory while others wait: what is compared if
        they wrote meanwhile, and what the check of the copy opens. Write the copy to the disk, which `publish` would
        wait for."""
        if self._size < _LARGE:
            return
        with self._reported():
            _write_to_disk(self.path)
            if _headers(self.source) != _headers(self.path):
                _checksums(self.source)
                _checksums(self.path)
        with suppress(duckdb.Error, WarehouseError):  # `publish` reports what is wrong, after bringing it up to date
            _check(self.path, self.source, self.config)

    def publish(self) -> None:
        """Replace `target` by the copy. Raises WarehouseError, and leaves `target` as it is, when the warehouse is
        damaged or could not be written completely, or when the copy is not whole."""
        merge_log(self.source, self.config)
        with self._reported():
            self._bring_up_to_date()
            if self.target.exists():  # an analyst of another account may have been let in
                shutil.copymode(self.target, self.path)
            _check(self.path, self.source, self.config)
            with suppress(OSError):  # a first one, or a file system without hard links: `replace` frees what was there
                os.link(self.target, self.replaced)
            self.path.replace(self.target)

    def _bring_up_to_date(self) -> None:
        """Copy what was written since `begin`: headers, and blocks that are new or have another checksum."""
        headers = _headers(self.source)
        if headers == _headers(self.path) and self.path.stat().st_size == self.source.stat().st_size:
            return
        if _block_bytes(headers) != _BLOCK:
            shutil.copyfile(self.source, self.path)
            return
        before, copied = dict(enumerate(self._before)), dict(enumerate(_checksums(self.path)))
        with self.source.open("rb") as source, self.path.open("rb+") as copy:
            for place, checksum in enumerate(_checksums(self.source)):
                if {before.get(place), copied.get(place)} != {checksum}:
                    _copy_part(source, copy, _HEADERS + place * _BLOCK, _BLOCK)
            _copy_part(source, copy, 0, _HEADERS)
            copy.truncate(self.source.stat().st_size)

    @contextmanager
    def removed_at_the_end(self) -> Iterator[None]:
        """Remove at the end what was replaced, or the copy that replaced nothing."""
        try:
            yield
        finally:
            self.path.unlink(missing_ok=True)
            self.replaced.unlink(missing_ok=True)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except (duckdb.Error, OSError) as error:
            raise _unpublished(self.source, exhaustion(error) or first_line(error)) from error


def _write_to_disk(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _headers(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEADERS)


def _block_bytes(headers: bytes) -> int:
    """Return the bytes of a block, as the first of the two database headers has them."""
    return int(_BLOCK_BYTES.unpack_from(headers)[0]) if len(headers) == _HEADERS else 0


def _checksums(path: Path) -> list[bytes]:
    """Return the checksum that each block starts with."""
    with path.open("rb", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        return [os.pread(file.fileno(), 8, start) for start in range(_HEADERS, size, _BLOCK)]


def _copy_part(source: BinaryIO, copy: BinaryIO, start: int, length: int) -> None:
    source.seek(start)
    copy.seek(start)
    copy.write(source.read(length))


def is_readable_by_all(path: Path) -> bool:
    """Return whether a file is not written for newer clients only. A damaged one is: opening it names the damage."""
    with path.open("rb") as file:
        start = file.read(_MAGIC_AND_VERSION.size)
    if len(start) < _MAGIC_AND_VERSION.size:
        return True
    magic, number = _MAGIC_AND_VERSION.unpack(start)
    return bool(magic != b"DUCK" or number <= _STORAGE_NUMBER)


def damaged(path: Path, results: Path, error: duckdb.Error) -> WarehouseError | None:
    """Return the error that names the cure when a DuckDB error means that a file is damaged, else None."""
    if not is_damage(error):
        return None
    last = f"{results} has what was published last: to go on from there, cp {results} {path}"
    cure = last if results.exists() else "restore it from a backup"
    return WarehouseError(f"{path} cannot be opened or read, it is damaged: {first_line(error)}; {cure}")


def damaged_results(results: Path, path: Path, error: duckdb.Error) -> WarehouseError | None:
    """Return the error that names the cure when a DuckDB error means that published results are damaged, else None."""
    if not is_damage(error):
        return None
    cure = "the next eval-pipeline run publishes them anew" if path.exists() else "restore it from a backup"
    return WarehouseError(f"{results} cannot be read, it is damaged: {first_line(error)}; {cure}")


def is_damage(error: duckdb.Error) -> bool:
    """Return whether a DuckDB error means that a file is damaged, or is none of DuckDB's."""
    return any(text in str(error) for text in _DAMAGE)


def first_line(error: Exception) -> str:
    """Return the first line of a message; DuckDB's may have a stack trace after it."""
    return str(error).strip().partition("\n")[0]


def log_of(path: Path) -> Path:
    """Return the log of a database file: what was committed, and is not in the file yet."""
    return path.with_name(f"{path.name}.wal")


def merge_log(path: Path, config: Config) -> None:
    """Write everything that is in the write-ahead log into the file. Raises WarehouseError when that fails.

    Closing a file does so, unless the disk is full: a copy of the file then lacks rows, and the log fits no other file.
    """
    if not log_of(path).exists():
        return
    try:
        with duckdb.connect(str(path), config={**config}) as connection:
            connection.execute("CHECKPOINT")
            if log_of(path).exists():  # only of a transaction that was killed: DuckDB keeps it until one is written
                connection.execute("CREATE TABLE nothing (nothing INTEGER)")
                connection.execute("DROP TABLE nothing")
                connection.execute("CHECKPOINT")
    except duckdb.Error as error:
        raise _unpublished(path, exhaustion(error) or first_line(error)) from None
    if log_of(path).exists():
        raise _unpublished(path, f"its write-ahead log cannot be written into it: the disk is full; {CURE}")


def _check(copy: Path, source: Path, config: Config) -> None:
    """Raise WarehouseError for a copy of another size, or without all blocks that are in use: those at its end may
    be free, and then are not part of the file.

    A copy of the same bytes has the same rows: counting them in both files takes ten times as long.
    """
    size = copy.stat().st_size
    with opened_file(copy, {**config, **_READER}, read_only=True) as connection:
        whole = size == source.stat().st_size and _has_its_blocks(connection, size)
    if not whole:
        raise _unpublished(source, "it, or its copy, is shorter than its content")


def _has_its_blocks(connection: duckdb.DuckDBPyConnection, size: int) -> bool:
    """Return whether a database of this size has all blocks that are in use. Raises duckdb.Error when it has not."""
    ((total, block),) = connection.execute(_SIZE).fetchall()
    if total * block + _HEADERS <= size:
        return True
    tables = connection.execute(_TABLES).fetchall()
    used = " UNION ALL ".join(
        ["SELECT block_id FROM pragma_metadata_info()", *(_USED.format(name) for (name,) in tables)]
    )
    ((last,),) = connection.execute(f"SELECT coalesce(max(block_id), -1) FROM ({used})").fetchall()
    return bool((last + 1) * block + _HEADERS <= size)


def _unpublished(path: Path, reason: str) -> WarehouseError:
    return WarehouseError(f"{path} is not published, the results published before stay: {reason}")
