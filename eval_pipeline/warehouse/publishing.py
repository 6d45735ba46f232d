"""A checked copy of the warehouse for readers: a damaged or unfinished one never replaces good results."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path

import duckdb

from eval_pipeline.errors import WarehouseError
from eval_pipeline.exhaustion import CURE, exhaustion

_HEADERS = 3 * 4_096
"""Bytes before the first block of a DuckDB file."""
STORAGE_VERSION = "v1.0.0"
"""What new files are written for: the published copy opens in every DuckDB since then. A file keeps its version."""
_MAGIC_AND_VERSION = struct.Struct("<8x4sQ")
"""The start of a DuckDB file: a checksum, `DUCK`, the number of its storage version."""
_STORAGE_NUMBER = 64
"""The number of STORAGE_VERSION in a file."""
_READER: dict[str, str | bool | int | float | list[str]] = {"threads": 1, "memory_limit": "64MB"}
_DAMAGE = ("Corrupt database", "Could not read enough bytes", "not a valid DuckDB database", "Failed to load metadata")
_USED = """SELECT greatest(block_id, coalesce(list_max(additional_block_ids), -1)) AS block_id
           FROM pragma_storage_info('{}') WHERE persistent"""
"""The blocks of a table's rows, those of its long texts included."""
Config = Mapping[str, str | int]


def publish_copy(source: Path, target: Path, config: Config) -> None:
    """Replace `target` by a copy of a warehouse that no one has open. Raises WarehouseError, and leaves `target` as it
    is, when the warehouse is damaged or could not be written completely, or when the copy is not whole."""
    merge_log(source, config)
    copy = target.with_suffix(f".{os.getpid()}.tmp")
    try:
        shutil.copyfile(source, copy)
        if target.exists():  # an analyst of another account may have been let in
            shutil.copymode(target, copy)
        _check(copy, source)
        copy.replace(target)
    except (duckdb.Error, OSError) as error:
        raise _unpublished(source, exhaustion(error) or first_line(error)) from error
    finally:
        copy.unlink(missing_ok=True)


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
    if not any(text in str(error) for text in _DAMAGE):
        return None
    last = f"{results} has what was published last: to go on from there, cp {results} {path}"
    cure = last if results.exists() else "restore it from a backup"
    return WarehouseError(f"{path} cannot be opened or read, it is damaged: {first_line(error)}; {cure}")


def first_line(error: Exception) -> str:
    """Return the first line of a message; DuckDB's may have a stack trace after it."""
    return str(error).strip().partition("\n")[0]


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.wal")


def merge_log(path: Path, config: Config) -> None:
    """Write everything that is in the write-ahead log into the file. Raises WarehouseError when that fails.

    Closing a file does so, unless the disk is full: a copy of the file then lacks rows, and the log fits no other file.
    """
    if not _log_of(path).exists():
        return
    try:
        with duckdb.connect(str(path), config={**config}) as connection:
            connection.execute("CHECKPOINT")
    except duckdb.Error as error:
        raise _unpublished(path, exhaustion(error) or first_line(error)) from None
    if _log_of(path).exists():
        raise _unpublished(path, f"its write-ahead log cannot be written into it: the disk is full; {CURE}")


def _check(copy: Path, source: Path) -> None:
    """Raise WarehouseError for a copy of another size, or without all blocks that are in use: those at its end may
    be free, and then are not part of the file.

    A copy of the same bytes has the same rows: counting them in both files takes ten times as long.
    """
    size = copy.stat().st_size
    with duckdb.connect(str(copy), read_only=True, config=_READER) as connection:
        whole = size == source.stat().st_size and _has_its_blocks(connection, size)
    if not whole:
        raise _unpublished(source, "it, or its copy, is shorter than its content")


def _has_its_blocks(connection: duckdb.DuckDBPyConnection, size: int) -> bool:
    """Return whether a database of this size has all blocks that are in use. Raises duckdb.Error when it has not."""
    ((total, block),) = connection.execute("SELECT total_blocks, block_size FROM pragma_database_size()").fetchall()
    if total * block + _HEADERS <= size:
        return True
    tables = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    used = " UNION ALL ".join(
        ["SELECT block_id FROM pragma_metadata_info()", *(_USED.format(name) for (name,) in tables)]
    )
    ((last,),) = connection.execute(f"SELECT coalesce(max(block_id), -1) FROM ({used})").fetchall()
    return bool((last + 1) * block + _HEADERS <= size)


def _unpublished(path: Path, reason: str) -> WarehouseError:
    return WarehouseError(f"{path} is not published, the results published before stay: {reason}")
