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
) -> None:
    """Carry out all pairs, in groups that no other machine carries out meanwhile."""
    executed = 0

    def note(outcomes: list[PairOutcome]) -> None:
        nonlocal executed
        executed += sum(outcome.counts.executed for outcome in outcomes)
        report(outcomes)

    async for group in claimed_pairs(leases, pairs, lambda: executed):
        await carry_out(group, note)


async def claimed_pairs(
    leases: SweepLeases, pairs: Sequence[Pair], executed: Callable[[], int]
) -> AsyncIterator[list[Pair]]:
    """Yield all pairs, in groups that no other machine carries out meanwhile; leases end when a group is stored.

    `executed` returns how many plans this process has executed: while that stays the same, others have stored what
    is left, and groups grow, since a group is a transaction.

    Pairs that another machine carries out come last: what it stored is reused then. A dead machine's pairs are free
    when its leases expire.
    """
    waiting = {pair.name: pair for pair in pairs}
    is_reported = False
    times, before = 1, executed()
    while waiting:
        most = min(MOST_AT_ONCE, times * max(FEWEST_AT_ONCE, len(waiting) // _SHARE))
        names = await asyncio.to_thread(leases.claim, list(waiting), most)
        if names:
            yield [waiting.pop(name) for name in names]
            await asyncio.to_thread(leases.release, names)
            times = times * 2 if executed() == before else 1
            before = executed()
            continue
        if not is_reported:
            await asyncio.to_thread(_report, leases, list(waiting))
            is_reported = True
        await asyncio.sleep(_LOOK_EVERY_S * (0.5 + random.random() / 2))


def _report(leases: SweepLeases, names: Sequence[PairKey]) -> None:
    holders = ", ".join(leases.holders(names))
    _LOG.warning("waiting for %d pairs that other machines carry out: %s", len(names), holders)
