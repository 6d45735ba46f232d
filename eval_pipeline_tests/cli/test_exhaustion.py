"""A full disk, and memory that is used up, are one line with the cure; nothing that was executed is lost."""

from __future__ import annotations

import errno
import resource
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pytest

from eval_pipeline.exhaustion import MEMORY_CURE, exhaustion, exhaustion_message
from eval_pipeline_tests.cli.sample_project import CliProject

CURE = "what was stored before is kept: free the disk (or raise the limit of file sizes) and start again"


@contextmanager
def files_at_most(most_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size: what a full disk does, where only the large files meet it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def line_with_cure(text: str) -> str:
    (line,) = (line for line in text.splitlines() if CURE in line)
    return line


@pytest.mark.parametrize(
    "most_bytes",
    [200_000, pytest.param(300_000, marks=pytest.mark.slow), pytest.param(1_200_000, marks=pytest.mark.slow)],
)
def test_a_run_that_fills_the_disk_ends_with_the_cure_and_repeats_nothing(
    cli_project: CliProject, most_bytes: int
) -> None:
    with files_at_most(most_bytes):
        full = cli_project("run", "suites/greetings.yaml")
    again = cli_project("run", "suites/greetings.yaml", "--json")

    assert full.code != 0
    assert CURE in full.err
    assert [line for line in full.err.splitlines() if "disk" in line] == [line_with_cure(full.err)]
    assert "Traceback" not in full.text
    assert "Exception" not in full.text
    assert again.counts["planned"] == 6
    assert set(Counter(cli_project.calls).values()) == {1}


def test_the_file_is_named_where_an_error_names_it() -> None:
    assert exhaustion(OSError(errno.ENOSPC, "No space left on device", "/data/x")) == (
        f"the disk is full: /data/x cannot be written; {CURE}"
    )


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("database or disk is full"),
        duckdb.TransactionException('Failed to commit: Could not write file "x.wal": No space left on device'),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OSError(errno.EFBIG, "File too large"),
    ],
    ids=["SQLite", "DuckDB", "quota", "limit"],
)
def test_the_errors_of_every_library_are_recognized_also_as_a_cause(error: Exception) -> None:
    try:
        try:
            raise error
        except Exception as cause:
            raise RuntimeError("a step failed") from cause
    except RuntimeError as caught:
        assert CURE in (exhaustion(caught) or "")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        duckdb.OutOfMemoryException("Out of Memory Error: Failed to allocate block of 33554432 bytes (bad allocation)"),
        RuntimeError("can't start new thread"),
        ImportError("_duckdb.so: failed to map segment from shared object"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
    ids=["Python", "DuckDB", "thread", "library", "fork"],
)
def test_memory_that_is_used_up_is_recognized(error: Exception) -> None:
    assert (exhaustion(error) or "").endswith(MEMORY_CURE)


def test_a_limit_of_memory_that_no_library_survives_is_an_error_at_the_start() -> None:
    program = "ulimit -v 600000; exec \"$0\" -c 'from eval_pipeline.cli.entry import main; main()' schema suite"

    left = subprocess.run(["sh", "-c", program, sys.executable], capture_output=True, text=True, check=False)

    assert (left.returncode, left.stdout) == (1, "")
    assert left.stderr.startswith("error: the limit of memory, 585 MB of addresses, is too low to start: at least")


def test_another_error_is_none_of_a_exhaustion() -> None:
    assert exhaustion(OSError(errno.EACCES, "Permission denied")) is None
    assert exhaustion_message("Binder Error: no such column") is None
    assert CURE in (exhaustion_message("IO Error: No space left on device") or "")
