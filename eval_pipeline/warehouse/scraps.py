"""Temporary files beside the warehouse: their names tell whose they are, and those of dead processes are removed."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.processes import has_ended, this_process

_COPIES = ("results.*.tmp*", "warehouse.*.tmp*", "warehouse.*.compact*")
"""Copies of the database that are made under the lock of the warehouse, and those that older versions published."""
_SPOOLED = (".*.jsonl", ".answer.*.parquet", ".results.*.duckdb*", ".lake.*.tmp")
_OLD_S = 86_400.0
"""The age above which a file is nobody's, when its process cannot be looked up: that of another machine or version."""


def scratch_path(folder: Path, stem: str, suffix: str) -> Path:
    """Return a new path for a temporary file of this process."""
    process = this_process()
    return folder / f".{stem}.{_machine()}-{process.pid}-{process.start}-{uuid.uuid4().hex[:8]}{suffix}"


def remove_scraps(folder: Path) -> None:
    """Remove temporary files that dead processes left in the folder of a warehouse; the caller holds its lock."""
    for path in (*_copies(folder), *_spooled(folder)):
        with suppress(OSError):  # they cost space and nothing else
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def remove_left_over(folder: Path) -> None:
    """Remove what dead processes left, in a folder where others may be at work: their files have names of their own."""
    for path in _spooled(folder):
        with suppress(OSError):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _copies(folder: Path) -> Iterator[Path]:
    for pattern in _COPIES:
        # DuckDB writes what does not fit into memory into `warehouse.duckdb.tmp`, while it has the database open
        yield from (path for path in folder.glob(pattern) if path.name != "warehouse.duckdb.tmp")


def _spooled(folder: Path) -> Iterator[Path]:
    for pattern in _SPOOLED:
        yield from (path for path in folder.glob(pattern) if _is_left_over(path))


def _is_left_over(path: Path) -> bool:
    machine, _, rest = path.name.split(".")[-2].partition("-")
    pid, _, start = rest.rpartition("-")[0].partition("-")
    if machine == _machine() and pid.isdecimal():
        return has_ended(int(pid), start)
    with suppress(OSError):
        return time.time() - path.stat().st_mtime > _OLD_S
    return False


def _machine() -> str:
    """A short name of what a process id belongs to: machine, boot and process namespace."""
    process = this_process()
    return fingerprint([process.host, process.boot, process.namespace])[:8]
