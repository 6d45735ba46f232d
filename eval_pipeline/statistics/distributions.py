"""Scores → summary of their distribution."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappush, heapreplace

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


class NamedScores:
    """Scores with their names, of which it keeps those of the highest and the lowest."""

    def __init__(self, scores: Iterable[tuple[str, float]] = ()) -> None:
        self.values = array("d")
        self._top: list[tuple[float, int, str]] = []
        self._bottom: list[tuple[float, int, str]] = []
        for name, value in scores:
            self.add(name, value)

    def add(self, name: str, value: float) -> None:
        """Take one more score; of equal ones the first are the higher."""
        place = len(self.values)
        self.values.append(value)
        for ends, ranked in ((self._top, (value, -place, name)), (self._bottom, (-value, place, name))):
            if len(ends) < ENDS:
                heappush(ends, ranked)
            elif ranked > ends[0]:
                heapreplace(ends, ranked)

    @property
    def top(self) -> tuple[str, ...]:
        """The names of the highest, highest first."""
        return tuple(name for *_, name in sorted(self._top, reverse=True))

    @property
    def bottom(self) -> tuple[str, ...]:
        """The names of the lowest, highest first."""
        return tuple(name for *_, name in sorted(self._bottom))


def distribution(scores: NamedScores, mark: float) -> Distribution:
    """Return the distribution of named scores, and how many reach the mark."""
    values = sorted(scores.values)
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
        top=scores.top,
        bottom=scores.bottom,
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
