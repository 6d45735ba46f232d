"""Weighted cases: means, intervals and tests, and how often the intervals hold the truth, by simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from eval_pipeline.statistics.case_arrays import array_sums
from eval_pipeline.statistics.clusters import CaseSums, case_sums, clustered_error, effective_number, rate_interval
from eval_pipeline.statistics.gates import difference_interval
from eval_pipeline.statistics.intervals import wilson_at
from eval_pipeline.statistics.pair_sums import p_values, pair_sums
from eval_pipeline.statistics.sign_flips import sign_flip_test
from eval_pipeline.statistics.summaries import mean

RATES = ((0.7, 0.7), (0.9, 0.5), (0.95, 0.3), (1.0, 0.5))
"""How often normal and hard cases pass."""


def test_intervals_of_weighted_rates_hold_the_weighted_truth() -> None:
    random = np.random.default_rng(20261123)
    held = []

    for cases, weight, rates in itertools.product((20, 60), (2.0, 10.0), RATES):
        hard = cases // 5
        weights = np.array([1.0] * (cases - hard) + [weight] * hard)
        chances = np.repeat(rates, (cases - hard, hard))
        truth = float((weights * chances).sum() / weights.sum())
        ends = [
            rate_interval(array_sums(answers, np.ones(cases, dtype=np.int64), None, weights)) or (1.0, 0.0)
            for answers in (random.random((150, cases)) < chances).astype(float)
        ]
        held.append(np.mean([low - 1e-12 <= truth <= high + 1e-12 for low, high in ends]))

    assert 0.94 <= np.mean(held) <= 0.995
    assert min(held) >= 0.9


def test_kishs_size_alone_covers_too_seldom_where_heavy_cases_are_the_uncertain_ones() -> None:
    """Why Kish's size is no lower limit of the effective one."""
    random = np.random.default_rng(4)
    weights = np.array([1.0] * 90 + [9.0] * 10)
    chances = np.repeat((1.0, 0.5), (90, 10))
    kish: list[bool] = []
    ours: list[bool] = []
    for answers in (random.random((300, 100)) < chances).astype(float):
        sums = array_sums(answers, np.ones(100, dtype=np.int64), None, weights)
        for seen, (low, high) in (
            (kish, wilson_at(sums.total / sums.cases, effective_number(weights.tolist()))),
            (ours, rate_interval(sums) or (1.0, 0.0)),
        ):
            seen.append(low <= 0.75 <= high)

    assert np.mean(kish) < 0.94 <= np.mean(ours)


def test_equal_weights_change_nothing_and_their_scale_neither() -> None:
    values, counts, clusters = [1.0, 0.0, 0.5, 1.0, 1.0], [1, 2, 2, 1, 1], ["a", "a", "b", "c", "d"]
    weights = [1.0, 3.0, 1.0, 1.0, 3.0]

    plain, same = case_sums(values, counts, clusters), case_sums(values, counts, clusters, [7.0] * 5)
    single, scaled = (case_sums(values, counts, clusters, [weight * by for weight in weights]) for by in (1.0, 40.0))

    assert rate_interval(same) == pytest.approx(rate_interval(plain))
    assert rate_interval(scaled) == pytest.approx(rate_interval(single))
    assert single.mean == pytest.approx((1 + 0 + 0.5 + 1 + 3) / 9) == mean(values, weights)
    assert clustered_error(values, None, [7.0] * 5) == pytest.approx(clustered_error(values))
    assert difference_interval(values, 1.0, None, 0.95, [7.0] * 5) == pytest.approx(difference_interval(values, 1.0))


def test_arrays_and_lists_have_the_same_weighted_sums() -> None:
    values, counts, weights = [1.0, 0.0, 0.5, 1.0], [1, 2, 4, 1], [1.0, 2.0, 2.0, 1.0]

    sums = array_sums(np.array(values), np.array(counts), np.array([0, 0, 1, 2]), np.array(weights))

    same = case_sums(values, counts, ["a", "a", "b", "c"], weights)
    names = CaseSums._fields
    # the last digit depends on the order in which the machine adds
    assert [getattr(sums, name) for name in names] == pytest.approx([getattr(same, name) for name in names])
    assert effective_number(weights) == pytest.approx(36 / 10)


def test_a_case_of_double_weight_is_no_two_cases_in_an_interval() -> None:
    weighted = rate_interval(case_sums([1.0] * 10 + [0.0] * 10, [1] * 20, None, [2.0] * 10 + [1.0] * 10)) or (0, 0)
    doubled = rate_interval(case_sums([1.0] * 20 + [0.0] * 10, [1] * 30)) or (0, 0)

    assert weighted[1] - weighted[0] > doubled[1] - doubled[0]


def test_the_sign_flip_test_is_of_the_weighted_sum() -> None:
    differences, weights = [1.0, -1.0, -1.0], [4.0, 1.0, 1.0]
    signs = list(itertools.product((1, -1), repeat=3))
    expected = sum(
        abs(sum(s * w * d for s, w, d in zip(sign, weights, differences, strict=True))) >= 2 for sign in signs
    )

    assert sign_flip_test(differences, None, weights) == pytest.approx(expected / len(signs))
    (first, second, sums), *_ = pair_sums([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]], None, np.array(weights))
    assert (first, second) == (0, 1)
    assert sums.mean == pytest.approx(2 / 6)
    assert p_values([sums]) == [pytest.approx(expected / len(signs))]


def test_the_interval_of_a_weighted_difference_holds_the_truth() -> None:
    random = np.random.default_rng(5)
    weights = [1.0] * 30 + [4.0] * 10
    truth = (30 * 0.1 + 40 * -0.2) / 70
    held = 0
    for _ in range(150):
        fell = random.random(10) < 0.2
        rose = random.random(30) < 0.1
        low, high = difference_interval([*rose.astype(float), *-fell.astype(float)], 1.0, None, 0.95, weights) or (1, 0)
        held += low <= truth <= high

    assert held >= 0.94 * 150
