"""The tests of all pairs of sides from the values of their cases, as boards make them from stored sums."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from eval_pipeline.statistics.pair_sums import pair_sums
from eval_pipeline.statistics.ranks import PairTest, tests_of_sums


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
    values = np.array(sides, dtype=np.float64)
    return tests_of_sums(list(pair_sums(values if weights is None else values * np.array(weights), clusters)))
