"""Signals that end the process `eval-pipeline`: what they do at each moment, and the exit code.

The command runs in a thread of its own, and the main thread waits for its end and for signals. An exception that is
raised wherever the code happens to be, as Python's KeyboardInterrupt is, would be swallowed by some libraries and
turned into errors of their own by others. Imports little: signals are handled from the first moment on.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

from eval_pipeline.stopping import StopRequest

HANDLED = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
EXIT_SIGNAL = 128
"""The exit code of a process that a signal ended is this and the signal's number, as shells have it."""
ORDERLY_S = 20.0
"""How long a command that ends in order may take: half of what service managers grant."""
HURRY_S = 5.0
"""How long after a second signal."""
WAIT_S = 0.5
"""How long after a signal a command may wait for a lock of another process."""
_LOOK_EVERY_S = 0.1
_ENDED = 0
_BYTES_AT_ONCE = 4_096
_STDERR = 2
_PRINT_S = 0.5
_SHOW_CURSOR = b"\x1b[?25h"


class Signals:
    """The signals of a process, and what its command does when one arrives.

    A command ends at once unless it called `end_in_order`: then `stop` is requested, and the command ends by itself; a
    second signal ends the programs that it started and shortens the time, a third one ends the process at once. It
    also ends at once where `waiting_since`, the beginning of a wait for another process, is too long ago.
    `summary` returns what is said at the end: what is kept, and how to go on.
    """

    def __init__(
        self,
        end_programs: Callable[[], object] = lambda: None,
        waiting_since: Callable[[], float | None] = lambda: None,
    ) -> None:
        self.stop = StopRequest()
        self.summary: Callable[[], str] = lambda: ""
        self.received: list[int] = []
        self._end_programs = end_programs
        self._waiting_since = waiting_since
        self._orderly = False
        self._deadline: float | None = None
        self._signaled = 0.0
        self._reads, self._writes = os.pipe()
        self._wakes, self._woken = os.pipe()
        for descriptor in (self._wakes, self._woken):
            os.set_blocking(descriptor, False)

    @property
    def exit_code(self) -> int | None:
        """The exit code that a signal demands; None without one."""
        return EXIT_SIGNAL + self.received[0] if self.received else None

    def install(self) -> None:
        """Handle the signals from now on.

        Those that the process was started to ignore stay ignored: SIGHUP by `nohup`, SIGINT by a script's `&`.
        """
        handled = [number for number in HANDLED if signal.getsignal(number) is not signal.SIG_IGN]
        for number in handled:
            signal.signal(number, self._note)
        # The system may deliver a signal to any thread; only this wakes the main thread, which then calls `_note`.
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        _leave_to_forked_processes(handled)

    def end_in_order(self, summary: Callable[[], str]) -> StopRequest:
        """Let the command end by itself from now on; return the request that it has to follow."""
        self.summary, self._orderly = summary, True
        return self.stop

    def run(self, command: Callable[[], object]) -> None:
        """Call the command in a thread, and return when it ends; the process ends here when a signal demands it."""

        def call() -> None:
            try:
                command()
            finally:
                os.write(self._writes, bytes([_ENDED]))

        threading.Thread(target=call, name="command", daemon=True).start()
        while (number := self._next()) != _ENDED:
            self._take(number)

    def _note(self, number: int, frame: object) -> None:
        """Pass a signal to the main thread."""
        os.write(self._writes, bytes([number]))

    def _next(self) -> int:
        """Return the next signal or the end of the command; the process ends here when its time is over."""
        ready: list[int] = []
        while self._reads not in ready:
            ready, _, _ = select.select([self._reads, self._wakes], [], [], self._pause())
            if not ready and self._is_over():
                self.leave()
            if self._wakes in ready:
                os.read(self._wakes, _BYTES_AT_ONCE)
        return os.read(self._reads, 1)[0]

    def _pause(self) -> float | None:
        """Return how long to wait for the next signal; None: for ever."""
        return None if self._deadline is None else max(0.0, min(_LOOK_EVERY_S, self._deadline - time.monotonic()))

    def _is_over(self) -> bool:
        """Return whether the time of a command that ends in order is over."""
        now, since = time.monotonic(), self._waiting_since()
        waits_s = now - max(since, self._signaled) if since is not None else 0.0
        return waits_s > WAIT_S or (self._deadline is not None and now >= self._deadline)

    def _take(self, number: int) -> None:
        self.received.append(number)
        if not self._orderly or len(self.received) > 2:
            self.leave()
        if len(self.received) == 1:
            self._signaled = time.monotonic()
            self._deadline = time.monotonic() + ORDERLY_S
            _print("interrupted: ending what is under way (once more: at once)")
            self.stop.request()
        else:
            self._deadline = time.monotonic() + HURRY_S
            self._end_programs()

    def leave(self) -> NoReturn:
        """End the process at once: what is stored is stored, and what is not is carried out by the next run."""
        self._end_programs()
        _print(f"interrupted{self.summary()}", _SHOW_CURSOR if os.isatty(2) else b"")
        os._exit(self.exit_code or EXIT_SIGNAL + signal.SIGINT)


def _leave_to_forked_processes(handled: Sequence[int]) -> None:
    """Let a process that is forked from this one end of the signals.

    They are blocked while it is forked: Python drops what a new process receives before it runs Python code, and that
    process would write to the pipes of this one.
    """

    def block() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, handled)

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, handled)

    def restore() -> None:
        signal.set_wakeup_fd(-1)
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
        unblock()

    if hasattr(os, "register_at_fork"):  # not on every system
        os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=restore)


def _print(text: str, before: bytes = b"") -> None:
    """Write a line to stderr, whose buffer another thread may hold; a terminal that is gone is no error.

    A pipe that is full, or a terminal that is stopped, gets no line: writing would wait for its reader for ever.
    """
    with suppress(OSError):
        _, writable, _ = select.select([], [_STDERR], [], _PRINT_S)
        if writable:
            os.write(_STDERR, before + text.encode() + b"\n")
