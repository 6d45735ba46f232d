"""How long finished pairs wait for others before they are stored together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

LEAST_S, MOST_S = 5.0, 30.0
"""How long a finished pair waits at least and at most in a shared warehouse; its journal is on disk meanwhile."""
_TIMES = 8.0
OWN_S = 0.1
"""How long a finished pair waits for others in a warehouse of its own: one transaction takes longer."""
Finished = TypeVar("Finished")


class StoringPace:
    """In a shared warehouse a transaction of many pairs takes as long as one of few: finished pairs wait for others,
    `_TIMES` as long as the last transaction took, so that a busy machine does not spend its time on storing. In a
    warehouse of its own a process waits a moment only."""

    def __init__(self, *, is_shared: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_shared = is_shared
        self._clock = clock
        self.wait_s = LEAST_S if is_shared else OWN_S

    async def finished_together(self, done: asyncio.Queue[Finished], most: int) -> list[Finished]:
        """Wait for what finishes next; return it with what has finished, and what does while it waits for others."""
        together = [await done.get()]
        with suppress(TimeoutError):
            async with asyncio.timeout(self.wait_s):
                while len(together) < most:
                    together.append(await done.get())
        return together

    @contextmanager
    def storing(self) -> Iterator[None]:
        """Measure the block, which stores what finished."""
        begun = self._clock()
        yield
        if self._is_shared:
            self.wait_s = min(MOST_S, max(LEAST_S, _TIMES * (self._clock() - begun)))
