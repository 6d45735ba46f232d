"""A test of the mean of paired differences: how often would chance signs give so great a sum?"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from eval_pipeline.statistics.clusters import clustered, clustered_error
from eval_pipeline.statistics.paired_tests import signs
from eval_pipeline.statistics.student import t_tail
from eval_pipeline.statistics.summaries import mean

GRID = 2_520
"""Parts of 1 that differences are rounded to: up to ten repetitions have means without rounding."""
LARGEST = 1e8
"""Greatest number of bits that the exact test goes through: some milliseconds."""


def sign_flip_test(
    differences: Sequence[float], clusters: Sequence[Hashable] | None = None, weights: Sequence[float] | None = None
) -> float | None:
    """Return the two-sided p-value of differences whose mean is 0 by the null hypothesis; None without any.

    If both sides of a pair are alike, every difference (sum of differences, of a cluster) is as likely as its
    negative: the p-value is the share of all choices of signs with as great a sum (Fisher 1935, The Design of
    Experiments, section 21). It is exact for up to some hundred changes, on a grid of 1 / 2520; beyond that, by
    Student's t with the cluster-robust error. With one repetition of passed or failed it is McNemar's exact test. With
    weights (above 0) it is the test of the weighted sum.
    """
    if not differences:
        return None
    if weights is not None:
        least = min(weights)
        return sign_flip_test(
            [value * weight / least for value, weight in zip(differences, weights, strict=True)], clusters
        )
    sums = [round(total * GRID) for _, total in clustered(differences, clusters)]
    changes = [abs(value) for value in sums if value]
    if not changes:
        return 1.0
    unit = math.gcd(*changes)
    steps = [change // unit for change in changes]
    if max(steps) == 1:
        ups = sum(value > 0 for value in sums)
        return signs(ups, len(steps) - ups).p_value
    if sum(steps) * len(steps) ** 2 > LARGEST:
        return _student(differences, clusters)
    return min(1.0, 2 * flip_tail(steps, abs(sum(sums)) // unit))


def flip_tail(steps: Sequence[int], total: int) -> float:
    """Return the share of all choices of signs whose sum is at least `total`.

    The number of subsets with each sum is a coefficient of the product of 1 + x^step: the polynomial is one integer,
    x a power of two that is above every coefficient, so that the sum of coefficients is a remainder.
    """
    width = len(steps) + 1
    subsets = 1
    for step in sorted(steps):
        subsets += subsets << (step * width)
    least = -(-(total + sum(steps)) // 2)
    return ((subsets >> (least * width)) % ((1 << width) - 1)) / (1 << len(steps))


def _student(differences: Sequence[float], clusters: Sequence[Hashable] | None) -> float:
    error, middle = clustered_error(differences, clusters), mean(differences)
    if not error or middle is None:
        return 1.0 if error is None else 0.0
    return 2 * t_tail(abs(middle) / error, len(list(clustered(differences, clusters))) - 1)
