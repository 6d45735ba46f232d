"""Waiting for a lock that another process holds: who holds it is said at once, and a stop ends the wait."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import orjson
from filelock import BaseFileLock, Timeout

from eval_pipeline.fingerprints import to_json
from eval_pipeline.stopping import StopRequest

_LOOK_EVERY_S = 0.1
_COMMAND_CHARS = 100


@contextmanager
def held(lock: BaseFileLock, report: Callable[[str], object], stop: StopRequest) -> Iterator[None]:
    """Hold a lock inside the block. Before a wait `report` is called with what holds it; raises Stopped while waiting.

    A process writes beside the lock who it is. Without that the text does not name the holder.
    """
    record = Path(lock.lock_file).with_suffix(".holder")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        report(f"waiting for {_holder(record)}")
        _wait(lock, stop)
    try:
        with suppress(OSError):  # a full disk must not keep a sweep from going on
            record.write_bytes(to_json({"pid": os.getpid(), "command": _own_command(), "since": datetime.now()}))
        yield
    finally:
        record.unlink(missing_ok=True)
        lock.release()


def _wait(lock: BaseFileLock, stop: StopRequest) -> None:
    while not lock.is_locked:
        stop.check()
        with suppress(Timeout):
            lock.acquire(timeout=_LOOK_EVERY_S, poll_interval=_LOOK_EVERY_S / 2)


def _holder(record: Path) -> str:
    """Return the process that holds a lock, in words."""
    try:
        holder = orjson.loads(record.read_bytes())
        return f"`{holder['command']}`, process {int(holder['pid'])}, under way since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _own_command() -> str:
    """Return the command of this process, as short as a message needs it."""
    if multiprocessing.parent_process() is not None:
        return "a run of the Dagster UI"
    text = shlex.join([Path(sys.argv[0]).name or "python", *sys.argv[1:]])
    return text if len(text) <= _COMMAND_CHARS else f"{text[: _COMMAND_CHARS - 1]}…"
