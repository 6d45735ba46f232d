"""The time of an attempt without waiting: for a free slot, for its provider's turn, for the next try of a simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Stopwatch:
    """A clock that stands still during `waiting`, also that of calls which its attempt makes of other runners."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._outer = _RUNNING.get()
        self._waited_s = 0.0
        self._waiting = 0
        self._waiting_since = 0.0

    def __call__(self) -> float:
        """Return seconds since some moment."""
        return (self._waiting_since if self._waiting else self._monotonic()) - self._waited_s

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let `waiting` inside the block stop this clock."""
        token = _RUNNING.set(self)
        try:
            yield
        finally:
            _RUNNING.reset(token)

    def stop(self) -> None:
        """Stop this clock and those of the attempts that it is part of."""
        if not self._waiting:
            self._waiting_since = self._monotonic()
        self._waiting += 1  # calls at the same time may all wait, and time passes only once
        if self._outer is not None:
            self._outer.stop()

    def resume(self) -> None:
        """Undo one `stop`."""
        self._waiting -= 1
        if not self._waiting:
            self._waited_s += self._monotonic() - self._waiting_since
        if self._outer is not None:
            self._outer.resume()


_RUNNING: ContextVar[Stopwatch | None] = ContextVar("running_stopwatch", default=None)


@contextmanager
def waiting() -> Iterator[None]:
    """Stop the clocks of the attempts that wait inside the block."""
    stopwatch = _RUNNING.get()
    if stopwatch is not None:
        stopwatch.stop()
    try:
        yield
    finally:
        if stopwatch is not None:
            stopwatch.resume()
