"""Intervals for rates and means, as functions of numbers and as Polars expressions."""

from __future__ import annotations

import math

import polars as pl

Z95 = 1.959963984540054
"""The 97.5 % quantile of the standard normal distribution."""

_T95 = (
    12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139, 2.200985,
    2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024, 2.085963, 2.079614, 2.073873,
    2.068658, 2.063899, 2.059539, 2.055529, 2.051831, 2.048407, 2.045230, 2.042272,
)  # fmt: skip


def wilson(successes: int, trials: int, z: float = Z95) -> tuple[float, float] | None:
    """Wilson's score interval of a rate (Wilson 1927, JASA 22); None without trials."""
    if trials <= 0:
        return None
    share, squared = successes / trials, z * z
    middle = (share + squared / (2 * trials)) / (1 + squared / trials)
    half = z / (1 + squared / trials) * math.sqrt(share * (1 - share) / trials + squared / (4 * trials * trials))
    return max(0.0, middle - half), min(1.0, middle + half)


def wilson_low(successes: pl.Expr, trials: pl.Expr) -> pl.Expr:
    """Lower end of `wilson`, null without trials."""
    return (_wilson_middle(successes, trials) - _wilson_half(successes, trials)).clip(0.0, 1.0)


def wilson_high(successes: pl.Expr, trials: pl.Expr) -> pl.Expr:
    """Upper end of `wilson`, null without trials."""
    return (_wilson_middle(successes, trials) + _wilson_half(successes, trials)).clip(0.0, 1.0)


def _counted(trials: pl.Expr) -> pl.Expr:
    return pl.when(trials > 0).then(trials)


def _wilson_middle(successes: pl.Expr, trials: pl.Expr) -> pl.Expr:
    n = _counted(trials)
    return (successes / n + Z95**2 / (2 * n)) / (1 + Z95**2 / n)


def _wilson_half(successes: pl.Expr, trials: pl.Expr) -> pl.Expr:
    n = _counted(trials)
    share = successes / n
    return Z95 / (1 + Z95**2 / n) * (share * (1 - share) / n + Z95**2 / (4 * n * n)).sqrt()


def t_quantile(degrees: int) -> float:
    """The 97.5 % quantile of Student's t. Tabulated to 30 degrees of freedom, beyond that by the Cornish–Fisher
    expansion (Abramowitz and Stegun 26.7.5), whose error is below 1e-5 there."""
    if degrees < 1:
        raise ValueError("Student's t needs at least one degree of freedom")
    if degrees <= len(_T95):
        return _T95[degrees - 1]
    z = Z95
    return (
        z
        + (z**3 + z) / (4 * degrees)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3)
    )


def mean_interval(mean: float | None, deviation: float | None, count: int) -> tuple[float, float] | None:
    """95 % interval of a mean of scores in [0, 1] from the sample deviation over `count` cases; None below two."""
    if mean is None or deviation is None or count < 2:
        return None
    half = t_quantile(count - 1) * deviation / math.sqrt(count)
    return max(0.0, mean - half), min(1.0, mean + half)
