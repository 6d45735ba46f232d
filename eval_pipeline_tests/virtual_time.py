"""An event loop whose clock jumps to the next timer: hours of waiting pass in no time, the same way every time.

For code that only waits on timers and on itself. Real sockets and threads answer in real time, so they belong on a
real loop.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from eval_pipeline.executions.attempts import Clock
from eval_pipeline_tests.builders import NOON

Value = TypeVar("Value")
PATIENCE_S = 2.0


class StuckError(Exception):
    """Every task waits for something that will never happen."""


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting for `timeout`, moves the clock on by it."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is not None else PATIENCE_S)
        if not ready and timeout is None:
            raise StuckError("no timer is set and no task can go on")
        if not ready and timeout is not None and timeout > 0:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` begins at 0 and jumps from timer to timer."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_virtually(main: Coroutine[Any, Any, Value]) -> Value:
    """`asyncio.run` on virtual time. Raises StuckError instead of hanging."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def virtual_clock(seed: int = 0) -> Clock:
    """The engine's clock on the running loop's time, which begins at noon, with chance from a seed."""
    loop = asyncio.get_running_loop()
    return Clock(loop.time, lambda: NOON + timedelta(seconds=loop.time()), random.Random(seed))
