"""The pairs of a sweep in a shared warehouse, some at a time: one machine carries each out, the others reuse it."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from eval_pipeline.sweeps.outcomes import PairOutcome
from eval_pipeline.sweeps.pairs import Pair
from eval_pipeline.warehouse.journal import PairKey

if TYPE_CHECKING:
    from eval_pipeline.warehouse.leases import SweepLeases

_LOG = logging.getLogger(__name__)
MOST_AT_ONCE = 64
FEWEST_AT_ONCE = 4
_SHARE = 16
"""A machine takes one in so many of the pairs that it has not settled: the rest is for up to as many others."""
_LOOK_EVERY_S = 1.0
Report = Callable[[list[PairOutcome]], None]


async def in_claimed_groups(
    leases: SweepLeases,
    pairs: Sequence[Pair],
    carry_out: Callable[[list[Pair], Report], Awaitable[None]],
    report: Report,
    *,
    reuses: bool = True,
) -> None:
    """Carry out all pairs, in groups that no other machine carries out meanwhile. `reuses` is False where this machine
    executes what others have just stored."""
    claims = _Claims(leases, {pair.name: pair for pair in pairs}, reuses=reuses)

    def note(outcomes: list[PairOutcome]) -> None:
        claims.note(outcomes)
        report(outcomes)

    async for group in claims.groups():
        await carry_out(group, note)


class _Claims:
    """The pairs of a sweep that this machine has not settled yet, by name."""

    def __init__(self, leases: SweepLeases, waiting: dict[PairKey, Pair], *, reuses: bool) -> None:
        self._leases = leases
        self._waiting = waiting
        self._reuses = reuses
        self._executed = 0
        self._stored: list[PairKey] = []
        self._is_reported = False

    def note(self, outcomes: Sequence[PairOutcome]) -> None:
        """Count what became of pairs."""
        self._executed += sum(outcome.counts.executed for outcome in outcomes)
        self._stored += [outcome.pair.name for outcome in outcomes if outcome.error is None]

    async def groups(self) -> AsyncIterator[list[Pair]]:
        """Yield all pairs in groups; leases end when a group is stored, which is one transaction.

        Groups grow while nothing is executed. What others store meanwhile is reused; it comes last, in one group once
        nobody carries out any of it. A dead machine's pairs are free when its leases expire.
        """
        times = 1
        while self._waiting:
            most = min(MOST_AT_ONCE, times * max(FEWEST_AT_ONCE, len(self._waiting) // _SHARE))
            names = await asyncio.to_thread(self._claim, most)
            if not names:
                await asyncio.sleep(_LOOK_EVERY_S * (0.5 + random.random() / 2))
                continue
            before, self._stored = self._executed, []
            yield [self._waiting.pop(name) for name in names]
            await asyncio.to_thread(self._leases.release, names, self._stored)
            times = times * 2 if self._executed == before else 1

    def _claim(self, most: int) -> list[PairKey]:
        names = list(self._waiting)
        if not self._reuses:
            claimed = self._leases.claim(names, most)
        elif not (claimed := self._leases.claim_unstored(names, most)) and not self._leases.holders(names):
            claimed = self._leases.claim(names, MOST_AT_ONCE)
        if not claimed and not self._is_reported:
            _report(self._leases, names)
            self._is_reported = True
        return claimed


def _report(leases: SweepLeases, names: Sequence[PairKey]) -> None:
    holders = ", ".join(leases.holders(names))
    _LOG.warning("waiting for %d pairs that other machines carry out: %s", len(names), holders)
