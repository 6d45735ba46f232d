"""Running a local program so that nothing of it is left behind: own process group, output to files, TERM then KILL."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MARKER = "EVAL_PIPELINE_EXECUTION"
GRACE_S = 5.0
_PASSES = 3
_TICK_S = 0.1
_NUMBERS_LAST_S = 10.0
_FEW = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedProcess:
    """A program that ended: its exit code (negative: the signal that ended it), its own time, where its output is."""

    exit_code: int
    duration_ms: float
    stdout: Path
    stderr: Path


async def run_program(
    command: Sequence[str],
    *,
    folder: Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout_s: float | None = None,
    grace_s: float = GRACE_S,
) -> CompletedProcess:
    """Runs a program to its end, stdout and stderr going to the files of these names in `folder`.

    Being cancelled (a time limit, Ctrl-C) ends the whole process group: SIGTERM, after `grace_s` SIGKILL, and then
    every process that still carries this run's environment marker. A caller that cancels after `timeout_s` may say so:
    it is told by TimeoutError then. Raises OSError when the program cannot be started.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stdout, stderr = folder / "stdout", folder / "stderr"
    marker = uuid.uuid4().hex
    begun = time.monotonic()
    with stdout.open("wb") as out, stderr.open("wb") as err, _input_file(stdin, folder) as source:
        process = subprocess.Popen(
            command,
            stdin=source,
            stdout=out,
            stderr=err,
            cwd=cwd,
            env={**(os.environ if env is None else env), MARKER: marker},
            start_new_session=True,
        )
    waiting = _waiting(process)
    try:
        exit_code, ended = await asyncio.shield(waiting)
    except asyncio.CancelledError:
        late = timeout_s is not None and time.monotonic() - begun >= timeout_s - _TICK_S
        await _end(process.pid, waiting, marker, grace_s)
        if late:
            raise TimeoutError from None
        raise
    _reap(process.pid, marker, began_lately=ended - begun < _NUMBERS_LAST_S)
    return CompletedProcess(exit_code=exit_code, duration_ms=(ended - begun) * 1000, stdout=stdout, stderr=stderr)


def _waiting(process: subprocess.Popen[bytes]) -> asyncio.Future[tuple[int, float]]:
    """The exit code of a program and the moment it ended: a thread sees that, however busy the event loop is."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[int, float]] = loop.create_future()

    def say(result: tuple[int, float]) -> None:
        if not ended.done():
            ended.set_result(result)

    def wait() -> None:
        result = process.wait(), time.monotonic()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(say, result)

    threading.Thread(target=wait, name="program", daemon=True).start()
    return ended


@contextlib.contextmanager
def _input_file(stdin: bytes | None, folder: Path) -> Iterator[int]:
    """stdin as a file (a program that never reads it cannot block us), or nothing at all."""
    if stdin is None:
        yield subprocess.DEVNULL
        return
    path = folder / "stdin"
    path.write_bytes(stdin)
    with path.open("rb") as file:
        yield file.fileno()


async def _end(pid: int, waiting: asyncio.Future[tuple[int, float]], marker: str, grace_s: float) -> None:
    """TERM, a time of grace, KILL; being cancelled once more ends the time of grace."""
    _signal_group(pid, signal.SIGTERM)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await asyncio.shield(waiting)
    finally:
        _reap(pid, marker)
    await asyncio.shield(waiting)


def _reap(group: int, marker: str, *, began_lately: bool = False) -> None:
    """Kills what is left of a group, and what left the group but carries the marker."""
    _signal_group(group, signal.SIGKILL)
    _kill_marked(marker, group if began_lately else None)


def _kill_marked(marker: str, first: int | None) -> None:
    """Kills what carries the marker; looks again, because what was killed may have started something meanwhile."""
    for _ in range(_PASSES):
        found = list(_marked(marker, first))
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _marked(marker: str, first: int | None) -> Iterator[int]:
    """Processes whose environment holds our marker (Linux; elsewhere the group is all we can end)."""
    if not sys.platform.startswith("linux"):
        return
    needle = f"{MARKER}={marker}".encode()
    for pid in _processes(first):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as environment:  # noqa: PTH123 — hot
            if needle in environment.read():
                yield pid


def _processes(first: int | None) -> Iterable[int]:
    """The numbers of all processes; of those since `first`, when numbers have not started over: they are given out in
    order, and looking at all of them costs more than a short program."""
    newest = _newest_process() if first is not None else 0
    if first is not None and first <= newest < first + _FEW:
        return range(first + 1, newest + 1)
    there = (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 — hot
    return [pid for pid in there if first is None or not first <= newest or first < pid <= newest]


def _newest_process() -> int:
    """The number that was given out last: the end of `/proc/loadavg`."""
    return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[-1])
