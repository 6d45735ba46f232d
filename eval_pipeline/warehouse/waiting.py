"""Waiting for a lock that another process holds: who holds it is said at once, and a stop ends the wait."""

from __future__ import annotations

import math
import multiprocessing
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import orjson
from filelock import BaseFileLock, Timeout

from eval_pipeline.errors import WarehouseError
from eval_pipeline.fingerprints import to_json
from eval_pipeline.stopping import StopRequest

_LOOK_EVERY_S = 0.1
_COMMAND_CHARS = 100
_begun: dict[int, float] = {}
"""When the wait of each thread that waits began."""


def waiting_since() -> float | None:
    """Return when the longest wait that is under way in this process began, by the monotonic clock; None without."""
    return min(list(_begun.values()), default=None)


@contextmanager
def held(
    lock: BaseFileLock,
    report: Callable[[str], object],
    stop: StopRequest | None = None,
    *,
    silent_s: float = 0.0,
    timeout_s: float = math.inf,
) -> Iterator[None]:
    """Hold a lock inside the block. A wait of more than `silent_s` calls `report` with what holds it.

    A process writes beside the lock who it is. Without that the text does not name the holder. Raises Stopped while
    waiting, and WarehouseError after `timeout_s`.
    """
    record = Path(lock.lock_file).with_suffix(".holder")
    _begun[threading.get_ident()] = time.monotonic()
    try:
        if not _acquired(lock, silent_s):
            report(f"waiting for {_holder(record)}")
            _wait(lock, stop or StopRequest(), record, timeout_s)
    finally:
        _begun.pop(threading.get_ident(), None)
    try:
        with suppress(OSError):  # a full disk must not keep a sweep from going on
            record.write_bytes(to_json({"pid": os.getpid(), "command": _own_command(), "since": datetime.now()}))
        yield
    finally:
        record.unlink(missing_ok=True)
        lock.release()


def _wait(lock: BaseFileLock, stop: StopRequest, record: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not lock.is_locked:
        stop.check()
        if time.monotonic() > deadline:
            raise WarehouseError(f"{lock.lock_file} is held by {_holder(record)}: waited {timeout_s:g} s; end it first")
        _acquired(lock, _LOOK_EVERY_S)


def _acquired(lock: BaseFileLock, seconds: float) -> bool:
    """Return whether the lock became free within some seconds. Who holds it without need learns that it is wanted."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if time.monotonic() >= deadline:
                return False
            with suppress(OSError):
                os.utime(lock.lock_file)
            time.sleep(_LOOK_EVERY_S / 2)
        else:
            return True


def last_wanted(lock_file: Path) -> int | None:
    """Return a number that changes when somebody waits for a lock; None when the file is gone."""
    try:
        return lock_file.stat().st_mtime_ns
    except OSError:
        return None


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
