"""Python programs and commands as processes of their own that start in 30 ms: forked where everything is imported.

One process per test session imports the pipeline with Dagster, and forks for each program that a test starts. A program
has its own arguments, folder, environment, streams, session and signals, and a real exit code. Use it wherever a test
needs a process and is not about how one starts; a process of the interpreter costs 1.5 to 3 s of CPU instead.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import eval_pipeline
from eval_pipeline.cli.leaving import quick_exit

COMMAND = "from eval_pipeline.cli.entry import main; main()"
"""The program that is the command `eval-pipeline`."""
PATIENCE_S = 180.0
_REPOSITORY = Path(__file__).parent.parent
_ASK_FOR_PLUG_INS = ("eval_pipeline.cli.export", "eval_pipeline.cli.convert")
"""Modules that look for installed plug-ins when they are imported: a program may have others than this process."""
_LONGEST_REQUEST = 2**20
_BYTES_AT_ONCE = 2**16


class Forked:
    """A forked program: what `subprocess.Popen` has of it. A `with` block kills it where it goes on at the end."""

    def __init__(self, replies: int, stdout: int, stderr: int) -> None:
        self._replies = os.fdopen(replies, "rb", buffering=0)
        self.stdout = os.fdopen(stdout, encoding="utf-8")
        self.stderr = os.fdopen(stderr, encoding="utf-8")
        answer = self._replies.readline()
        assert answer, "the process that forks has ended: what it printed says why"
        self.pid = int(answer)
        self.returncode: int | None = None

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        self.wait()
        for stream in (self._replies, self.stdout, self.stderr):
            stream.close()

    def poll(self) -> int | None:
        """Return the exit code, None while the program goes on; negative is the signal that ended it."""
        return self._code_within(0.0)

    def wait(self, timeout: float = PATIENCE_S) -> int:
        """Return the exit code once there is one. Raises TimeoutExpired."""
        code = self._code_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"the forked process {self.pid}", timeout)
        return code

    def _code_within(self, timeout: float) -> int | None:
        if self.returncode is None and select.select([self._replies], [], [], timeout)[0]:
            self.returncode = os.waitstatus_to_exitcode(int(self._replies.readline()))
        return self.returncode

    def communicate(self, timeout: float = PATIENCE_S) -> tuple[str, str]:
        """Return what the program prints from now on, once it has ended. Raises TimeoutExpired."""
        printed = {stream.fileno(): b"" for stream in (self.stdout, self.stderr)}
        unread, deadline = set(printed), time.monotonic() + timeout
        while unread:
            ready, _, _ = select.select(unread, [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise subprocess.TimeoutExpired(f"the forked process {self.pid}", timeout)
            for stream in ready:
                part = os.read(stream, _BYTES_AT_ONCE)
                printed[stream] += part
                unread -= set() if part else {stream}
        self.wait(max(0.0, deadline - time.monotonic()))
        out, err = (text.decode() for text in printed.values())
        return out, err

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start_python(source: str, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Forked:
    """Start `python -c source arguments…` in a forked process that reads nothing and has a session of its own."""
    request = {"source": source, "arguments": arguments, "cwd": str(cwd or Path.cwd()), "env": dict(env or os.environ)}
    pipes = [os.pipe() for _ in range(3)]
    socket.send_fds(_server_that_lives(), [json.dumps(request).encode()], [writes for _, writes in pipes])
    for _, writes in pipes:
        os.close(writes)
    return Forked(*(reads for reads, _ in pipes))


def run_python(source: str, *arguments: str, **where: Any) -> subprocess.CompletedProcess[str]:
    """Run `python -c source arguments…` in a forked process to its end; as `start_python` otherwise."""
    with start_python(source, *arguments, **where) as program:
        out, err = program.communicate()
        return subprocess.CompletedProcess(list(arguments), program.wait(), out, err)


def start_command(*arguments: str, **where: Any) -> Forked:
    """Start `eval-pipeline arguments…` in a forked process."""
    return start_python(COMMAND, *arguments, **where)


def run_command(*arguments: str, **where: Any) -> subprocess.CompletedProcess[str]:
    """Run `eval-pipeline arguments…` in a forked process to its end."""
    return run_python(COMMAND, *arguments, **where)


def _server_that_lives() -> socket.socket:
    server, requests = _server()
    if server.poll() is not None:  # killed, or it could not import everything: not for all later tests
        _server.cache_clear()
        server, requests = _server()
    return requests


@functools.cache
def _server() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start the process that forks, once; it ends with this one, or when this one closes the socket."""
    from eval_pipeline_tests.new_data import blank_folder  # imports Dagster, which few tests need

    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "eval_pipeline_tests.forks", str(its.fileno()), str(blank_folder())]
    server = subprocess.Popen(
        command, cwd=_REPOSITORY, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
    )
    its.close()

    def end() -> None:
        ours.close()
        server.wait(PATIENCE_S)

    atexit.register(end)
    return server, ours


# The process that forks


def _serve(requests: socket.socket) -> dict[str, Any] | None:
    """Fork for each request: return it in the new process, and None at the end in this one."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([requests.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, _BYTES_AT_ONCE)
            _tell_ended(running)
        if requests.fileno() not in ready:
            continue
        text, (*handed,), _, _ = socket.recv_fds(requests, _LONGEST_REQUEST, 3)
        if not text:
            return None
        child = os.fork()
        if child == 0:
            for descriptor in (requests.detach(), woken, wakes, *running.values()):
                os.close(descriptor)
            return _become(json.loads(text), *handed)
        running[child] = handed[0]
        os.write(handed[0], b"%d\n" % child)
        for descriptor in handed[1:]:
            os.close(descriptor)


def _tell_ended(running: dict[int, int]) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            replies = running.pop(ended[0], None)
            if replies is None:  # none that was asked for
                continue
            with suppress(BrokenPipeError):  # nobody waits for it
                os.write(replies, b"%d\n" % ended[1])
            os.close(replies)


def _become(request: dict[str, Any], replies: int, stdout: int, stderr: int) -> dict[str, Any]:
    """Make this process one that was just started as the request says."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.close(replies)
    for stream, standard in ((stdout, 1), (stderr, 2)):
        os.dup2(stream, standard)
        os.close(stream)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    tempfile.tempdir = None  # the environment may name another
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.path[:0] = ["", *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv = ["-c", *request["arguments"]]
    return request


def _import_everything() -> None:
    for module in pkgutil.walk_packages(eval_pipeline.__path__, "eval_pipeline."):
        if not module.name.startswith(_ASK_FOR_PLUG_INS):
            _import_if_installed(module.name)
    new_data = importlib.import_module("eval_pipeline_tests.new_data")
    new_data.copy_new_databases(Path(sys.argv[2]))


def _import_if_installed(name: str) -> None:
    """Import a module, but for one that needs an extra which is not installed."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "eval_pipeline":
            raise


def _carry_out(request: dict[str, Any]) -> None:
    """Run the source of a request as the main module of this process, which ends with it."""
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    with quick_exit():
        exec(request["source"], vars(main))
        sys.exit(0)


if __name__ == "__main__":
    _import_everything()
    if (_request := _serve(socket.socket(fileno=int(sys.argv[1])))) is not None:
        _carry_out(_request)
