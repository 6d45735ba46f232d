"""One worker process as the pipeline sees it: started, written to, read from, ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from eval_pipeline.executions import worker
from eval_pipeline.executions.replies import HEADER, MOST_HEAD_BYTES, MOST_OTHER_BYTES
from eval_pipeline.executions.started_programs import owner_variables
from eval_pipeline.parsing.private_files import umask_of_programs
from eval_pipeline.parsing.redacted_output import pass_on

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[4]); "
    f"from {worker.main.__module__} import main; "
    "main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == 'shared', int(sys.argv[5]))"
)
_READ = 1 << 16
_BYTES_OF_CHARACTER = 4
"""A text is limited by its characters."""
_STDERR = 2
_TICK_S = 1
_ENDING_S = 2.0
_OUTPUT_S = 0.5
"""How long the last lines of a process that has ended may take; a program that left its group may hold its output."""
_CONTAINER_LIMITS = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
IDLE_S = 60.0
"""A worker without a call for so long is ended; the next call starts another one."""


class WorkerProcess:
    """A worker and the thread that starts and reads it.

    `received` gets every message, its head and its body, `ended` how the process ended, both in that thread. The thread
    lives as long as the process: the process ends with the thread that started it.
    """

    def __init__(
        self,
        *,
        shared: bool,
        memory_bytes: int,
        received: Callable[[WorkerProcess, list[Any], bytearray], None],
        ended: Callable[[WorkerProcess, str], None],
        is_idle: Callable[[WorkerProcess], bool],
    ) -> None:
        self.calls: dict[int, Any] = {}
        self.loaded: set[object] = set()
        self.most_bytes = 0
        self.memory_bytes = memory_bytes
        self.retiring = False
        self.blocked_by: int | None = None
        self._received = received
        self._ended = ended
        self._is_idle = is_idle
        self._used = time.monotonic()
        self._ours, self._theirs = socket.socketpair()
        self._ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _TICK_S, 0))
        self._sending = threading.Lock()
        self._backlog: deque[memoryview] = deque()
        self._process: subprocess.Popen[bytes] | None = None
        self._outputs: list[threading.Thread] = []
        self._killed = self._stopped = False
        self._thread = threading.Thread(target=self._run, args=(shared,), name="worker", daemon=True)
        self._thread.start()

    def send(self, frame: bytes) -> None:
        """Send a frame without waiting for the worker; what it does not take at once is sent by a thread."""
        self._used = time.monotonic()
        rest = memoryview(frame)
        with self._sending:
            if not self._backlog:
                with contextlib.suppress(BlockingIOError, OSError):  # a broken connection shows where it is read
                    rest = rest[self._ours.send(rest, socket.MSG_DONTWAIT) :]
                if not rest:
                    return
                threading.Thread(target=self._send_backlog, name="worker requests", daemon=True).start()
            self._backlog.append(rest)

    def kill(self) -> None:
        """End the process and everything that it started, at once."""
        self._killed = True
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Let the process end by itself, when it has carried out what it was sent."""
        self.retiring = True
        with contextlib.suppress(OSError):
            self._ours.shutdown(socket.SHUT_WR)

    def join(self) -> None:
        """Wait until the process has ended; kill it after a moment."""
        self._thread.join(_ENDING_S)
        if self._thread.is_alive():
            self.kill()
            self._thread.join(_ENDING_S)

    def _send_backlog(self) -> None:
        while True:
            with self._sending:
                if not self._backlog:
                    return
                rest = self._backlog[0]
            try:
                self._ours.sendall(rest)
            except OSError:
                return  # the process is gone, which its reader reports
            with self._sending:
                self._backlog.popleft()

    def _run(self, shared: bool) -> None:
        how = "could not be started"
        try:
            self._process = self._start(shared)
            how = self._read()
        except OSError as error:
            how = f"could not be started: {error}"
        except ValueError as error:
            how = f"sent what cannot be read: {error}"
        finally:
            self._finish(how)

    def _start(self, shared: bool) -> subprocess.Popen[bytes]:
        descriptor = self._theirs.fileno()
        path = json.dumps([str(folder) for folder in sys.path])
        mode = "shared" if shared else "alone"
        env = {**os.environ, **owner_variables()}
        command = [
            sys.executable,
            "-P",
            "-c",
            _START,
            str(descriptor),
            str(os.getpid()),
            mode,
            path,
            str(self.memory_bytes),
        ]
        output = _output_beside(sys.__stderr__)
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            bufsize=0,
            pass_fds=(descriptor,),
            env=env,
            start_new_session=True,
            umask=umask_of_programs(),
        )
        self._theirs.close()
        # Our standard output holds what a command returns, `--json` among it: what functions write is not part of it.
        self._outputs = [pass_on(pipe, _STDERR) for pipe in (process.stdout, process.stderr) if pipe]
        if self._killed:
            self._process = process
            self.kill()
        return process

    def _read(self) -> str:
        """Read until the connection or the process ends; return how it ended. Raises ValueError for what is no message,
        or is larger than what the calls under way may return: nothing of it is kept."""
        while self._read_message():
            pass  # nothing of a message is kept while the next one is waited for: it may be large
        return self._exit()

    def _read_message(self) -> bool:
        """Read one message and pass it on; return whether there was one."""
        header = self._receive(HEADER.size)
        if header is None:
            return False
        head_size, body_size = HEADER.unpack(header)
        most = _BYTES_OF_CHARACTER * self.most_bytes + MOST_OTHER_BYTES
        if head_size > MOST_HEAD_BYTES or body_size > most:
            raise ValueError(f"a message of {(head_size + body_size) / 1e6:,.0f} MB")
        content = self._receive(head_size)
        body = self._receive(body_size)
        if content is None or body is None:
            return False
        self._received(self, _head_of(content), body)
        return True

    def _receive(self, size: int) -> bytearray | None:
        """Return so many bytes; None when the connection or the process ends before."""
        data = bytearray(size)
        rest = memoryview(data)
        while rest:
            try:
                count = self._ours.recv_into(rest, min(len(rest), _READ))
            except BlockingIOError:
                if self._is_over():
                    return None
                continue
            except OSError:
                return None
            if not count:
                return None
            rest = rest[count:]
        return data

    def _is_over(self) -> bool:
        """Return whether the process has ended (a child of its own may hold the connection open); end an idle one.

        A stopped one (SIGSTOP) is ended, too: it would keep all its calls until their limits.
        """
        if self._process is None or self._process.poll() is not None:
            return True
        if _is_stopped(self._process.pid):
            self._stopped = True
            self.kill()
            return True
        if time.monotonic() - self._used > IDLE_S and self._is_idle(self):
            self.end()
        return False

    def _exit(self) -> str:
        assert self._process is not None  # it was read from
        try:
            code = self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        if self._stopped:
            return "was stopped by a signal"
        return no_memory_text(self.memory_bytes) if code == worker.NO_MEMORY else exit_text(code)

    def _finish(self, how: str) -> None:
        """Release everything; children that the function left behind end, too."""
        if self._process is not None:
            self.kill()
            self._process.wait()
        for output in self._outputs:
            output.join(_OUTPUT_S)
        self._ours.close()
        self._theirs.close()
        self._ended(self, how)


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    return False


def _head_of(content: bytearray) -> list[Any]:
    """Return the head of a message. Raises ValueError."""
    head: Any = orjson.loads(content)
    if not isinstance(head, list) or len(head) < 2 or not all(isinstance(item, str | int) for item in head):
        raise ValueError("a message without a kind")
    return head


def _output_beside(ours: object) -> int:
    """Return where a worker's output goes: into a pipe, nowhere when this process was started without the output that
    it is passed on to."""
    return subprocess.DEVNULL if ours is None else subprocess.PIPE


def no_memory_text(memory_bytes: int) -> str:
    """Return what became of a process that reached its limit of memory, in words."""
    return f"needed more memory than a worker may have: {memory_bytes / 1e6:,.0f} MB (max_memory_mb)"


def usual_memory_bytes() -> int:
    """Return the limit of memory of a worker where none is set: half of what the machine or the container has."""
    return memory_bytes() // 2


def memory_bytes() -> int:
    """Return how much memory the machine has, or the container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in _CONTAINER_LIMITS:
        with contextlib.suppress(OSError, ValueError):
            total = min(total, int(Path(name).read_text()))
    return total


def exit_text(code: int) -> str:
    """Return how a process ended in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
