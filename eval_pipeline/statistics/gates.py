"""Decisions on paired differences: was a drop beyond a margin shown, excluded, or neither?"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Literal

from eval_pipeline.statistics.clusters import clustered, effective_number
from eval_pipeline.statistics.distributions import poisson_upper
from eval_pipeline.statistics.intervals import Interval
from eval_pipeline.statistics.student import t_quantile

Decision = Literal["GO", "NO-GO", "INCONCLUSIVE"]


def difference_interval(
    differences: Sequence[float],
    reach: float,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    weights: Sequence[float] | None = None,
) -> Interval | None:
    """Return the interval of a mean difference; None below two clusters. It always has a width.

        Student's t after two further cases, which together hold half a rise and half a fall of `reach` (above 0): the
    differences that a case can have, but that few cases may not show. For one repetition of passed or failed it is
    the interval of Agresti and Min (2005, Statistics in Medicine 24), with Student's quantile. Neither end is nearer
    than a change of the whole reach leaves open that hits as few cases as chance may leave out of the sample.
    Weighted cases count as their effective number.
    """
    groups = list(clustered(differences, clusters, weights))
    if len(groups) < 2:
        return None
    part = 1.0 if weights is None else effective_number(weights) / len(weights)
    cases, number = len(differences) * part + 2, len(groups) * part
    middle = sum(total for _, total in groups) * part / cases
    spread = part * part * sum((total - size * middle) ** 2 for size, total in groups)
    error = ((spread + reach * reach + 2 * middle * middle) * (number + 2) / (number + 1)) ** 0.5 / cases
    half = t_quantile(max(1, round(number) - 1), level) * error
    size_of_one = len(groups) / len(differences)
    means = [(size * size_of_one * part if weights is not None else 1.0, total / size) for size, total in groups]
    rare = (1 - level) / 2
    return (
        min(middle - half, -_rare_rises([(size, -value) for size, value in means], number, reach, rare)),
        max(middle + half, _rare_rises(means, number, reach, rare)),
    )


def _rare_rises(means: Sequence[tuple[float, float]], number: float, reach: float, chance: float) -> float:
    """Return how great the mean may be where single clusters rise by the whole reach: the mean of the others, and as
    many of these as the upper limit of Poisson's distribution leaves open (with none seen, the rule of three; Hanley
    and Lippman-Hand 1983, JAMA 249). `means` have the size that each counts with, `number` in all."""
    seen = [size for size, value in means if value >= reach / 2]
    others = [size * value for size, value in means if value < reach / 2]
    unseen = poisson_upper(len(seen), chance) - len(seen)
    return (sum(others) + (sum(seen) + unseen) * reach) / number


def reach_of(values: Iterable[float]) -> float:
    """Return how far a case may change, from the values of all cases on both sides: their range, 1 if all are 0 or 1
    or all are the same."""
    distinct = set(values)
    if distinct <= {0.0, 1.0} or len(distinct) == 1:
        return 1.0
    return max(distinct) - min(distinct)


def decide(interval: Interval | None, margin: float = 0.0) -> Decision:
    """Return NO-GO if the whole interval of a change is below -margin, GO if none of it is, else INCONCLUSIVE.

    These are two one-sided tests (Schuirmann 1987, Journal of Pharmacokinetics and Biopharmaceutics 15). With an
    interval of 95 % each is wrong in 2.5 % where there are many cases, and by the simulations of the tests in less than
    5 % where there are few.
    """
    if interval is None:
        return "INCONCLUSIVE"
    low, high = interval
    return "NO-GO" if high < -margin else "GO" if low >= -margin else "INCONCLUSIVE"


def level_for(comparisons: int) -> float:
    """Return the level of each of several intervals that all hold at 95 % (Bonferroni's inequality; Dunn 1961, JASA
    56)."""
    return 1 - 0.05 / max(1, comparisons)
