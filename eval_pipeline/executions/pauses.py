"""Pauses that a provider asked for, which hold for everyone who calls it."""

from __future__ import annotations

import math
from typing import Protocol
from urllib.parse import urlsplit

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


class NoPauses:
    """Each runner keeps its own pauses: nobody else calls its provider."""

    def report(self, provider: str, seconds: float) -> None:
        pass

    def until(self, provider: str) -> float:
        return -math.inf


NO_PAUSES = NoPauses()


def provider_of(runner: Runner) -> str:
    """Return what shares a rate limit with a runner: the host of its address, else adapter and model."""
    for name in _ADDRESSES:
        address = runner.settings.get(name)
        if isinstance(address, str) and (host := urlsplit(address).netloc.rpartition("@")[2]):
            return host
    return f"{runner.adapter} {runner.model or runner.name}"
