"""Lines of a journal: written whole or not at all, and read back so that one bad line does not block the others."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import duckdb
import orjson

from eval_pipeline.errors import WarehouseError
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.store import Warehouse

_LOG = logging.getLogger(__name__)
SET_ASIDE = ".unreadable"
"""Suffix of the file, beside a journal, with the lines that cannot be read."""
_IDENTITY = ("execution_id", "suite", "runner")
_UNUSABLE = (duckdb.ConversionException, duckdb.InvalidInputException)


class UnwritableJournal(WarehouseError):
    """A journal cannot be written, most often because the disk is full: nothing may be executed any more."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"{path} cannot be written: {error.strerror or error}; what was stored before is kept: free the disk "
            "(or raise the limit) and start again"
        )


def write_line(file: BinaryIO, line: bytes) -> None:
    """Append a whole line to an unbuffered file. Raises OSError, with the file as it was, when it does not fit."""
    size = os.fstat(file.fileno()).st_size
    rest = memoryview(line)
    try:
        while rest:
            rest = rest[file.write(rest) :]  # a full disk cuts a write short before it refuses the next one
    except OSError:
        with suppress(OSError):
            file.truncate(size)
        raise


def read_rows(path: Path) -> Iterator[tuple[bytes, Row | None]]:
    """Yield each line with its row, None where it is not a whole execution. Blank lines are skipped."""
    with path.open("rb") as lines:
        for line in lines:
            if line.strip():
                yield line, _execution(line)


def ingest_readable(warehouse: Warehouse, table: str, path: Path) -> int:
    """Ingest the lines of executions that can be read; return how many are set aside, in a file beside the journal."""
    if not path.exists():
        return 0
    total = sum(1 for _ in read_rows(path))
    bad = _without_broken_lines(path)
    bad += _ingest(warehouse, table, path, aside=path.with_suffix(SET_ASIDE))
    if bad:
        _LOG.warning(
            "%d of %d lines of an interrupted sweep's journal cannot be read; they are kept in %s, the others are "
            "stored, and what is missing is executed again",
            bad,
            total,
            path.with_suffix(SET_ASIDE),
        )
    return bad


def _execution(line: bytes) -> Row | None:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return row if isinstance(row, dict) and all(isinstance(row.get(name), str) for name in _IDENTITY) else None


def _without_broken_lines(path: Path) -> int:
    """Move the lines that are no executions out of a journal; return how many there are.

    An incomplete last line, which a killed process was writing, is dropped.
    """
    broken = [line for line, row in read_rows(path) if row is None]
    bad = [line.rstrip(b"\n") for line in broken if line.endswith(b"\n")]
    if broken:
        whole = path.with_suffix(".whole")
        with whole.open("wb") as file:
            file.writelines(line.rstrip(b"\n") + b"\n" for line, row in read_rows(path) if row is not None)
        if bad:
            _set_aside(path.with_suffix(SET_ASIDE), bad)
        whole.replace(path)
    elif not _ends_with_newline(path):
        with path.open("ab") as file:
            file.write(b"\n")  # the last execution is whole, and would be taken for an incomplete line
    return len(bad)


def _ingest(warehouse: Warehouse, table: str, path: Path, aside: Path) -> int:
    """Ingest a file; one that the tables cannot hold in halves, until the lines at fault are found and set aside."""
    try:
        warehouse.ingest({table: path})
    except _UNUSABLE:
        lines = path.read_bytes().splitlines()
        if len(lines) == 1:
            _set_aside(aside, lines)
            return 1
        half = len(lines) // 2
        return sum(_ingest_part(warehouse, table, part, aside) for part in (lines[:half], lines[half:]))
    return 0


def _ingest_part(warehouse: Warehouse, table: str, lines: list[bytes], aside: Path) -> int:
    part = aside.with_name(f"{table}.{len(lines)}.part")
    part.write_bytes(b"".join(line + b"\n" for line in lines))
    try:
        return _ingest(warehouse, table, part, aside)
    finally:
        part.unlink()


def _set_aside(path: Path, lines: list[bytes]) -> None:
    with path.open("ab") as file:
        file.writelines(line + b"\n" for line in lines)


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
