"""Run a local program without leftover processes: own process group, output to files, TERM then KILL."""

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.executions.output_guard import OutputGuard
from eval_pipeline.executions.program_watcher import all_processes, marked_processes
from eval_pipeline.executions.started_programs import owner_variables
from eval_pipeline.executions.threads import in_thread
from eval_pipeline.failures import DEFAULT_OUTPUT_MB, FailureClass
from eval_pipeline.parsing.private_files import umask_of_programs

MARKER = "EVAL_PIPELINE_EXECUTION"
GRACE_S = 5.0
WATCH_S = 0.25
_PASSES = 3
_TICK_S = 0.1
_NUMBERS_LAST_S = 10.0
_FEW = 64


class ProgramStopped(Exception):
    """A program was ended because of what it did."""

    def __init__(self, failure: FailureClass, message: str) -> None:
        super().__init__(message)
        self.failure = failure


Watch = Callable[[bool], ProgramStopped | None]
"""Looks at what a program did since the last time, in a thread; returns why it has to end. True: it ended by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedProcess:
    """A process that ended: its exit code (negative: the signal), its own duration, and its output files."""

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
    max_bytes: int = int(DEFAULT_OUTPUT_MB * 1_000_000),
    outputs: Sequence[str] = (),
    watch: Watch | None = None,
) -> CompletedProcess:
    """Run a program to its end, with stdout and stderr in files of these names in `folder`.

    Cancellation (a time limit, Ctrl-C) ends the whole process group: SIGTERM, after `grace_s` SIGKILL, then every
    process that still carries this run's environment marker; after `timeout_s` it becomes a TimeoutError. `PWD` is
    `cwd`: some programs believe it more than their folder. Raises OSError for one that cannot be started.

    A program is killed at once when its stdout, stderr or one of the files `outputs` exceeds `max_bytes`: the file is
    cut, and OutputLimitExceeded is raised. What `watch` returns is raised after the program was ended.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stdout, stderr = folder / "stdout", folder / "stderr"
    marker = uuid.uuid4().hex
    started, environment = time.monotonic(), _environment(os.environ if env is None else env, cwd, marker)
    process = _start(command, stdout, stderr, cwd=cwd, env=environment, stdin=stdin)
    # The group alone does not suffice: a child may call setsid. The marker in its environment identifies it.
    waiting, files = _exit_future(process), [stdout, stderr, *(folder / name for name in outputs)]
    guard = OutputGuard(files, max_bytes, stop=lambda: _signal_running(process.pid, waiting))
    guard.start()
    try:
        stop = await _watched(waiting, watch) if watch is not None else None
        if stop is not None:
            await _end(process.pid, waiting, marker, grace_s)
        exit_code, ended = await asyncio.shield(waiting)
    except asyncio.CancelledError:
        late = timeout_s is not None and time.monotonic() - started >= timeout_s - _TICK_S
        try:
            await _end(process.pid, waiting, marker, grace_s)
        finally:
            guard.end()
        if late:
            raise TimeoutError from None
        raise
    _reap(process.pid, marker, recent=ended - started < _NUMBERS_LAST_S)
    problem = guard.end() or stop
    if problem is not None:
        raise problem
    return CompletedProcess(exit_code=exit_code, duration_ms=(ended - started) * 1000, stdout=stdout, stderr=stderr)


async def _watched(waiting: asyncio.Future[tuple[int, float]], watch: Watch) -> ProgramStopped | None:
    """Wait for the end of a program; return why it has to end before."""
    while True:
        await asyncio.wait([waiting], timeout=WATCH_S)
        ended = waiting.done()
        stop = await in_thread(watch, ended)
        if stop is not None or ended:
            return stop


def _environment(given: Mapping[str, str], cwd: Path, marker: str) -> dict[str, str]:
    """Return the environment of a program that runs in a folder, with our marks."""
    place = {"PWD": os.path.abspath(cwd), MARKER: marker}  # noqa: PTH100 — links stay as they are
    return {name: value for name, value in given.items() if name != "OLDPWD"} | place | owner_variables()


def _start(
    command: Sequence[str], stdout: Path, stderr: Path, *, cwd: Path, env: Mapping[str, str], stdin: bytes | None
) -> subprocess.Popen[bytes]:
    """Start a program in a process group of its own."""
    with stdout.open("wb") as out, stderr.open("wb") as err, _input_file(stdin, stdout.parent) as source:
        return subprocess.Popen(
            command, stdin=source, stdout=out, stderr=err, cwd=cwd, env=env, start_new_session=True,
            umask=umask_of_programs(),
        )  # fmt: skip


def _exit_future(process: subprocess.Popen[bytes]) -> asyncio.Future[tuple[int, float]]:
    """Return a future of the exit code and end time. A thread waits, so a busy event loop does not distort the time."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[int, float]] = loop.create_future()

    def deliver(result: tuple[int, float]) -> None:
        if not ended.done():
            ended.set_result(result)

    def wait() -> None:
        result = process.wait(), time.monotonic()
        with contextlib.suppress(RuntimeError):  # the loop is closed; no task awaits the result
            loop.call_soon_threadsafe(deliver, result)

    threading.Thread(target=wait, name="program", daemon=True).start()
    return ended


@contextlib.contextmanager
def _input_file(stdin: bytes | None, folder: Path) -> Iterator[int]:
    """Provide stdin as a file, because a pipe blocks us if the program never reads it; DEVNULL without input."""
    if stdin is None:
        yield subprocess.DEVNULL
        return
    path = folder / "stdin"
    path.write_bytes(stdin)
    with path.open("rb") as file:
        yield file.fileno()


async def _end(pid: int, waiting: asyncio.Future[tuple[int, float]], marker: str, grace_s: float) -> None:
    """Send TERM, wait the grace period, send KILL. A second cancellation ends the grace period."""
    _signal_group(pid, signal.SIGTERM)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await asyncio.shield(waiting)
    finally:
        _reap(pid, marker)
    await asyncio.shield(waiting)


def _reap(group: int, marker: str, *, recent: bool = False) -> None:
    """Kill the rest of a process group, and processes that left the group but carry the marker."""
    _signal_group(group, signal.SIGKILL)
    _kill_marked(marker, group if recent else None)


def _kill_marked(marker: str, first: int | None) -> None:
    """Kill processes with the marker. Repeats, because a killed process may have started another one meanwhile."""
    for _ in range(_PASSES):
        pids = list(_marked(marker, first))
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not pids:
            return


def _signal_running(group: int, waiting: asyncio.Future[tuple[int, float]]) -> None:
    if not waiting.done():
        _signal_group(group, signal.SIGKILL)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _marked(marker: str, first: int | None) -> Iterator[int]:
    """Yield processes whose environment holds our marker (Linux only; elsewhere only the group can be ended)."""
    if not sys.platform.startswith("linux"):
        return
    yield from marked_processes(f"{MARKER}={marker}".encode(), _processes(first))


def _processes(first: int | None) -> Iterable[int]:
    """Return the ids of all processes, or of those since `first` if ids have not wrapped around.

    Ids are assigned in order, and reading all of /proc costs more than a short program.
    """
    newest = _newest_process() if first is not None else 0
    if first is not None and first <= newest < first + _FEW:
        return range(first + 1, newest + 1)
    return [pid for pid in all_processes() if first is None or not first <= newest or first < pid <= newest]


def _newest_process() -> int:
    """Return the id assigned last: the end of `/proc/loadavg`."""
    return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[-1])
