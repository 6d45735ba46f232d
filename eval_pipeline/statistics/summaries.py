"""Summary statistics of a sample. An undefined value (the spread of a single value) is None, never 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul


def mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float | None:
    """Return the arithmetic mean, with `weights` (above 0) the weighted one; None without values."""
    if weights is None or not values:
        return math.fsum(values) / len(values) if values else None
    return math.fsum(map(mul, values, weights)) / math.fsum(weights)


def variance(values: Sequence[float]) -> float | None:
    """Return the variance of a sample (divisor n - 1); None below two values."""
    middle = mean(values)
    if middle is None or len(values) < 2:
        return None
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the quantile of ordered values, interpolated linearly. Raises ValueError without values."""
    if not ordered:
        raise ValueError("nothing has no quantile")
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def upper_quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile near the upper end of ordered values: interpolated at `share * (n + 1)` (Weibull, Hyndman and
    Fan's type 6), and the greatest value where there are too few to tell. Raises ValueError without values."""
    if not ordered:
        raise ValueError("nothing has no quantile")
    position = min(share * (len(ordered) + 1), len(ordered))
    below = max(math.floor(position), 1)
    above = min(below + 1, len(ordered))
    return ordered[below - 1] + (ordered[above - 1] - ordered[below - 1]) * max(position - below, 0.0)
