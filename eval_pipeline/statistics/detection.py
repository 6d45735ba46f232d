"""How large a difference has to be so that a comparison of so many cases is likely to show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eval_pipeline.statistics.intervals import Z95

Z80 = 0.8416212335729143
"""The 80 % quantile of the standard normal distribution."""
FEWEST_CASES = 2


@dataclass(frozen=True, slots=True)
class Variation:
    """The variance of the difference of two runners' answers: between cases, and within a case, from answer to
    answer."""

    between: float
    within: float

    def of_means(self, repetitions: int) -> float:
        """Return the variance of the difference of two means of so many repetitions."""
        return self.between + self.within / repetitions


INDEPENDENT = Variation(between=0.25, within=0.25)
"""Of answers that have nothing to do with each other and pass half of the time: for where nothing is known."""


def detectable_difference(cases: int, repetitions: int, variation: Variation = INDEPENDENT) -> float | None:
    """Return the smallest difference of two runners' rates that a paired comparison shows with a probability of 80 %
    at a level of 5 %, at most 1; None for fewer than two cases.

    Source: E. Miller, "Adding Error Bars to Evals" (2024), section 5.
    """
    if cases < FEWEST_CASES:
        return None
    return min(1.0, float(shown_from(cases, variation.of_means(repetitions))))


def shown_from(cases: Any, variance: Any) -> Any:
    """Return the difference that is shown with a probability of 80 % at a level of 5 %, not limited to 1, of numbers
    or SQL expressions: the number of cases, and the variance of the difference on one of them."""
    return (Z95 + Z80) * (variance / cases) ** 0.5
