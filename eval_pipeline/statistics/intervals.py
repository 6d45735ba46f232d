"""Intervals for rates and means, as functions of numbers and as Polars expressions, and tests of paired differences.

What cannot be known (the spread of a single value) is None, never 0.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

Interval = tuple[float, float]

Z95 = 1.959963984540054
"""The 97.5 % quantile of the standard normal distribution."""


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


@lru_cache(maxsize=4096)
def t_quantile(degrees: int, level: float = 0.95) -> float:
    """How many standard errors a two-sided interval of this level reaches, by Student's t.

    Newton's method on the exact distribution, from the normal quantile; relative error below 1e-12.
    """
    if degrees < 1:
        raise ValueError("Student's t needs at least one degree of freedom")
    tail = round((1 - level) / 2, 12)
    if degrees == 1:
        return 1 / math.tan(math.pi * tail)
    if degrees == 2:
        return (1 - 2 * tail) * math.sqrt(2 / (4 * tail * (1 - tail)))
    low, high, value = 0.0, 1e12, 2.0
    for _ in range(200):
        excess = _t_tail(value, degrees) - tail
        low, high = (value, high) if excess > 0 else (low, value)
        step = value + excess / _t_density(value, degrees)
        following = step if low < step < high else (low + min(high, 4 * low + 1)) / 2
        if abs(following - value) <= 1e-14 * value:
            return following
        value = following
    return value


def _t_tail(value: float, degrees: int) -> float:
    """The chance that Student's t exceeds a value ≥ 0 (Abramowitz and Stegun 26.7.1)."""
    return _incomplete_beta(degrees / (degrees + value * value), degrees / 2, 0.5) / 2


def _t_density(value: float, degrees: int) -> float:
    log = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - math.log(degrees * math.pi) / 2
    return math.exp(log - (degrees + 1) / 2 * math.log1p(value * value / degrees))


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function, by its continued fraction (Abramowitz and Stegun 26.5.8)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log) / a / _beta_fraction(x, a, b)


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction's denominator, by the method of Lentz (1976, Applied Optics 15)."""
    tiny = 1e-300
    fraction, upper, lower = 1.0, 1.0, 0.0
    for step in range(1, 500):
        half = step // 2
        if step % 2:
            factor = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            factor = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        lower = 1 / ((1 + factor * lower) or tiny)
        upper = (1 + factor / upper) or tiny
        fraction *= upper * lower
        if abs(upper * lower - 1) < 1e-15:
            break
    return fraction


def mean_interval(mean: float | None, deviation: float | None, count: int) -> tuple[float, float] | None:
    """95 % interval of a mean of scores in [0, 1] from the sample deviation over `count` cases; None below two."""
    if mean is None or deviation is None or count < 2:
        return None
    half = t_quantile(count - 1) * deviation / math.sqrt(count)
    return max(0.0, mean - half), min(1.0, mean + half)


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean; None of nothing."""
    return math.fsum(values) / len(values) if values else None


def variance(values: Sequence[float]) -> float | None:
    """The variance of a sample (divisor n - 1); None below two values: one value has no spread that could be known."""
    middle = mean(values)
    if middle is None or len(values) < 2:
        return None
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)


def standard_error(values: Sequence[float]) -> float | None:
    """The standard error of a mean of independent values; None below two."""
    spread = variance(values)
    return None if spread is None else math.sqrt(spread / len(values))


def student_interval(values: Sequence[float], level: float = 0.95) -> Interval | None:
    """The interval of a mean by Student's t, for values of any range; None below two."""
    return _around(mean(values), standard_error(values), len(values) - 1, level)


def clustered_error(values: Sequence[float], clusters: Sequence[Hashable]) -> float | None:
    """The standard error of a mean of values that belong together in clusters (cases from one document, say).

    Liang and Zeger (1986, Biometrika 73) with the correction g/(g - 1) for g clusters; None with fewer than two.
    Raises ValueError for a value without a cluster.
    """
    if any(cluster is None or cluster != cluster for cluster in clusters):
        raise ValueError("a value has no cluster")
    middle = mean(values)
    sums: dict[Hashable, float] = {}
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + value - (middle or 0.0)
    if middle is None or len(sums) < 2:
        return None
    return math.sqrt(math.fsum(part**2 for part in sums.values()) * len(sums) / (len(sums) - 1)) / len(values)


def clustered_interval(values: Sequence[float], clusters: Sequence[Hashable], level: float = 0.95) -> Interval | None:
    """The interval of a mean of clustered values, by Student's t with one degree of freedom per cluster but one."""
    error = clustered_error(values, clusters)
    return _around(mean(values), error, len(set(clusters)) - 1, level)


def _around(middle: float | None, error: float | None, degrees: int, level: float) -> Interval | None:
    if middle is None or error is None:
        return None
    half = t_quantile(degrees, level) * error
    return middle - half, middle + half


def bootstrap_interval(
    values: Sequence[float], seed: int, *, level: float = 0.95, rounds: int = 2_000
) -> Interval | None:
    """The percentile interval of a mean (Efron 1979, Annals of Statistics 7); None below two values.

    The same values and seed give the same interval.
    """
    if len(values) < 2:
        return None
    source = random.Random(seed)
    means = sorted(math.fsum(source.choices(values, k=len(values))) / len(values) for _ in range(rounds))
    tail = (1 - level) / 2
    return quantile(means, tail), quantile(means, 1 - tail)


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which a share of ordered values lies, interpolated linearly. Raises ValueError for nothing."""
    if not ordered:
        raise ValueError("nothing has no quantile")
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignTest:
    """How often paired values went up, down or stayed, and how likely so uneven a split is by chance.

    `p_value` is two-sided, `p_worse` the chance of at least so many downs. With pass and fail as values this is
    McNemar's exact test (1947, Psychometrika 12): the downs are regressions, the ups improvements.
    """

    ups: int
    downs: int
    ties: int
    p_value: float
    p_worse: float

    @property
    def effect(self) -> float | None:
        """(downs - ups) / changed pairs, in [-1, 1]; None when nothing changed."""
        changed = self.ups + self.downs
        return (self.downs - self.ups) / changed if changed else None


def sign_test(deltas: Sequence[float]) -> SignTest:
    """The exact sign test (Dixon and Mood 1946, JASA 41): ties say nothing and are left out."""
    ups, downs = sum(delta > 0 for delta in deltas), sum(delta < 0 for delta in deltas)
    return signs(ups, downs, len(deltas) - ups - downs)


def signs(ups: int, downs: int, ties: int = 0) -> SignTest:
    """The sign test of counts."""
    changed = ups + downs
    two_sided = min(1.0, 2 * _binomial_tail(max(ups, downs), changed))
    return SignTest(ups=ups, downs=downs, ties=ties, p_value=two_sided, p_worse=_binomial_tail(downs, changed))


def _binomial_tail(at_least: int, trials: int) -> float:
    """The chance of at least so many heads in fair tosses; exact to 1,000 tosses, beyond that by logarithms."""
    heads = range(at_least, trials + 1)
    if trials <= 1_000:
        return sum(math.comb(trials, count) for count in heads) / (1 << trials)
    return min(1.0, math.fsum(math.exp(_log_comb(trials, count) - trials * math.log(2)) for count in heads))


def _log_comb(trials: int, heads: int) -> float:
    return math.lgamma(trials + 1) - math.lgamma(heads + 1) - math.lgamma(trials - heads + 1)


_EXACT_SIGNS = 14


def permutation_p(deltas: Sequence[float], seed: int, *, rounds: int = 10_000) -> float:
    """The two-sided chance of a mean difference this large if the signs were random (Fisher 1935).

    Every assignment of signs for up to 14 differences, else `rounds` random ones (Phipson and Smyth 2010: none of
    them is ever counted as impossible).
    """
    moved = [abs(delta) for delta in deltas if delta]
    if not moved:
        return 1.0
    reached = abs(math.fsum(deltas)) - 1e-12 * math.fsum(moved)
    if len(moved) <= _EXACT_SIGNS:
        hits = sum(abs(_signed_sum(moved, pattern)) >= reached for pattern in range(1 << len(moved)))
        return hits / (1 << len(moved))
    source = random.Random(seed)
    hits = sum(abs(_signed_sum(moved, source.getrandbits(len(moved)))) >= reached for _ in range(rounds))
    return (hits + 1) / (rounds + 1)


def _signed_sum(values: Sequence[float], pattern: int) -> float:
    return sum(value if pattern >> index & 1 else -value for index, value in enumerate(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A least-squares line over 0, 1, 2, …; `r_squared` is None for a level one, whose spread explains nothing."""

    slope: float
    intercept: float
    r_squared: float | None


def fit_line(values: Sequence[float]) -> Line | None:
    """The line through a sequence of values; None below two."""
    middle = mean(values)
    if middle is None or len(values) < 2:
        return None
    center = (len(values) - 1) / 2
    squares = math.fsum((index - center) ** 2 for index in range(len(values)))
    products = math.fsum((index - center) * (value - middle) for index, value in enumerate(values))
    total = math.fsum((value - middle) ** 2 for value in values)
    slope = products / squares
    level = total <= 1e-18
    return Line(
        slope=slope, intercept=middle - slope * center, r_squared=None if level else products**2 / squares / total
    )


def drop_breach(
    baseline: float,
    candidate: float,
    *,
    max_drop: float | None = None,
    max_relative_drop: float | None = None,
    relative_below: float = math.inf,
    lower_is_better: bool = False,
) -> str | None:
    """Which limit on getting worse is broken: `absolute`, `relative`, or None.

    The relative limit (a share of the baseline) applies to baselines below `relative_below`, where an absolute one
    would let too much pass.
    """
    drop = (candidate - baseline) if lower_is_better else (baseline - candidate)
    if max_drop is not None and drop > max_drop + 1e-9:
        return "absolute"
    relative = max_relative_drop is not None and baseline and abs(baseline) < relative_below
    if relative and max_relative_drop is not None and drop / abs(baseline) > max_relative_drop + 1e-9:
        return "relative"
    return None
