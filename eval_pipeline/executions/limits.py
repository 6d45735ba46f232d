"""How many attempts of a runner run at once: a ceiling, and less while the provider says 429.

The limit starts at 16 and is judged by windows: the attempts begun since it last changed, as many as it is wide. It
doubles after every window without trouble until the provider first pushes back (slow start), then grows by a twentieth
a window. When a fifth or more is refused, it shrinks by the refused share, and new attempts wait for the provider's
`Retry-After`; refusals come in faster than answers, so the window need not be over. Isolated refusals below that share
are noise: they are retried, and throttle nothing. (After TCP's congestion control, RFC 5681, with the share of refusals
instead of single losses as its signal.)
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

START = 16
SMALLEST_WINDOW = 20
DECISIVE_SHARE = 0.8
CONGESTED_SHARE = 0.2
CALM_SHARE = 0.1
EARLY_REFUSALS = 5
GROWTH = 0.05


class StartToken(NamedTuple):
    """What an attempt was begun under: the limit's how-manieth value, and whether it is one of that window."""

    epoch: int
    in_window: bool


class AdaptiveLimit:
    """A semaphore whose size follows the provider. `clock` gives seconds."""

    def __init__(self, ceiling: int, clock: Callable[[], float], start: int = START) -> None:
        self.ceiling = max(1, ceiling)
        self.limit = float(min(self.ceiling, start))
        self._clock = clock
        self._in_use = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._slow_start = True
        self._epoch = 0
        self._resume_at = -math.inf
        self._retry_after_s = 0.0
        self._new_window()

    async def acquire(self) -> None:
        """Waits for a place."""
        while True:
            pause = self._resume_at - self._clock()
            if pause > 0:
                await asyncio.sleep(pause)
            elif self._in_use < int(self.limit):
                self._in_use += 1
                return
            else:
                await self._wait()

    def release(self) -> None:
        """Gives a place back."""
        self._in_use -= 1
        self._wake()

    def record_start(self) -> StartToken:
        """Counts an attempt that begins, in a place acquired before."""
        self._begun += 1
        return StartToken(self._epoch, self._begun <= self._window_size())

    def record_result(self, ticket: StartToken, *, refused: bool, retry_after_s: float | None = None) -> None:
        """Counts an answer; attempts begun before the last change of the limit say nothing about it."""
        if ticket.epoch != self._epoch:
            return
        self._refused += refused
        self._retry_after_s = max(self._retry_after_s, retry_after_s or 0.0) if refused else self._retry_after_s
        if ticket.in_window:
            self._answered += 1
            self._refused_in_window += refused
        if refused and self._refused >= max(EARLY_REFUSALS, CONGESTED_SHARE * self._begun):
            self._shrink(self._refused / self._begun)
        elif self._answered >= DECISIVE_SHARE * self._window_size():
            self._judge(self._refused_in_window / self._answered)

    def _window_size(self) -> int:
        """Until there is a refusal, a window need not be large enough to tell a share."""
        untroubled = self._slow_start and not self._refused
        return int(self.limit) if untroubled else max(SMALLEST_WINDOW, int(self.limit))

    def _judge(self, share: float) -> None:
        if share >= CONGESTED_SHARE:
            self._shrink(share)
        elif share < CALM_SHARE:
            self._grow()
        else:
            self._new_window()

    def _shrink(self, share: float) -> None:
        self.limit = max(1.0, self.limit * (1 - share))
        self._slow_start = False
        self._resume_at = self._clock() + self._retry_after_s
        self._new_window()

    def _grow(self) -> None:
        larger = self.limit * 2 if self._slow_start else self.limit + max(1.0, self.limit * GROWTH)
        self.limit = min(float(self.ceiling), larger)
        self._new_window()
        self._wake()

    def _new_window(self) -> None:
        self._epoch += 1
        self._begun = self._refused = 0
        self._answered = self._refused_in_window = 0
        self._retry_after_s = 0.0

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
