"""Intervals of rates and mean scores whose answers come in clusters: repetitions of a case, cases of one origin.

The estimate is the (weighted) mean over cases of each case's own mean. Answers to one case are alike, so the interval
is Wilson's on the effective sample size: the number of independent answers that would give the same standard error.
Weights are relative: those of a sample are scaled to 1 on average, so that sums of weights are numbers of cases.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

from eval_pipeline.statistics.intervals import Z95, Interval, wilson_at
from eval_pipeline.statistics.student import t_quantile
from eval_pipeline.statistics.summaries import mean

_PRIOR = 1 / 16
_POISSON_LOW = (0.0, 0.05129329438755058, 0.3553615106986621, 0.8176914475850093)


class CaseSums(NamedTuple):
    """Sufficient statistics of the means of cases, each in [0, 1]. Sums of disjoint clusters add up field by field.

    With S the sum of the case means of a cluster and m its number of cases, over all clusters: `squares` is the sum
    of S², `products` of m S, `sizes` of m². Where every case is its own cluster these are the sum of squares, the sum
    and the number of cases. `inverse_counts` is the sum over cases of 1 / answers. With weights w of cases, 1 on
    average (`weighted`), S is the sum of w times the mean, m of w, and `inverse_counts` of w² / answers.
    """

    cases: int
    clusters: int
    total: float
    squares: float
    products: float
    sizes: float
    inverse_counts: float
    weighted: bool = False

    @property
    def mean(self) -> float | None:
        """The mean over cases; None without cases."""
        return self.total / self.cases if self.cases else None


def case_sums(
    means: Sequence[float],
    counts: Sequence[int],
    clusters: Sequence[Hashable] | None = None,
    weights: Sequence[float] | None = None,
) -> CaseSums:
    """Return the statistics of cases: their means, numbers of answers (above 0) and, by default each its own, clusters;
    `weights` are relative and above 0.

    Raises ValueError for a case without a cluster.
    """
    weights = weights if weights is not None and len(set(weights)) > 1 else None
    groups = list(clustered(means, clusters, weights))
    shares = relative(weights) if weights is not None else repeat(1.0)
    return CaseSums(
        cases=len(means),
        clusters=len(groups),
        total=sum(total for _, total in groups),
        squares=sum(total * total for _, total in groups),
        products=sum(size * total for size, total in groups),
        sizes=float(sum(size * size for size, _ in groups)),
        inverse_counts=sum(share * share / count for share, count in zip(shares, counts, strict=False)),
        weighted=weights is not None,
    )


def relative(weights: Sequence[float]) -> list[float]:
    """Return weights (above 0) scaled to 1 on average."""
    scale = len(weights) / math.fsum(weights) if weights else 1.0
    return [weight * scale for weight in weights]


def effective_number(weights: Sequence[float]) -> float:
    """Return how many cases of equal weight carry as much information: (sum of w)² / sum of w² (Kish 1965, Survey
    Sampling)."""
    return math.fsum(weights) ** 2 / math.fsum(weight * weight for weight in weights)


def clustered(
    values: Sequence[float], clusters: Sequence[Hashable] | None, weights: Sequence[float] | None = None
) -> Iterator[tuple[float, float]]:
    """Yield the size (sum of relative weights) and sum of each cluster of values, by default of each value. Raises
    ValueError without a name."""
    shares = relative(weights) if weights is not None else repeat(1)
    weighed = ((share, share * value) for share, value in zip(shares, values, strict=False))
    if clusters is None:
        yield from weighed
        return
    groups: dict[Hashable, tuple[float, float]] = {}
    for (share, value), name in zip(weighed, clusters, strict=True):
        if name is None or name != name:
            raise ValueError("a value has no cluster")
        size, total = groups.get(name, (0, 0.0))
        groups[name] = size + share, total + value
    yield from groups.values()


def clustered_error(
    values: Sequence[float], clusters: Sequence[Hashable] | None = None, weights: Sequence[float] | None = None
) -> float | None:
    """Return the standard error of a (weighted) mean; None below two clusters, by default each value its own.

    The cluster-robust error with the correction g / (g - 1) for g clusters (Liang and Zeger 1986, Biometrika 73;
    Miller 2024, arXiv 2411.00640), of a weighted mean by linearization (Cochran 1977, Sampling Techniques, section
    6.8).
    """
    groups = list(clustered(values, clusters, weights))
    middle = mean(values, weights)
    if middle is None or len(groups) < 2:
        return None
    return _error(math.fsum((total - size * middle) ** 2 for size, total in groups), len(groups), len(values))


def clustered_interval(
    values: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    weights: Sequence[float] | None = None,
) -> Interval | None:
    """Return the interval of a mean by Student's t over clusters, for values of any range; None below two clusters."""
    groups, middle = list(clustered(values, clusters, weights)), mean(values, weights)
    error = clustered_error(values, clusters, weights)
    if middle is None or error is None:
        return None
    half = t_quantile(len(groups) - 1, level) * error
    return middle - half, middle + half


def _error(spread: float, clusters: int, cases: int) -> float:
    """The standard error from the sum over clusters of (S - m mean)²."""
    return math.sqrt(spread * clusters / (clusters - 1)) / cases


def _error_of_sums(sums: CaseSums) -> float | None:
    if sums.clusters < 2:
        return None
    middle = sums.total / sums.cases
    spread = sums.squares - 2 * middle * sums.products + middle * middle * sums.sizes
    return _error(max(0.0, spread), sums.clusters, sums.cases)


def rate_interval(sums: CaseSums) -> Interval | None:
    """Return the 95 % interval of a pass rate; None without cases. It always has a width.

    With one answer per case and no further clusters it is Wilson's, modified near 0 and 1.
    """
    return _interval(sums, sums.cases * sums.cases / sums.inverse_counts) if sums.cases else None


def score_interval(sums: CaseSums) -> Interval | None:
    """Return the 95 % interval of a mean of scores in [0, 1]; None without cases. It always has a width."""
    return _interval(sums, float("inf")) if sums.cases else None


def _interval(sums: CaseSums, answers: float) -> Interval:
    share = min(1.0, max(0.0, sums.total / sums.cases))
    size = effective_size(sums, answers)
    low, high = wilson_at(share, size)
    return min(low, _near_zero(share, size)), max(high, 1 - _near_zero(1 - share, size))


def effective_size(sums: CaseSums, answers: float) -> float:
    """Return the effective sample size of a mean in [0, 1], between the clusters' (Kish 1965, Survey Sampling) and
    `answers`.

    It is p (1 - p) / variance (Korn and Graubard 1998, Survey Methodology 24), where the variance is the
    cluster-robust one. The design effect relative to clusters that are each all or nothing, the greatest variance, is
    drawn towards 1 with the weight of 1/16 against p (1 - p) (clusters - 1), found by simulation: near 0 and 1, and
    with few clusters, the data hardly shows how alike the answers to a case are. Few clusters also count by Student's
    t. Of weighted cases Kish's size, (sum of w)² / sum of w², is no lower limit: where cases of great weight are the
    hard ones, the mean is less certain than with weights that have nothing to do with the answers.
    """
    share = sums.total / sums.cases
    least = sums.cases * sums.cases / sums.sizes
    error, binomial = _error_of_sums(sums), share * (1 - share)
    if error is None or binomial <= 0:
        return least
    most, fewest = (math.inf, 1.0) if sums.weighted else (1.0, least)
    effect = min(most, max(least / answers, error * error / binomial * least))
    known = binomial * (sums.clusters - 1)
    drawn = (known * effect + _PRIOR) / (known + _PRIOR)
    few = (Z95 / t_quantile(sums.clusters - 1)) ** 2
    return min(answers, max(fewest, least / drawn * few))


def _near_zero(share: float, size: float) -> float:
    """Return the lower end for up to three successes, 1 for more.

    Where Wilson's interval covers too seldom, its end is replaced by Poisson's 5 % limit over the size (Brown, Cai and
    DasGupta 2001, Statistical Science 16, modified Wilson interval); between whole successes, interpolated.
    """
    successes = share * size
    whole = min(int(successes), len(_POISSON_LOW) - 2)
    part = successes - whole
    if part > 1:
        return 1.0
    return (_POISSON_LOW[whole] * (1 - part) + _POISSON_LOW[whole + 1] * part) / size
