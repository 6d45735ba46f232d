"""Scores → summary of their distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from eval_pipeline.scores.model import at_least
from eval_pipeline.statistics.summaries import mean, quantile, variance

BUCKETS = 5
ENDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Statistics of scores in [0, 1]; each is None without the values it needs.

    `deviation` is the sample's, None below two scores. `buckets` counts fifths of [0, 1], each including its upper
    end, the first also 0. `top` and `bottom` are the names of up to three highest and lowest, highest first.
    """

    count: int
    passed: int
    mean: float | None
    median: float | None
    least: float | None
    most: float | None
    deviation: float | None
    buckets: tuple[int, ...]
    top: tuple[str, ...]
    bottom: tuple[str, ...]


def distribution(scores: Sequence[tuple[str, float]], mark: float) -> Distribution:
    """Return the distribution of named scores, and how many reach the mark."""
    values = sorted(value for _, value in scores)
    ranked = [name for name, _ in sorted(scores, key=lambda score: -score[1])]
    spread = variance(values)
    placed = [max(0, math.ceil(value * BUCKETS - 1e-9) - 1) for value in values]
    return Distribution(
        count=len(values),
        passed=sum(at_least(value, mark) for value in values),
        mean=mean(values),
        median=quantile(values, 0.5) if values else None,
        least=values[0] if values else None,
        most=values[-1] if values else None,
        deviation=None if spread is None else math.sqrt(spread),
        buckets=tuple(placed.count(bucket) for bucket in range(BUCKETS)),
        top=tuple(ranked[:ENDS]),
        bottom=tuple(ranked[-ENDS:]),
    )


@lru_cache(maxsize=4096)
def poisson_upper(seen: int, chance: float) -> float:
    """Return the expectation with which so few events as `seen`, or fewer, have this chance (Garwood 1936, Biometrika
    28)."""
    low, high = 0.0, seen + 10 * math.sqrt(seen + 1) + 20
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        if _poisson_tail(seen, middle) > chance:
            low = middle
        else:
            high = middle
    return high


def _poisson_tail(seen: int, expected: float) -> float:
    logs = (count * math.log(expected) - expected - math.lgamma(count + 1) for count in range(seen + 1))
    return math.fsum(map(math.exp, logs))
