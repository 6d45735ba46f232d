"""Adaptive concurrency of a runner's attempts: a ceiling, lowered while the provider returns HTTP 429.

The limit starts at 16 and is adjusted per window. A window is as many attempts as the limit is wide, started since the
limit last changed. The limit doubles after every window without refusals until the provider first refuses (slow start);
then it grows by a twentieth per window. When a fifth or more is refused, it shrinks by the refused share, and new
attempts wait for the provider's `Retry-After`; refusals arrive faster than answers, so the window need not be complete.
Isolated refusals below that share are noise: they are retried and do not lower the limit. (After TCP's congestion
control, RFC 5681, with the share of refusals instead of single losses as its signal.)
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
MOST_FOR_OTHERS = 0.25
"""The largest share by which the refusals of another process shrink a limit."""
OWN_EVIDENCE_S = 3.0
"""For so long after a limit shrank by refusals of its own, those of others do not shrink it."""
NEVER_SLOWED = (0, 0.0)


class StartToken(NamedTuple):
    """Identifies the window of an attempt: the epoch of the limit, and whether the attempt counts in its window."""

    epoch: int
    in_window: bool


class AdaptiveLimit:
    """A semaphore whose size follows the provider's refusals. `clock` returns seconds, `paused_until` when a pause ends
    that was requested of others, and `sharers` how many processes share the ceiling. `slow` reports to other processes
    the share that was refused when the limit shrinks, `slowed` returns the number of the last such report of another
    process, and its share."""

    def __init__(
        self,
        ceiling: int,
        clock: Callable[[], float],
        start: int = START,
        paused_until: Callable[[], float] = lambda: -math.inf,
        sharers: Callable[[], int] = lambda: 1,
        slow: Callable[[float], None] = lambda share: None,
        slowed: Callable[[], tuple[int, float]] = lambda: NEVER_SLOWED,
    ) -> None:
        self.ceiling = max(1, ceiling)
        self.limit = float(min(self.ceiling, start))
        self._clock = clock
        self._paused_until = paused_until
        self._sharers = sharers
        self._slow, self._slowed = slow, slowed
        self._seen = NEVER_SLOWED[0]
        self._shrunk_at = -math.inf
        self._in_use = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._slow_start = True
        self._epoch = 0
        self._resume_at = -math.inf
        self._retry_after_s = 0.0
        self._new_window()

    async def acquire(self) -> None:
        """Wait for a slot."""
        while True:
            self._follow_others()
            pause = max(self._resume_at, self._paused_until()) - self._clock()
            if pause > 0:
                await asyncio.sleep(pause)
            elif self._in_use < self._most():
                self._in_use += 1
                return
            else:
                await self._wait()

    def release(self) -> None:
        """Return a slot."""
        self._in_use -= 1
        self._wake()

    def record_start(self) -> StartToken:
        """Count an attempt that starts in an acquired slot."""
        self._started += 1
        return StartToken(self._epoch, self._started <= self._window_size())

    def record_result(self, token: StartToken, *, refused: bool, retry_after_s: float | None = None) -> None:
        """Count a result. Results of attempts started before the last change of the limit are ignored."""
        # An attempt of an older epoch ran under another limit, so its outcome is no evidence about this one.
        if token.epoch != self._epoch:
            return
        self._refused += refused
        self._retry_after_s = max(self._retry_after_s, retry_after_s or 0.0) if refused else self._retry_after_s
        if token.in_window:
            self._finished += 1
            self._refused_in_window += refused
        if refused and self._refused >= max(EARLY_REFUSALS, CONGESTED_SHARE * self._started):
            self._shrink(self._refused / self._started)
        elif self._finished >= DECISIVE_SHARE * self._window_size():
            self._adjust(self._refused_in_window / self._finished)

    def _window_size(self) -> int:
        """Return the window's size in attempts. Without refusals no share is estimated, so a small window suffices."""
        unthrottled = self._slow_start and not self._refused
        return int(self.limit) if unthrottled else max(SMALLEST_WINDOW, int(self.limit))

    def _adjust(self, share: float) -> None:
        if share >= CONGESTED_SHARE:
            self._shrink(share)
        elif share < CALM_SHARE:
            self._grow()
        else:
            self._new_window()

    def _shrink(self, share: float) -> None:
        self.limit = max(1.0, self.limit * (1 - share))
        self._slow_start = False
        self._shrunk_at = self._clock()
        self._resume_at = self._shrunk_at + self._retry_after_s
        self._slow(share)
        self._new_window()

    def _follow_others(self) -> None:
        """Shrink where another process was refused: the provider is the same, and this one would be next."""
        number, share = self._slowed()
        if number in (NEVER_SLOWED[0], self._seen):
            return
        self._seen = number
        if self._clock() - self._shrunk_at > OWN_EVIDENCE_S:
            self.limit = max(1.0, self.limit * (1 - min(share, MOST_FOR_OTHERS)))
            self._slow_start = False
            self._new_window()

    def _grow(self) -> None:
        larger = self.limit * 2 if self._slow_start else self.limit + max(1.0, self.limit * GROWTH)
        self.limit = min(float(self.ceiling), larger)
        self._new_window()
        self._wake()

    def _new_window(self) -> None:
        self._epoch += 1
        self._started = self._refused = 0
        self._finished = self._refused_in_window = 0
        self._retry_after_s = 0.0

    def _most(self) -> int:
        """Return how many slots there are: by the limit, and by this process's share of the ceiling, at least one."""
        return min(int(self.limit), max(1, self.ceiling // self._sharers()))

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
                self._wake()  # pass the slot of this cancelled waiter on to the next
            raise

    def _wake(self) -> None:
        free = self._most() - self._in_use
        while free > 0 and self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                free -= 1
