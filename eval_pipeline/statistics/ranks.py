"""Ranks with their uncertainty: which sides of a board differ, by paired tests of all pairs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from eval_pipeline.statistics.multiple_tests import holm
from eval_pipeline.statistics.sign_flips import sign_flip_test

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


def pair_tests(
    sides: Sequence[Sequence[float | None]],
    clusters: Sequence[Hashable] | None = None,
    weights: Sequence[float] | None = None,
) -> list[PairTest]:
    """Return the sign-flip tests of all pairs of sides with Holm's adjustment.

    Args:
        sides: for each side its mean of each case, None where it has none; cases in the same order.
        clusters: the cluster of each case; by default each is its own.
        weights: of cases, 1 on average; by default all count the same.
    """
    return adjusted_tests(
        (first, second, *_tested(sides[first], sides[second], clusters, weights))
        for first, second in combinations(range(len(sides)), 2)
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


def _tested(
    first: Sequence[float | None],
    second: Sequence[float | None],
    clusters: Sequence[Hashable] | None,
    weights: Sequence[float] | None,
) -> tuple[int, float | None, float | None]:
    shared = list(_differences(first, second, weights))
    differences = [difference for _, difference in shared]
    names = None if clusters is None else [clusters[place] for place, _ in shared]
    mean = sum(differences) / len(differences) if differences else None
    return len(shared), mean, sign_flip_test(differences, names)


def _differences(
    first: Sequence[float | None], second: Sequence[float | None], weights: Sequence[float] | None
) -> Iterator[tuple[int, float]]:
    for place, (one, other) in enumerate(zip(first, second, strict=True)):
        if one is not None and other is not None:
            yield place, (one - other) * (1.0 if weights is None else weights[place])


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
