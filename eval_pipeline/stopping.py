"""A request to stop, from whoever started something to whatever carries it out: checked at its own points, or noticed
by a callback. Nothing is interrupted wherever it happens to be."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_INTERRUPTED_QUERY = "Query interrupted"


def is_interruption(error: BaseException) -> bool:
    """Return whether an error is a KeyboardInterrupt, or what DuckDB makes of one while it executes a query."""
    return isinstance(error, KeyboardInterrupt) or (
        isinstance(error, RuntimeError) and str(error) == _INTERRUPTED_QUERY
    )


class Stopped(BaseException):
    """A stop was requested. Not an Exception: what turns the errors of foreign code into values must not catch it."""


class StopRequest:
    """A request that one thread makes and others follow; it is never taken back."""

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._turn = threading.Lock()
        self._callbacks: list[Callable[[], object]] = []

    @property
    def requested(self) -> bool:
        return self._requested.is_set()

    def request(self) -> None:
        """Request the stop, and call what waits for it. A second request has no effect."""
        with self._turn:
            if self._requested.is_set():
                return
            self._requested.set()
            callbacks = list(self._callbacks)
        for callback in callbacks:
            callback()

    def check(self) -> None:
        """Raise Stopped once a stop is requested."""
        if self.requested:
            raise Stopped

    @contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call back, in the thread that requests, when a stop is requested inside the block or was before."""
        with self._turn:
            self._callbacks.append(callback)
            late = self._requested.is_set()
        try:
            if late:
                callback()
            yield
        finally:
            with self._turn:
                self._callbacks.remove(callback)
