"""The queue of runs of `eval-pipeline dev` is closed before its runs are ended: what waits there stays queued.

Dagster's daemon would start the next queued run in the place of each one that ends, also while the UI is being ended,
and that run would fail. A file says it: closed, once it has content. The daemon shares a lock on it while it starts a
run, so that the process that ends all of them can wait until each has a process.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

QUEUE_VARIABLE = "EVAL_PIPELINE_RUN_QUEUE"
"""The file whose lock the daemon shares."""
STARTED_S = 15.0
"""How long runs that are being started may take until they have processes."""
_LOOK_EVERY_S = 0.05


def close_queue(path: str, hurry: Callable[[], bool]) -> None:
    """Let no queued run begin from now on, and wait for those that are being started."""
    with Path(path).open("wb") as file:
        file.write(b"closed")
        file.flush()
        deadline = time.monotonic() + STARTED_S
        while not _locked(file.fileno(), fcntl.LOCK_EX) and time.monotonic() < deadline and not hurry():
            time.sleep(_LOOK_EVERY_S)


def heed_closing() -> None:
    """Let the run queue of this process, a daemon of Dagster, begin no run while it is closed."""
    path = os.environ.get(QUEUE_VARIABLE)
    if path is None:
        return
    module: Any = import_module("dagster._daemon.run_coordinator.queued_run_coordinator_daemon")
    daemon = module.QueuedRunCoordinatorDaemon
    begin = daemon._dequeue_run

    def begin_if_open(*args: Any, **options: Any) -> bool:
        with begin_shared(path) as is_open:
            return is_open and begin(*args, **options)

    daemon._dequeue_run = begin_if_open


@contextmanager
def begin_shared(path: str) -> Iterator[bool]:
    """Share the lock; yields False where the queue is closed, or the process that closes it has ended."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    try:
        yield _locked(file, fcntl.LOCK_SH) and os.fstat(file).st_size == 0
    finally:
        os.close(file)


def _locked(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
