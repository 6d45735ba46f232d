"""Intervals, against values that others have published."""

from __future__ import annotations

from itertools import pairwise

import pytest

from eval_pipeline.statistics.clusters import clustered_interval
from eval_pipeline.statistics.intervals import wilson_at
from eval_pipeline.statistics.lines import fit_line
from eval_pipeline.statistics.paired_tests import sign_test, signs
from eval_pipeline.statistics.student import t_quantile
from eval_pipeline.statistics.summaries import mean, quantile, variance

TINY = 1e-12


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        pytest.param(81, 263, 0.2553, 0.3662, id="newcombe-1998-first-example"),
        pytest.param(15, 148, 0.0624, 0.1605, id="newcombe-1998-second-example"),
        pytest.param(0, 20, 0.0, 0.1611, id="newcombe-1998-none"),
        pytest.param(1, 29, 0.0061, 0.1718, id="newcombe-1998-one"),
        pytest.param(1, 1, 0.2065, 1.0, id="one-of-one"),
        pytest.param(0, 1, 0.0, 0.7935, id="none-of-one"),
        pytest.param(5, 10, 0.2366, 0.7634, id="half"),
    ],
)
def test_the_interval_of_a_rate_is_wilsons(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson_at(successes / trials, trials) == pytest.approx((low, high), abs=5e-5)


def test_a_rate_lies_inside_its_interval_and_the_interval_inside_zero_and_one() -> None:
    for trials in range(1, 200):
        for successes in range(trials + 1):
            low, high = wilson_at(successes / trials, trials)

            assert 0 <= low <= successes / trials + TINY
            assert successes / trials - TINY <= high <= 1


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.706), (2, 4.303), (4, 2.776), (10, 2.228), (29, 2.045), (30, 2.042), (31, 2.040), (40, 2.021), (60, 2.000),
     (80, 1.990), (100, 1.984), (120, 1.980), (1_000, 1.962), (10**9, 1.960)],
)  # fmt: skip
def test_quantiles_of_students_t_are_those_of_printed_tables(degrees: int, quantile: float) -> None:
    assert t_quantile(degrees) == pytest.approx(quantile, abs=5.1e-4)


def test_quantiles_fall_with_every_degree_of_freedom() -> None:
    quantiles = [t_quantile(degrees) for degrees in range(1, 500)]

    assert all(greater > less for greater, less in pairwise(quantiles))


def test_student_needs_a_degree_of_freedom() -> None:
    with pytest.raises(ValueError, match="at least one degree"):
        t_quantile(0)


@pytest.mark.parametrize(
    ("degrees", "level", "expected"),
    [
        (1, 0.95, 12.7062047364), (2, 0.95, 4.30265272991), (3, 0.95, 3.18244630528), (10, 0.99, 3.16927267261),
        (30, 0.95, 2.04227245630), (100, 0.9, 1.66023432607), (1_000, 0.95, 1.96233908082), (5, 0.5, 0.726686843806),
    ],
)  # fmt: skip
def test_quantiles_of_students_t_are_those_of_published_tables(degrees: int, level: float, expected: float) -> None:
    assert t_quantile(degrees, level) == pytest.approx(expected, rel=1e-10)


def test_one_value_has_a_mean_but_no_spread() -> None:
    assert (mean([0.5]), variance([0.5]), clustered_interval([0.5])) == (0.5, None, None)


def test_nothing_has_no_mean() -> None:
    assert (mean([]), fit_line([])) == (None, None)


@pytest.mark.parametrize(
    ("ups", "downs", "p_value", "p_worse"),
    [
        pytest.param(0, 0, 1.0, 1.0, id="nothing-changed"),
        pytest.param(2, 8, 112 / 1024, 56 / 1024, id="ten-changed"),
        pytest.param(8, 2, 112 / 1024, 1013 / 1024, id="the-other-way"),
        pytest.param(5, 5, 1.0, 638 / 1024, id="balanced"),
        pytest.param(0, 6, 2 / 64, 1 / 64, id="all-fell"),
    ],
)
def test_the_sign_test_is_exact(ups: int, downs: int, p_value: float, p_worse: float) -> None:
    result = signs(ups, downs)

    assert (result.p_value, result.p_worse) == pytest.approx((p_value, p_worse), rel=1e-12)


def test_large_counts_agree_with_the_normal_approximation() -> None:
    result = signs(5_000, 5_200)

    assert result.p_worse == pytest.approx(0.0244, abs=1e-4)


def test_ties_say_nothing() -> None:
    result = sign_test([0.0, 0.0, 0.2, -0.1])

    assert (result.ups, result.downs, result.ties, result.effect) == (1, 1, 2, 0.0)
    assert sign_test([0.0]).effect is None


@pytest.mark.parametrize(
    ("values", "slope", "intercept", "r_squared"),
    [
        pytest.param([0.9, 0.8, 0.7], -0.1, 0.9, 1.0, id="falling"),
        pytest.param([0.5, 0.5, 0.5], 0.0, 0.5, None, id="level"),
        pytest.param([0.0, 1.0, 0.0], 0.0, 1 / 3, 0.0, id="up-and-down"),
        pytest.param([0.2, 0.4], 0.2, 0.2, 1.0, id="two"),
    ],
)
def test_a_line_is_the_least_squares_one(
    values: list[float], slope: float, intercept: float, r_squared: float | None
) -> None:
    line = fit_line(values)

    assert line is not None
    assert (line.slope, line.intercept) == pytest.approx((slope, intercept), abs=TINY)
    assert line.r_squared == (None if r_squared is None else pytest.approx(r_squared, abs=TINY))


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1.0), (0.5, 2.5), (1.0, 4.0)])
def test_a_quantile_is_interpolated(share: float, expected: float) -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], share) == expected


def test_nothing_has_no_quantile() -> None:
    with pytest.raises(ValueError, match="nothing"):
        quantile([], 0.5)
