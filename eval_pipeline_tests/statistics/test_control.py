"""Control limits: how rarely they are passed by chance, and how surely by a shift."""

from __future__ import annotations

import numpy as np
import pytest

from eval_pipeline.statistics.control import FEW_DEGREES, LEVEL, SMALL_QUANTILES, control_margin, large_quantile
from eval_pipeline.statistics.student import t_quantile


@pytest.mark.parametrize("degrees", [30, 60, 400])
def test_the_quantile_of_many_degrees_is_students(degrees: int) -> None:
    assert large_quantile(degrees) == pytest.approx(t_quantile(degrees, LEVEL), abs=2e-3)


def beyond(shift: float, units: int, base: int, sweeps: int = 20_000) -> float:
    """The share of simulated gradings beyond their limits, of units that differ much among themselves."""
    draw = np.random.default_rng(1)
    level = draw.uniform(0.2, 0.8, (sweeps, units, 1))
    bases = level + draw.normal(0, 0.1, (sweeps, units, base))
    later = level[:, :, 0] + shift + draw.normal(0, 0.1, (sweeps, units))
    degrees = units * (base - 1)
    quantile = SMALL_QUANTILES[degrees - 1] if degrees < FEW_DEGREES else large_quantile(degrees)
    margin = control_margin(quantile, bases.var(axis=2, ddof=1).mean(axis=1), 1 / base, units)
    return float((np.abs(later.mean(axis=1) - bases.mean(axis=(1, 2))) > margin).mean())


@pytest.mark.parametrize(("units", "base"), [(2, 2), (5, 3), (30, 3)])
def test_a_judge_that_is_as_it_was_is_beyond_in_one_of_370(units: int, base: int) -> None:
    assert beyond(0.0, units, base) == pytest.approx(1 - LEVEL, abs=0.0012)


def test_a_shift_of_one_standard_deviation_is_seen_with_thirty_anchors() -> None:
    assert beyond(0.1, 30, 3) > 0.9
