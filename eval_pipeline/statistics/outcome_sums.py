"""Tests of all pairs of sides where each case passed or failed and is its own cluster: what `pair_sums` and `ranks` do,
as arrays."""

from __future__ import annotations

from collections.abc import Sequence
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
    wins = products_of_sides(ones, there - ones)
    shared = np.full_like(wins, graded.shape[1]) if graded.all() else products_of_sides(there, there)
    return OutcomeSums(
        first=first, second=second, shared=shared[first, second].astype(np.int64),
        ups=wins[first, second].astype(np.int64), downs=wins[second, first].astype(np.int64),
    )  # fmt: skip


@lru_cache(maxsize=64)
def _places(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    first, second = np.triu_indices(count, 1)
    return first, second


def outcome_ranks(counts: Sequence[int], sums: Sequence[OutcomeSums]) -> list[list[tuple[int, int]]]:
    """Return the best and the worst rank that each side of each board may have (see `rank_intervals`), from the number
    of sides of each board and their sums."""
    if not sums:
        return []
    ups, downs, shared = (np.concatenate([getattr(each, name) for each in sums]) for name in ("ups", "downs", "shared"))
    boards = np.repeat(np.arange(len(sums)), [len(each.ups) for each in sums])
    differ = _differ(ups, downs, shared > 0, boards)
    starts = np.cumsum([0, *counts])
    first, second = (np.concatenate([getattr(each, name) for each in sums]) for name in ("first", "second"))
    better, worse = np.where(ups > downs, (first, second), (second, first)) + starts[boards]
    before, after = (np.bincount(places[differ], minlength=starts[-1]) for places in (worse, better))
    best, worst = (1 + before).tolist(), (np.repeat(counts, counts) - after).tolist()
    ranks = list(zip(best, worst, strict=True))
    return [ranks[start : start + count] for start, count in zip(starts.tolist(), counts, strict=False)]


def _differ(ups: Counts, downs: Counts, tested: Bits, boards: NDArray[np.intp]) -> Bits:
    """Return which pairs of sides differ by sign tests with Holm's adjustment (see `holm`) on each board."""
    values = np.where(tested, _decisive_values(ups, downs), 2.0)
    order = np.lexsort((values, boards))
    of_board = boards[order]
    starts = np.searchsorted(of_board, of_board)
    place, total = np.arange(len(order)) - starts, np.bincount(boards, tested)[of_board]
    fails = np.cumsum(values[order] * np.maximum(total - place, 1) >= SIGNIFICANT)
    before = np.concatenate([[0], fails])[starts]
    differ: Bits = np.empty(len(order), dtype=bool)
    differ[order] = fails == before  # no smaller p-value of the board fails either
    differ &= ups != downs
    return differ


def _decisive_values(ups: Counts, downs: Counts) -> Array:
    """Return the p-values of sign tests; 1 where they are surely above 0.1, 0 where surely below 1e-13.

    With d = ups - downs and n = ups + downs: the p-value is at most 2 exp(-d² / 2n) (Hoeffding 1963, JASA 58), and
    above the normal one, which is 0.157 at d² = 2n.
    """
    squared, changed = (ups - downs) ** 2, ups + downs
    values: Array = np.where(squared > 64 * changed, 0.0, 1.0)
    near = (squared >= 2 * changed) & (squared <= 64 * changed)
    values[near] = sign_values(ups[near], downs[near])
    return values
