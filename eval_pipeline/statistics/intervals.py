"""Intervals of rates and means. An undefined value (the spread of a single value) is None, never 0.

A formula for numbers and Polars expressions is written once, in arithmetic that both support.
"""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from eval_pipeline.statistics.student import t_quantile

Interval = tuple[float, float]

Z95 = 1.959963984540054
"""The 97.5 % quantile of the standard normal distribution."""


def wilson(successes: int, trials: int, z: float = Z95) -> Interval | None:
    """Return Wilson's score interval of a rate (Wilson 1927, JASA 22); None without trials."""
    if trials <= 0:
        return None
    return wilson_at(successes / trials, trials, z)


def wilson_at(share: float, trials: float, z: float = Z95) -> Interval:
    """Return Wilson's interval of a share of (an effective number of) trials above 0."""
    middle, half = _wilson(share, trials, z)
    return max(0.0, middle - half), min(1.0, middle + half)


def wilson_low(successes: pl.Expr, trials: pl.Expr) -> pl.Expr:
    """Return the lower end of `wilson` as an expression, null without trials."""
    middle, half = _wilson(successes / trials, pl.when(trials > 0).then(trials))
    return _within_one(middle - half)


def wilson_high(successes: pl.Expr, trials: pl.Expr) -> pl.Expr:
    """Return the upper end of `wilson` as an expression, null without trials."""
    middle, half = _wilson(successes / trials, pl.when(trials > 0).then(trials))
    return _within_one(middle + half)


def _within_one(value: Any) -> pl.Expr:
    clipped: pl.Expr = value.clip(0.0, 1.0)
    return clipped


def _wilson(share: Any, trials: Any, z: float = Z95) -> tuple[Any, Any]:
    """Return middle and half width of Wilson's interval, for numbers or expressions."""
    squared = z * z
    middle = (share + squared / (2 * trials)) / (1 + squared / trials)
    half = z / (1 + squared / trials) * (share * (1 - share) / trials + squared / (4 * trials * trials)) ** 0.5
    return middle, half


def mean_interval(mean: float | None, deviation: float | None, count: int) -> Interval | None:
    """Return the 95 % interval of a mean of scores in [0, 1], by Student's t, from the sample deviation over `count`
    values; None below two."""
    if mean is None or deviation is None or count < 2:
        return None
    low, high = _student(mean, deviation, count, 0.95)
    return max(0.0, low), min(1.0, high)


def _student(middle: float, deviation: float, count: int, level: float) -> Interval:
    half = t_quantile(count - 1, level) * deviation / math.sqrt(count)
    return middle - half, middle + half
