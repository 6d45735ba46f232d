"""Limits of time for an attack in this process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class TookTooLong(BaseException):
    """An attack did not end in time; nothing that catches errors catches it."""


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Raise TookTooLong in the main thread when the block takes longer."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise TookTooLong(f"took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
