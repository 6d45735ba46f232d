"""Ranks with their uncertainty: which sides of a board differ, by paired tests of all pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eval_pipeline.statistics.multiple_tests import holm
from eval_pipeline.statistics.pair_sums import PairSums, p_values

SIGNIFICANT = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTest:
    """Two sides (by their places), over the cases that both have: how many, mean of first - second, p-value as is and
    adjusted for all pairs. `difference` and `p_value` are None without common cases; `adjusted` is then 1."""

    first: int
    second: int
    shared: int
    difference: float | None
    p_value: float | None
    adjusted: float

    @property
    def better(self) -> int | None:
        """The place of the better side, None where the data does not show which it is."""
        if self.adjusted >= SIGNIFICANT or not self.difference:
            return None
        return self.first if self.difference > 0 else self.second


def tests_of_sums(sums: Sequence[tuple[int, int, PairSums]]) -> list[PairTest]:
    """Return the tests of pairs (first, second, sums of their differences) with Holm's adjustment."""
    values = p_values([each for *_, each in sums])
    return adjusted_tests(
        (first, second, each.shared, each.mean, value)
        for (first, second, each), value in zip(sums, values, strict=True)
    )


def adjusted_tests(tests: Iterable[tuple[int, int, int, float | None, float | None]]) -> list[PairTest]:
    """Return tests of pairs (first, second, shared, difference, p-value) with Holm's adjustment for all of them."""
    tests = list(tests)
    adjusted = iter(holm([p_value for *_, p_value in tests if p_value is not None]))
    return [
        PairTest(
            first=first, second=second, shared=shared, difference=difference, p_value=p_value,
            adjusted=1.0 if p_value is None else next(adjusted),
        )
        for first, second, shared, difference, p_value in tests
    ]  # fmt: skip


def rank_intervals(count: int, tests: Sequence[PairTest]) -> list[tuple[int, int]]:
    """Return the best and the worst rank that each of `count` sides may have.

    As many sides as are shown to be better rank before it, as many as are shown to be worse after it. All intervals
    together hold the true ranks in 95 % of cases (Mohamad, Goeman and van Zwet 2019, arXiv 1708.02428; with Holm's
    tests).
    """
    before, after = [0] * count, [0] * count
    for test in tests:
        better = test.better
        if better is not None:
            after[better] += 1
            before[test.second if better == test.first else test.first] += 1
    return [(1 + before[place], count - after[place]) for place in range(count)]
