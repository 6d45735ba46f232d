"""How many attempts of a runner run at once: a ceiling, and less while the provider says 429.

The limit starts at 16, doubles after every window of answers without trouble until the provider first pushes back
(slow start), then grows by a twentieth a window. A window in which a fifth or more of the answers were 429 shrinks it
by the refused share, and new attempts wait for the provider's `Retry-After`. Isolated refusals below that share are
noise: they are retried, and throttle nothing. (After TCP's congestion control, RFC 5681, with the share of refusals
instead of single losses as its signal.)
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Callable

START = 16
SMALLEST_WINDOW = 20
CONGESTED_SHARE = 0.2
CALM_SHARE = 0.1
EARLY_REFUSALS = 5
EARLY_SHARE = 0.5
GROWTH = 0.05


class AdaptiveLimit:
    """A semaphore whose size follows the provider. `clock` gives seconds."""

    def __init__(self, ceiling: int, clock: Callable[[], float], start: int = START) -> None:
        self.ceiling = max(1, ceiling)
        self.limit = float(min(self.ceiling, start))
        self.refused_total = 0
        self._clock = clock
        self._in_use = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._slow_start = True
        self._epoch = 0
        self._answered = 0
        self._refused = 0
        self._resume_at = -math.inf

    async def acquire(self) -> int:
        """Waits for a place; returns the epoch to hand to `answered`."""
        while True:
            pause = self._resume_at - self._clock()
            if pause > 0:
                await asyncio.sleep(pause)
            elif self._in_use < int(self.limit):
                self._in_use += 1
                return self._epoch
            else:
                await self._wait()

    def release(self) -> None:
        """Gives a place back."""
        self._in_use -= 1
        self._wake()

    def answered(self, epoch: int, *, refused: bool, retry_after_s: float | None = None) -> None:
        """Counts an answer; attempts begun before the last change of the limit say nothing about it."""
        self.refused_total += refused
        if epoch != self._epoch:
            return
        self._answered += 1
        self._refused += refused
        share = self._refused / self._answered
        if refused and self._refused >= EARLY_REFUSALS and share >= EARLY_SHARE:
            self._shrink(share, retry_after_s)
        elif self._answered >= max(SMALLEST_WINDOW, int(self.limit)):
            if share >= CONGESTED_SHARE:
                self._shrink(share, retry_after_s)
            elif share < CALM_SHARE:
                self._grow()
            else:
                self._new_window()

    def _shrink(self, share: float, retry_after_s: float | None) -> None:
        self.limit = max(1.0, self.limit * (1 - share / 2) if share < 1 else self.limit / 2)
        self._slow_start = False
        self._resume_at = self._clock() + (retry_after_s or 0.0)
        self._new_window()

    def _grow(self) -> None:
        larger = self.limit * 2 if self._slow_start else self.limit + max(1.0, self.limit * GROWTH)
        self.limit = min(float(self.ceiling), larger)
        self._new_window()
        self._wake()

    def _new_window(self) -> None:
        self._epoch += 1
        self._answered = self._refused = 0

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                with contextlib.suppress(ValueError):
                    self._waiters.remove(waiter)
            else:
                self._wake()  # the place this one was woken for is for the next
            raise

    def _wake(self) -> None:
        free = int(self.limit) - self._in_use
        while free > 0 and self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                free -= 1
