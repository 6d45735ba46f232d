"""Limits of providers that a project sets: calls at once, and calls a minute. All runners of a provider share them,
graders and simulators too, and so do all processes of a shared warehouse."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict, Field

from eval_pipeline.errors import did_you_mean
from eval_pipeline.executions.limits import AdaptiveLimit
from eval_pipeline.executions.model import Runner
from eval_pipeline.executions.pauses import NO_PAUSES, Pauses, provider_of


class ProviderLimit(BaseModel):
    """What a provider allows of us."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    concurrency: int | None = Field(default=None, ge=1, description="The most calls at once")
    calls_per_minute: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="The most calls that begin in a minute, evenly spaced"
    )


class ProviderGates:
    """The limits of providers in one process, by what `provider_of` returns, or by adapter. A provider with a limit is
    not called during a pause that it requested, by `report` here or by any process in `pauses`."""

    def __init__(self, limits: Mapping[str, ProviderLimit] = MappingProxyType({}), pauses: Pauses = NO_PAUSES) -> None:
        self._pauses = pauses
        self._paused_until: dict[str, float] = {}
        self._gates = {
            name: _Gate(limit, partial(pauses.sharers, f"provider {name}")) for name, limit in limits.items()
        }

    def turn(self, runner: Runner) -> AbstractAsyncContextManager[object]:
        """Wait until a call of a runner may begin, and hold its place inside the block."""
        gate = self._gate(runner)
        return nullcontext() if gate is None else gate.turn(partial(self._pause_s, provider_of(runner)))

    def report(self, runner: Runner, seconds: float) -> None:
        """Record that a runner's provider refused a call and requested a pause."""
        if self._gate(runner) is not None:
            provider = provider_of(runner)
            self._paused_until[provider] = max(_now() + seconds, self._paused_until.get(provider, -math.inf))

    def _gate(self, runner: Runner) -> _Gate | None:
        if not self._gates:
            return None
        return self._gates.get(provider_of(runner)) or self._gates.get(runner.adapter)

    def _pause_s(self, provider: str) -> float:
        """Return the seconds until a provider may be called again; at most 0 without a pause."""
        return max(self._paused_until.get(provider, -math.inf), self._pauses.until(provider)) - _now()


NO_GATES = ProviderGates()


def unmatched_limits(limits: Iterable[str], runners: Iterable[Runner]) -> Iterator[str]:
    """Yield a warning for each limit of a provider that no runner has, with the nearest one that a runner has."""
    used = list(runners)
    names = dict.fromkeys([*map(provider_of, used), *(runner.adapter for runner in used)])
    hosts = {name.rpartition(":")[0]: name for name in names if ":" in name}
    for limit in limits:
        if limit not in names:
            guess = f"; did you mean '{hosts[limit]}'?" if limit in hosts else did_you_mean(limit, names)
            yield (
                f"`defaults.providers` in eval-pipeline.yaml limits '{limit}', which is the provider of no usable "
                f"runner: a host (with its port, if the address has one) or an adapter{guess}"
            )


class _Gate:
    """The limit of one provider; `sharers` returns how many processes have equal parts of it."""

    def __init__(self, limit: ProviderLimit, sharers: Callable[[], int]) -> None:
        most = limit.concurrency or sys.maxsize
        self._places = AdaptiveLimit(most, _now, start=most, sharers=sharers)
        self._spacing_s = 60.0 / limit.calls_per_minute if limit.calls_per_minute is not None else 0.0
        self._sharers = sharers
        self._next_at = -math.inf

    @asynccontextmanager
    async def turn(self, pause_s: Callable[[], float]) -> AsyncIterator[None]:
        while True:
            await self._places.acquire()
            try:
                if self._spacing_s:
                    await asyncio.sleep(self._next_turn_s())
                # A pause may have been requested while this call waited: its turn is over then, and its place is free.
                pause = pause_s()
                if pause <= 0:
                    yield
                    return
            finally:
                self._places.release()
            await asyncio.sleep(pause)

    def _next_turn_s(self) -> float:
        """Take the next turn; return the seconds until then."""
        now = _now()
        begins_at = max(now, self._next_at)
        self._next_at = begins_at + self._spacing_s * self._sharers()
        return begins_at - now


def _now() -> float:
    return asyncio.get_running_loop().time()
