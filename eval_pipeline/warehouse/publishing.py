"""A checked copy of the warehouse for readers: a damaged or unfinished one never replaces good results."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import duckdb

from eval_pipeline.errors import WarehouseError

_HEADERS = 3 * 4_096
"""Bytes before the first block of a DuckDB file."""
_DAMAGE = ("Corrupt database", "Could not read enough bytes", "not a valid DuckDB database", "Failed to load metadata")
Config = Mapping[str, str | int]


def publish_copy(source: Path, target: Path, config: Config) -> None:
    """Replace `target` by a copy of a warehouse that no one has open. Raises WarehouseError, and leaves `target` as it
    is, when the warehouse is damaged or could not be written completely, or when the copy is not like it."""
    rows = _checkpointed(source, config)
    copy = target.with_suffix(f".{os.getpid()}.tmp")
    try:
        shutil.copyfile(source, copy)
        if _rows_of_copy(copy) != rows:
            raise _unpublished(source, "the copy has other rows than the warehouse")
        copy.replace(target)
    except (duckdb.Error, OSError) as error:
        raise _unpublished(source, str(error)) from error
    finally:
        copy.unlink(missing_ok=True)


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


def _checkpointed(path: Path, config: Config) -> dict[str, int]:
    """Write everything that is in the write-ahead log into the file; return the number of rows of each table."""
    try:
        with duckdb.connect(str(path), config={**config}) as connection:
            connection.execute("CHECKPOINT")
            rows = _rows(connection, path)
    except duckdb.Error as error:
        raise _unpublished(path, first_line(error)) from None
    if path.with_name(f"{path.name}.wal").exists():
        raise _unpublished(path, "its write-ahead log cannot be written into it: is the disk full?")
    return rows


def _rows_of_copy(path: Path) -> dict[str, int]:
    with duckdb.connect(str(path), read_only=True) as connection:
        return _rows(connection, path)


def _rows(connection: duckdb.DuckDBPyConnection, path: Path) -> dict[str, int]:
    """The number of rows by table, as the file's own metadata has it: counting takes 40 times as long."""
    blocks = connection.execute("SELECT used_blocks * block_size FROM pragma_database_size()").fetchone()
    if blocks is not None and blocks[0] + _HEADERS > path.stat().st_size:
        raise _unpublished(path, "it is shorter than its content")
    return dict(connection.execute("SELECT table_name, estimated_size FROM duckdb_tables()").fetchall())


def _unpublished(path: Path, reason: str) -> WarehouseError:
    return WarehouseError(f"{path} is not published, the results published before stay: {reason}")
