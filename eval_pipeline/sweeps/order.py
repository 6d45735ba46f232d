"""The times that stored rows are ordered by. They follow the wall clock, and never go back: a clock that was ahead once
must not make everything that is stored later look old."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from eval_pipeline.warehouse import queries
from eval_pipeline.warehouse.store import Warehouse

_STEP = timedelta(microseconds=1)


def wall_clock() -> datetime:
    """Return the time of this machine, in UTC."""
    return datetime.now(UTC)


class OrderClock:
    """Times after everything that is stored, each later than the one before; `wall` is the clock that they follow."""

    def __init__(self, wall: Callable[[], datetime] = wall_clock) -> None:
        self.wall = wall
        self._turn = threading.Lock()
        self._last: datetime | None = None

    def now(self) -> datetime:
        """Return the time of the wall clock, or the next moment after the last one where that is later."""
        return self.of(self.wall())

    def of(self, moment: datetime) -> datetime:
        """Return a moment, or the next one after the last where that is later."""
        with self._turn:
            if self._last is not None and moment <= self._last:
                moment = self._last + _STEP
            self._last = moment
            return moment

    def follow(self, warehouse: Warehouse) -> None:
        """Go on after everything that a warehouse holds."""
        newest = queries.newest_moment(warehouse)
        with self._turn:
            if newest is not None and (self._last is None or newest > self._last):
                self._last = newest
