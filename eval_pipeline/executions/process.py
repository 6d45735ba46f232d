"""Running a local program so that nothing of it is left behind: own process group, output to files, TERM then KILL."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MARKER = "EVAL_PIPELINE_EXECUTION"
GRACE_S = 5.0
_PASSES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A program that ended: its exit code (negative: the signal that ended it) and where its output is."""

    exit_code: int
    stdout: Path
    stderr: Path


async def run_program(
    command: Sequence[str],
    *,
    folder: Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    grace_s: float = GRACE_S,
) -> Finished:
    """Runs a program to its end, stdout and stderr going to files in `folder`.

    Being cancelled (a time limit, Ctrl-C) ends the whole process group: SIGTERM, after `grace_s` SIGKILL, and then
    every process that still carries this run's environment marker. Raises OSError when it cannot be started.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stdout, stderr = folder / "stdout", folder / "stderr"
    marker = uuid.uuid4().hex
    process = None
    try:
        with stdout.open("wb") as out, stderr.open("wb") as err, _input_file(stdin, folder) as source:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=source,
                stdout=out,
                stderr=err,
                cwd=cwd,
                env={**(os.environ if env is None else env), MARKER: marker},
                start_new_session=True,
            )
        exit_code = await process.wait()
    except asyncio.CancelledError:
        if process is None:
            _kill_marked(marker)  # cancelled while it was being started
        else:
            await _end(process, marker, grace_s)
        raise
    _reap(process.pid, marker)
    return Finished(exit_code=exit_code, stdout=stdout, stderr=stderr)


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


async def _end(process: asyncio.subprocess.Process, marker: str, grace_s: float) -> None:
    """TERM, a time of grace, KILL; being cancelled once more ends the time of grace."""
    _signal_group(process.pid, signal.SIGTERM)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await process.wait()
    finally:
        _reap(process.pid, marker)
    await process.wait()


def _reap(group: int, marker: str) -> None:
    """Kills what is left of a group, and what left the group but carries the marker."""
    _signal_group(group, signal.SIGKILL)
    _kill_marked(marker)


def _kill_marked(marker: str) -> None:
    """Kills what carries the marker; looks again, because what was killed may have started something meanwhile."""
    for _ in range(_PASSES):
        found = list(_marked(marker))
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _marked(marker: str) -> Iterator[int]:
    """Processes whose environment holds our marker (Linux; elsewhere the group is all we can end)."""
    if not sys.platform.startswith("linux"):
        return
    needle = f"{MARKER}={marker}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if needle in (entry / "environ").read_bytes():
                    yield int(entry.name)
