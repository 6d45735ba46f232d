"""Programs that this process starts, and theirs, end when it ends, even by SIGKILL.

Each has a mark in its environment: who started it, and for which data folder. A watcher, one small process for all,
ends them once this process is gone; what a killed watcher leaves ends with the next sweep in the data folder.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eval_pipeline.executions import program_watcher
from eval_pipeline.processes import ProcessMark, parse_mark, this_process

OWNER = "EVAL_PIPELINE_OWNER"
"""The variable with the mark: process, `|`, data folder."""
_FOLDER_DIGITS = 16
_KEPT = ("PATH", "LD_LIBRARY_PATH", "PYTHONHOME")
"""What the watcher gets of our environment: no mark, so that the watcher of an outer pipeline spares it."""
_turn = threading.Lock()
_watched: dict[int, str] = {}
"""The mark of this process by its id, once it has a watcher: a forked process has none."""


def owner_variables() -> dict[str, str]:
    """Return the environment variable that marks a program as one of this process, which is watched from now on."""
    own, inherited = _mark(), os.environ.get(OWNER, "")
    return {OWNER: inherited if inherited.startswith(f"{own}|") else f"{own}|"}


@contextmanager
def marked(folder: Path) -> Iterator[None]:
    """Mark everything that is started inside the block, also by functions of users, as belonging to a data folder."""
    before = os.environ.get(OWNER)
    os.environ[OWNER] = f"{this_process()}|{_digits(folder)}"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(OWNER, None)
        else:
            os.environ[OWNER] = before


def end_own() -> None:
    """Kill the programs that this process started."""
    program_watcher.kill_marked(own_mark())


def end_programs_of(owner: ProcessMark) -> int:
    """Kill the programs that a process started; return how many."""
    return program_watcher.kill_marked(_variable(str(owner)))


def own_mark() -> bytes:
    """Return how the environment of the programs that this process started is recognized."""
    return _variable(str(this_process()))


def end_orphans(folder: Path) -> int:
    """Kill the programs that pipelines which are gone started for a data folder; return how many."""
    ended, digits = 0, _digits(folder)
    for pid in program_watcher.all_processes():
        owner = _owner_of(program_watcher.environment_of(pid), digits)
        if owner is not None and owner.is_gone:
            ended += end_programs_of(owner)
    return ended


def _mark() -> str:
    """Return the mark of this process, which has a watcher from now on."""
    with _turn:
        if os.getpid() not in _watched:
            mark = str(this_process())
            _start_watcher(mark)
            _watched[os.getpid()] = mark
        return _watched[os.getpid()]


def _start_watcher(mark: str) -> None:
    command = [sys.executable, "-I", "-S", program_watcher.__file__, str(os.getpid()), os.fsdecode(_variable(mark))]
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    nothing = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in range(3)]
    with suppress(OSError, NotImplementedError, AttributeError):  # the next sweep ends what goes on
        os.posix_spawn(sys.executable, command, environment, file_actions=nothing, setsid=True)


def _variable(mark: str) -> bytes:
    return f"{OWNER}={mark}|".encode()


def _owner_of(environment: bytes, digits: str) -> ProcessMark | None:
    """Return who started the program with an environment for a data folder; None for any other program."""
    if f"|{digits}".encode() not in environment:  # that of nearly every process: hot
        return None
    for variable in environment.split(b"\0"):
        name, _, value = variable.decode("utf-8", "replace").partition("=")
        owner, _, folder = value.rpartition("|")
        if name == OWNER and folder == digits:
            return parse_mark(owner)
    return None


def _digits(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:_FOLDER_DIGITS]
