"""Ends the programs of a process as soon as it is gone, however it ended: a program of its own.

    python -I -S program_watcher.py PID MARK

Programs are found by the mark in their environment: a parent-death signal comes when the *thread* that started them
ends, and does not reach their own children. Imports nothing but Python's own: a start costs 10 ms.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterable, Iterator

_PAUSES_S = (0.0, 0.02, 0.1, 0.5)
"""Before each pass: a program that was being started at the first one has its environment at a later one."""
_LOOK_EVERY_S = 0.2


def marked_processes(mark: bytes, pids: Iterable[int]) -> Iterator[int]:
    """Yield those of the processes whose environment holds a mark (Linux only)."""
    for pid in pids:
        if mark in environment_of(pid):
            yield pid


def all_processes() -> list[int]:
    """Return the ids of all processes; none where the system has no /proc."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 — hot
    except OSError:
        return []


def environment_of(pid: int) -> bytes:
    """Return the environment that a process was started with, empty where it cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 — hot
            return file.read()
    except OSError:
        return b""


def kill_marked(mark: bytes) -> int:
    """Kill the processes with a mark, and the process groups that they lead; return how many there are."""
    pids = [pid for pid in marked_processes(mark, all_processes()) if pid != os.getpid()]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)
    return len(pids)


def wait_for_end(pid: int) -> None:
    """Return once the parent process, which has this id, is gone."""
    with contextlib.suppress(AttributeError, OSError):
        descriptor = os.pidfd_open(pid)
        if os.getppid() == pid:
            select.select([descriptor], [], [])
    while os.getppid() == pid:
        time.sleep(_LOOK_EVERY_S)


def main() -> None:
    """Wait, then end what is left."""
    pid, mark = int(sys.argv[1]), os.fsencode(sys.argv[2])
    wait_for_end(pid)
    for pause in _PAUSES_S:
        time.sleep(pause)
        kill_marked(mark)


if __name__ == "__main__":
    main()
