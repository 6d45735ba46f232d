"""Tests of paired differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SignTest:
    """Counts of paired values that rose, fell or stayed, and the probability of so uneven a split by chance.

    `p_value` is two-sided, `p_worse` the chance of at least so many downs. `effect` is (downs - ups) / changed pairs,
    in [-1, 1]; None when nothing changed. With pass and fail as values this is McNemar's exact test (1947,
    Psychometrika 12): the downs are regressions, the ups improvements.
    """

    ups: int
    downs: int
    ties: int
    p_value: float
    p_worse: float
    effect: float | None


def sign_test(deltas: Sequence[float]) -> SignTest:
    """Return the exact sign test of differences (Dixon and Mood 1946, JASA 41); ties are left out."""
    ups, downs = sum(delta > 0 for delta in deltas), sum(delta < 0 for delta in deltas)
    return signs(ups, downs, len(deltas) - ups - downs)


def signs(ups: int, downs: int, ties: int = 0) -> SignTest:
    """Return the sign test of counts."""
    changed = ups + downs
    two_sided = min(1.0, 2 * _binomial_tail(max(ups, downs), changed))
    effect = (downs - ups) / changed if changed else None
    worse = _binomial_tail(downs, changed)
    return SignTest(ups=ups, downs=downs, ties=ties, p_value=two_sided, p_worse=worse, effect=effect)


def _binomial_tail(at_least: int, trials: int) -> float:
    """The probability of at least so many heads in fair tosses; exact to 1,000 tosses, beyond that by logarithms."""
    heads = range(at_least, trials + 1)
    if trials <= 1_000:
        return _combinations(at_least, trials) / (1 << trials)
    return min(1.0, math.fsum(math.exp(_log_comb(trials, count) - trials * math.log(2)) for count in heads))


def _combinations(at_least: int, trials: int) -> int:
    """The number of outcomes with at least so many heads, each count from the one before."""
    outcomes, total = math.comb(trials, at_least), 0
    for heads in range(at_least, trials + 1):
        total += outcomes
        outcomes = outcomes * (trials - heads) // (heads + 1)
    return total


def _log_comb(trials: int, heads: int) -> float:
    return math.lgamma(trials + 1) - math.lgamma(heads + 1) - math.lgamma(trials - heads + 1)
