"""Run git without prompts, without the caller's `GIT_*`, within a time limit, and without leftover processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from eval_pipeline.executions.started_programs import owner_variables
from eval_pipeline.parsing.private_files import umask_of_programs

TIME_LIMIT_S = 300.0
_LOOKUP_LIMIT_S = 30.0
_KEPT = (
    "GIT_SSH",
    "GIT_SSL_",
    "GIT_CONFIG_",
    "GIT_PROXY_",
    "GIT_LFS_",
)  # how to reach a server; everything about repositories is dropped
_QUIET = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C.UTF-8",
}
# Disable everything that outlives the command (housekeeping, file system monitor) and programs that a repository
# configures.
_PLAIN = (
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
)
_ERROR_CHARS = 600
_USER_IN_URL = re.compile(r"(?<=://)[^/\s@]+@")
_CHUNK = 1 << 16


class GitFailure(Exception):
    """A git command failed; the message is the end of its standard error."""


def git_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for git commands."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or _is_kept(name)}
    return {**inherited, **_QUIET, **(extra or {})}


def _is_kept(name: str) -> bool:
    return name.startswith(_KEPT)


def rev_parse(folder: Path | str, name: str) -> str | None:
    """Return the id of the commit that a name refers to in a folder's repository.

    None without a repository, such a commit, or git.
    """
    command = ["git", "rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}"]
    try:
        done = subprocess.run(
            command, cwd=folder, env=git_environment(), capture_output=True, timeout=_LOOKUP_LIMIT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace").strip() or None if done.returncode == 0 else None


async def git(
    *arguments: str | Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    most_bytes: int | None = None,
    time_limit_s: float = TIME_LIMIT_S,
) -> bytes:
    """Return the standard output of a git command. Beyond `most_bytes` the output is cut and git is killed.

    Raises GitFailure. Cancellation kills git and its child processes.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            "git",
            *_PLAIN,
            *(str(argument) for argument in arguments),
            cwd=cwd,
            env={**git_environment(env), **owner_variables()},
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            umask=umask_of_programs(),
        )
    except (OSError, ValueError) as error:
        raise GitFailure(f"git cannot be started: {error}") from error
    try:
        async with asyncio.timeout(time_limit_s):
            output, stderr = await _communicate(process, stdin, most_bytes)
            exit_code = await process.wait()
    except TimeoutError:
        raise GitFailure(f"git {arguments[0]} did not end within {time_limit_s:g} s") from None
    finally:
        _kill(process)
        await process.wait()
    if exit_code != 0 and (most_bytes is None or len(output) < most_bytes):
        raise GitFailure(error_tail(stderr) or f"git {arguments[0]} ended with exit code {exit_code}")
    return output


async def _communicate(
    process: asyncio.subprocess.Process, stdin: bytes | None, most_bytes: int | None
) -> tuple[bytes, bytes]:
    assert process.stdout is not None
    assert process.stderr is not None
    _, output, stderr = await asyncio.gather(
        _write(process, stdin), _read(process, process.stdout, most_bytes), process.stderr.read()
    )
    return output, stderr


async def _write(process: asyncio.subprocess.Process, stdin: bytes | None) -> None:
    if stdin is None or process.stdin is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()


async def _read(process: asyncio.subprocess.Process, stream: asyncio.StreamReader, most_bytes: int | None) -> bytes:
    if most_bytes is None:
        return await stream.read()
    output = b""
    while len(output) < most_bytes and (chunk := await stream.read(_CHUNK)):
        output += chunk
    if len(output) >= most_bytes:
        _kill(process)
    return output[:most_bytes]


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def error_tail(stderr: bytes) -> str:
    """Return the end of git's standard error, without hints, progress and passwords."""
    lines = [line.rpartition("\r")[2].strip() for line in stderr.decode(errors="replace").split("\n")]
    messages = [line for line in lines if line and not line.startswith(("hint:", "remote: Counting", "Cloning into"))]
    return without_password(" ".join(messages))[-_ERROR_CHARS:]


def without_password(text: str) -> str:
    """Return the text without the user and password of its URLs."""
    return _USER_IN_URL.sub("", text)
