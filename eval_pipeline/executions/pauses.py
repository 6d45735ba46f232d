"""What holds for everyone who calls a provider: pauses that it asked for, and the concurrency of a runner."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Protocol
from urllib.parse import urlsplit

from eval_pipeline.executions.limits import NEVER_SLOWED, AdaptiveLimit
from eval_pipeline.executions.model import Runner

_ADDRESSES = ("base_url", "url", "endpoint")


class Pauses(Protocol):
    """The pauses of providers; times are of the monotonic clock."""

    def report(self, provider: str, seconds: float) -> None:
        """Note that a provider refused a call, and when it may be called again."""
        ...

    def until(self, provider: str) -> float:
        """Return when a provider may be called again; minus infinity without a pause."""
        ...

    def sharers(self, runner: str) -> int:
        """Note that this process uses a runner; return how many processes do, this one included."""
        ...

    def slow(self, provider: str, share: float) -> None:
        """Note that a provider refused this share of the calls of this process, without saying for how long."""
        ...

    def slowed(self, provider: str) -> tuple[int, float]:
        """Return the number of the last such report of another process, and its share; 0 without one."""
        ...


class NoPauses:
    """Each runner keeps its own pauses: nobody else calls its provider."""

    def report(self, provider: str, seconds: float) -> None:
        pass

    def until(self, provider: str) -> float:
        return -math.inf

    def sharers(self, runner: str) -> int:
        return 1

    def slow(self, provider: str, share: float) -> None:
        pass

    def slowed(self, provider: str) -> tuple[int, float]:
        return NEVER_SLOWED


NO_PAUSES = NoPauses()


def limit_of(runner: Runner, most: int, clock: Callable[[], float], pauses: Pauses) -> AdaptiveLimit:
    """Return the limit of a runner's attempts in this process. A pause of its provider holds back all processes, and
    refusals that one has make the others slower; they share what the runner itself sets as its `concurrency`. Other
    limits are of each process."""
    provider = provider_of(runner)
    return AdaptiveLimit(
        most,
        clock,
        paused_until=partial(pauses.until, provider),
        sharers=partial(pauses.sharers, runner.name) if runner.concurrency is not None else lambda: 1,
        slow=partial(pauses.slow, provider),
        slowed=partial(pauses.slowed, provider),
    )


def provider_of(runner: Runner) -> str:
    """Return what shares a rate limit with a runner: the host of its address, else adapter and model."""
    for name in _ADDRESSES:
        address = runner.settings.get(name)
        if isinstance(address, str) and (host := urlsplit(address).netloc.rpartition("@")[2]):
            return host
    return f"{runner.adapter} {runner.model or runner.name}"
