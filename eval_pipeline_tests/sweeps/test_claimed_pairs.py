"""How many pairs a machine claims at once in a shared warehouse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from eval_pipeline.sweeps.claimed_pairs import in_claimed_groups
from eval_pipeline.sweeps.outcomes import PairOutcome
from eval_pipeline.sweeps.pairs import Pair
from eval_pipeline.warehouse.journal import PairKey


class _Named:
    def __init__(self, name: PairKey) -> None:
        self.name = name


class _Outcome:
    def __init__(self, name: PairKey, executed: int) -> None:
        self.executed = executed
        self.counts = self
        self.pair = _Named(name)
        self.error = "cannot be stored" if name.suite == "e" else None


class _Leases:
    """Leases of a machine beside others, which store `held` once they were asked about, and stored `stored` since it
    began."""

    def __init__(self, stored: Sequence[PairKey] = (), held: Sequence[PairKey] = ()) -> None:
        self.known_as_stored: list[PairKey] = []
        self._stored, self._held = list(stored), list(held)

    def claim(self, pairs: Sequence[PairKey], most: int) -> list[PairKey]:
        return [pair for pair in pairs if pair not in self._held][:most]

    def claim_unstored(self, pairs: Sequence[PairKey], most: int) -> list[PairKey]:
        return [pair for pair in self.claim(pairs, len(pairs)) if pair not in self._stored][:most]

    def holders(self, pairs: Sequence[PairKey]) -> list[str]:
        held = [str(pair) for pair in pairs if pair in self._held]
        self._stored, self._held = [*self._stored, *self._held], []
        return held

    def release(self, pairs: Sequence[PairKey], stored: Sequence[PairKey]) -> None:
        self.known_as_stored += stored


def _groups(
    leases: _Leases,
    pairs: Sequence[PairKey],
    executed: Callable[[PairKey], int] = lambda name: 1,
    *,
    reuses: bool = True,
) -> list[list[PairKey]]:
    """Return the groups in which a machine carries out pairs; none of `e` can be stored."""
    groups: list[list[PairKey]] = []

    async def carry_out(group: list[Pair], note: Callable[[list[PairOutcome]], None]) -> None:
        groups.append([pair.name for pair in group])
        note([cast(PairOutcome, _Outcome(pair.name, executed(pair.name))) for pair in group])

    named = [cast(Pair, _Named(name)) for name in pairs]
    asyncio.run(in_claimed_groups(cast(Any, leases), named, carry_out, lambda outcomes: None, reuses=reuses))
    return groups


PAIRS = [PairKey("s", f"r{number}") for number in range(40)]


@pytest.mark.parametrize(
    ("executed", "sizes"), [(1, [4] * 10), (0, [4, 8, 16, 12])], ids=["executes", "reuses what others stored"]
)
def test_groups_grow_while_nothing_is_executed(executed: int, sizes: list[int]) -> None:
    groups = _groups(_Leases(), PAIRS, lambda name: executed)

    assert [len(group) for group in groups] == sizes


def test_what_others_store_meanwhile_is_one_group_after_they_have_ended() -> None:
    groups = _groups(_Leases(stored=PAIRS[:20], held=PAIRS[30:]), PAIRS)

    assert [len(group) for group in groups] == [4, 4, 2, 30]
    assert [name for group in groups[:3] for name in group] == PAIRS[20:30]


def test_what_others_stored_is_no_different_where_it_is_executed_again() -> None:
    groups = _groups(_Leases(stored=PAIRS[:20]), PAIRS, reuses=False)

    assert [len(group) for group in groups] == [4] * 10


def test_others_know_of_pairs_that_are_stored_not_of_those_that_cannot_be() -> None:
    leases = _Leases()

    _groups(leases, [PairKey("s", "a"), PairKey("e", "a")])

    assert leases.known_as_stored == [PairKey("s", "a")]
