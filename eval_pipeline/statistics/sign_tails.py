"""P-values of many sign tests at once."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from eval_pipeline.statistics.paired_tests import signs

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
_EXACTLY = 64
"""Signs up to which the sign test is computed with whole numbers."""
_TERMS_AT_ONCE = 1_000_000


def sign_values(ups: Counts, downs: Counts) -> Array:
    """Return the two-sided p-values of sign tests with so many ups and downs."""
    base = int((ups + downs).max(initial=0)) + 1
    unique, places = np.unique((ups + downs) * base + np.maximum(ups, downs), return_inverse=True)
    trials, heads = np.divmod(unique, base)
    values: Array = np.ones(len(unique))
    few = trials <= _EXACTLY
    counts = zip(heads[few].tolist(), (trials - heads)[few].tolist(), strict=True)
    values[few] = [signs(*pair).p_value for pair in counts]
    many = ~few & (2 * heads > trials)
    values[many] = np.minimum(1.0, 2 * _tails(heads[many], trials[many]))
    return values[places]


def _tails(heads: Counts, trials: Counts) -> Array:
    """Return the probability of at least so many heads, at least half, in fair tosses: that of exactly so many, times
    the sum of the products of the ratios of each term to the one before."""
    if not len(trials):
        return np.empty(0)
    terms = int(5 * math.sqrt(trials.max())) + 10  # at half, the j-th is below exp(-2 j² / trials) of the first
    at_once = max(1, _TERMS_AT_ONCE // terms)
    parts = [slice(start, start + at_once) for start in range(0, len(trials), at_once)]
    sums = np.concatenate([_sums_of_terms(heads[part], trials[part], terms) for part in parts])
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials.max() + 1, dtype=np.float64)))])
    chances: Array = np.exp(logs[trials] - logs[heads] - logs[trials - heads] - trials * math.log(2)) * sums
    return chances


def _sums_of_terms(heads: Counts, trials: Counts, terms: int) -> Array:
    steps = np.arange(terms, dtype=np.float64)
    ratios = (trials - heads)[:, None] - steps
    np.maximum(ratios, 0.0, out=ratios)
    ratios /= (heads + 1)[:, None] + steps
    sums: Array = 1 + np.cumprod(ratios, axis=1, out=ratios).sum(axis=1)
    return sums
