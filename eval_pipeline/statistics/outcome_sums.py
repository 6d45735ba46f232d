"""Tests of all pairs of sides where each case passed or failed and is its own cluster: what `pair_sums` and `ranks` do,
as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from eval_pipeline.statistics.pair_sums import Array, products_of_sides
from eval_pipeline.statistics.ranks import SIGNIFICANT
from eval_pipeline.statistics.sign_tails import sign_values

Bits = NDArray[np.bool_]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeSums:
    """Of each pair of sides, in the order of `combinations`: their places, how many cases both have, and how many of
    them only the first (`ups`) or only the second (`downs`) passed."""

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    shared: Counts
    ups: Counts
    downs: Counts


def outcome_sums(graded: Bits, passed: Bits) -> OutcomeSums:
    """Return the sums of sides: for each (row) whether a case (column) is graded, and whether it passed."""
    first, second = _places(len(graded))
    there, ones = graded.astype(np.float32), passed.astype(np.float32)  # counts of some cases at a time are exact
    wins, shared = products_of_sides(ones, there - ones), products_of_sides(there, there)
    return OutcomeSums(
        first=first, second=second, shared=shared[first, second].astype(np.int64),
        ups=wins[first, second].astype(np.int64), downs=wins[second, first].astype(np.int64),
    )  # fmt: skip


@lru_cache(maxsize=64)
def _places(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    first, second = np.triu_indices(count, 1)
    return first, second


def outcome_ranks(count: int, sums: OutcomeSums) -> list[tuple[int, int]]:
    """Return the best and the worst rank that each of `count` sides may have (see `rank_intervals`)."""
    known = (sums.shared > 0) & (sums.ups != sums.downs)
    tested = sums.shared > 0
    differ = np.zeros(len(sums.shared), dtype=bool)
    differ[tested] = holm_values(sign_values(sums.ups[tested], sums.downs[tested])) < SIGNIFICANT
    differ &= known
    better, worse = np.where(sums.ups > sums.downs, (sums.first, sums.second), (sums.second, sums.first))
    before, after = (np.bincount(places[differ], minlength=count) for places in (worse, better))
    return list(zip((1 + before).tolist(), (count - after).tolist(), strict=True))


def holm_values(p_values: Array) -> Array:
    """Return adjusted p-values as `holm` does."""
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(order), 0, -1)
    adjusted: Array = np.empty(len(order))
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, factors * p_values[order]))
    return adjusted
