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


class _Counts:
    def __init__(self, executed: int) -> None:
        self.executed = executed
        self.counts = self


class _AllFree:
    """Leases of a machine that is alone."""

    def claim(self, pairs: Sequence[PairKey], most: int) -> list[PairKey]:
        return list(pairs[:most])

    def release(self, pairs: Sequence[PairKey]) -> None:
        pass


@pytest.mark.parametrize(
    ("executed", "sizes"), [(1, [4] * 10), (0, [4, 8, 16, 12])], ids=["executes", "reuses what others stored"]
)
def test_groups_grow_while_nothing_is_executed(executed: int, sizes: list[int]) -> None:
    pairs = [cast(Pair, _Named(PairKey("s", f"r{number}"))) for number in range(40)]
    groups: list[int] = []

    async def carry_out(group: list[Pair], note: Callable[[list[PairOutcome]], None]) -> None:
        groups.append(len(group))
        note([cast(PairOutcome, _Counts(executed)) for _ in group])

    asyncio.run(in_claimed_groups(cast(Any, _AllFree()), pairs, carry_out, lambda outcomes: None))

    assert groups == sizes
