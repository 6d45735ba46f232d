"""Simulated answers: cases differ in how hard they are, the answers to one case are alike.

The intraclass correlation `icc` is the correlation of two answers to one case; the hardness is Beta-distributed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eval_pipeline.statistics.clusters import CaseSums
from eval_pipeline.statistics.intervals import Interval

Array = Any


def hardness(random: np.random.Generator, icc: float, rate: float, shape: tuple[int, ...]) -> Array:
    """Return the probability to pass each case."""
    if icc in (0, 1):
        return np.full(shape, rate) if icc == 0 else (random.random(shape) < rate).astype(float)
    strength = 1 / icc - 1
    return random.beta(rate * strength, (1 - rate) * strength, shape)


def passed_counts(
    random: np.random.Generator, cases: int, repetitions: int, icc: float, rate: float, times: int
) -> Array:
    """Return how many repetitions passed: times × cases."""
    return random.binomial(repetitions, hardness(random, icc, rate, (times, cases)))


def coverage(passed: Array, repetitions: int, rate: float, interval: Callable[[CaseSums], Interval | None]) -> float:
    """Return how often the interval holds the rate; one call for each outcome that occurs."""
    cases = passed.shape[1]
    sums = np.stack([passed.sum(1), (passed * passed).sum(1)], axis=1)
    outcomes, times = np.unique(sums, axis=0, return_counts=True)
    held = 0
    for (total, squares), count in zip(outcomes.tolist(), times.tolist(), strict=True):
        low, high = interval(_sums(cases, repetitions, total, squares)) or (1.0, 0.0)
        held += count * (low - 1e-12 <= rate <= high + 1e-12)
    return held / len(passed)


def _sums(cases: int, repetitions: int, total: int, squares: int) -> CaseSums:
    return CaseSums(
        cases=cases, clusters=cases, total=total / repetitions, squares=squares / repetitions**2,
        products=total / repetitions, sizes=float(cases), inverse_counts=cases / repetitions,
    )  # fmt: skip


def board_of_equals(
    random: np.random.Generator, sides: int, cases: int, repetitions: int, icc: float, rate: float, own: float
) -> list[Sequence[float]]:
    """Return the case means of sides with the same rate. `own` is the share of cases whose hardness is each side's
    own, instead of the same for all."""
    common = np.broadcast_to(hardness(random, icc, rate, (cases,)), (sides, cases))
    single = hardness(random, icc, rate, (sides, cases))
    chosen = np.where(random.random(cases) < own, single, common)
    means: list[Sequence[float]] = (random.binomial(repetitions, chosen) / repetitions).tolist()
    return means
