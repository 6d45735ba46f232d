"""Processes of this machine: which one this is, and whether one that was marked earlier is gone.

A process id alone names nothing for long: it is given again. A mark has the start of the process with it, and the
machine, so that a process of another machine is never taken for a dead one of this.
"""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROC = Path("/proc")
_START = 19
"""Where the start is among the fields of `/proc/PID/stat` that follow the name of the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMark:
    """A process: its machine, the boot and the process namespace there (a container has its own), its id and start.

    Parts that the system does not provide are empty.
    """

    host: str
    boot: str
    namespace: str
    pid: int
    start: str

    def __str__(self) -> str:
        """Return the mark as one line, which `parse_mark` reads."""
        return "|".join((self.host, self.boot, self.namespace, str(self.pid), self.start))

    @property
    def is_gone(self) -> bool:
        """Return whether the process certainly ended; False where that cannot be known, as for other machines."""
        here = this_process()
        if self.host != here.host:
            return False
        if self.boot != here.boot:
            return True
        return self.namespace == here.namespace and has_ended(self.pid, self.start)


def parse_mark(text: str) -> ProcessMark | None:
    """Return the mark that a line holds, None for any other text."""
    parts = text.split("|")
    if len(parts) != 5 or not parts[3].isdecimal():
        return None
    host, boot, namespace, pid, start = parts
    return ProcessMark(host=host, boot=boot, namespace=namespace, pid=int(pid), start=start)


def this_process() -> ProcessMark:
    """Return the mark of the calling process."""
    return _mark_of(os.getpid())


@cache
def _mark_of(pid: int) -> ProcessMark:
    """Return the mark of a process that cannot be another one meanwhile: the calling one."""
    return ProcessMark(host=_host(), boot=_boot(), namespace=_namespace(), pid=pid, start=process_start(pid) or "")


os.register_at_fork(after_in_child=_mark_of.cache_clear)


def process_start(pid: int) -> str | None:
    """Return when a process of this machine started, in the system's own terms; None for one that ended.

    The empty text when the system does not report it: without `/proc` and `ps`, or for a hidden process.
    """
    if PROC.joinpath("self").exists():
        return _start_in_proc(pid)
    try:
        listed = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return listed.stdout.strip() or None


def has_ended(pid: int, start: str) -> bool:
    """Return whether the process of this id that started then ended; False where that cannot be known."""
    now = process_start(pid)
    return now is None or bool(now and start and now != start)


def _start_in_proc(pid: int) -> str | None:
    try:
        state, *fields = PROC.joinpath(str(pid), "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None if _is_unknown(pid) else ""
    except PermissionError:
        return ""
    return None if state in "ZX" else fields[_START - 1]  # a zombie ended; its parent did not take notice yet


def _is_unknown(pid: int) -> bool:
    """Return whether no process has this id; `/proc` may hide those of other users."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


@cache
def _host() -> str:
    machine = _first_line(Path("/etc/machine-id"))[:8]
    return f"{socket.gethostname()}.{machine}".replace("|", "-")


@cache
def _boot() -> str:
    return _first_line(PROC / "sys" / "kernel" / "random" / "boot_id")


@cache
def _namespace() -> str:
    with suppress(OSError):
        return PROC.joinpath("self", "ns", "pid").readlink().name
    return ""


def _first_line(path: Path) -> str:
    with suppress(OSError):
        return path.read_text("utf-8").strip()
    return ""
