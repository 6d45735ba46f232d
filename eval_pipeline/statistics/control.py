"""Control limits of something that is measured again and again on the same units, such as a judge on fixed answers.

Each unit has base measurements; the mean of later ones over the units is compared with the mean of the bases. Limits
are Shewhart's three standard errors (Montgomery, Introduction to Statistical Quality Control, chapter 6), those of a
prediction of a future mean where the variance is estimated (Hahn and Meeker, Statistical Intervals, chapter 4): the
variance within units is pooled over them, and Student's t replaces the normal quantile.
"""

from __future__ import annotations

from typing import Any

from eval_pipeline.statistics.student import t_quantile

LEVEL = 0.9973
"""Probability within three standard errors of a normal distribution: one false alarm in 370."""
_Z = 3.0
FEWEST_UNITS = 2
FEW_DEGREES = 30
"""From here on, Student's quantile is computed from the normal one."""
SMALL_QUANTILES = tuple(round(t_quantile(degrees, LEVEL), 3) for degrees in range(1, FEW_DEGREES))
"""Student's quantiles of the level for 1 to 29 degrees of freedom."""


def large_quantile(degrees: Any) -> Any:
    """Return Student's quantile of the level for 30 and more degrees of freedom, of a number or an SQL expression.

    Source: Abramowitz and Stegun 26.7.5, two terms; the error is below 0.002.
    """
    first, second = (_Z**3 + _Z) / 4, (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96
    return _Z + first / degrees + second / degrees / degrees


def control_margin(quantile: Any, within: Any, base_share: Any, units: Any) -> Any:
    """Return how far a mean over units may be from the mean of their bases, of numbers or SQL expressions.

    Args:
        quantile: Student's quantile for the degrees of freedom of `within`.
        within: pooled variance of the measurements of one unit.
        base_share: mean over units of 1 / number of base measurements.
        units: number of units that the mean is over.
    """
    return quantile * (within * (1 + base_share) / units) ** 0.5
