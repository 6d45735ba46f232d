"""Intervals of rates. An undefined value is None, never 0."""

from __future__ import annotations

from typing import Any

Interval = tuple[float, float]

Z95 = 1.959963984540054
"""The 97.5 % quantile of the standard normal distribution."""


def wilson_at(share: float, trials: float, z: float = Z95) -> Interval:
    """Return Wilson's score interval of a share of (an effective number of) trials above 0 (Wilson 1927, JASA 22)."""
    middle, half = wilson_parts(share, trials, z)
    return max(0.0, middle - half), min(1.0, middle + half)


def wilson_parts(share: Any, trials: Any, z: float = Z95) -> tuple[Any, Any]:
    """Return middle and half width of Wilson's interval, for numbers or SQL expressions."""
    squared = z * z
    middle = (share + squared / (2 * trials)) / (1 + squared / trials)
    half = z / (1 + squared / trials) * (share * (1 - share) / trials + squared / (4 * trials * trials)) ** 0.5
    return middle, half
