"""Ranks by paired tests of all pairs: how often boards of equals are told apart, and boards of unequals are not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from eval_pipeline.statistics.intervals import wilson_at
from eval_pipeline.statistics.multiple_tests import holm
from eval_pipeline.statistics.ranks import rank_intervals
from eval_pipeline.statistics.sign_flips import sign_flip_test
from eval_pipeline_tests.statistics.pairs_of_sides import pair_tests
from eval_pipeline_tests.statistics.simulated_answers import Array, board_of_equals, hardness
from eval_pipeline_tests.thoroughness import part_or_all


def by_enumeration(differences: Sequence[float]) -> float:
    reached = abs(sum(differences)) - 1e-9
    sums = [
        sum(sign * value for sign, value in zip(signs, differences, strict=True))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(abs(total) >= reached for total in sums) / len(sums)


def test_the_sign_flip_test_counts_all_choices_of_signs() -> None:
    random = np.random.default_rng(5)
    for _ in range(30):
        differences = random.choice([-1, -0.6, -1 / 3, 0, 0.2, 0.5, 2 / 3, 1], 8).tolist()

        assert sign_flip_test(differences) == pytest.approx(by_enumeration(differences), abs=1e-12)


def test_clusters_change_their_signs_together() -> None:
    differences, names = [0.5, 0.5, 0.25, -0.25, 1.0, 0.5], ["a", "a", "b", "b", "c", "d"]

    assert sign_flip_test(differences, names) == pytest.approx(by_enumeration([1.0, 0.0, 1.0, 0.5]))


@pytest.mark.parametrize("count", [300, 3_000])
def test_many_changes_are_tested_by_students_t(count: int) -> None:
    differences = np.random.default_rng(6).normal(0.004, 0.1, count).tolist()
    mean, error = float(np.mean(differences)), float(np.std(differences, ddof=1)) / count**0.5

    p_value = sign_flip_test(differences)

    assert p_value == pytest.approx(math.erfc(abs(mean) / error / math.sqrt(2)), rel=0.03, abs=1e-4)


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([], None),
        ([0.0, 0.0], 1.0),
        ([1.0], 1.0),
        ([1.0, 1.0], 0.5),
        ([0.1] * 6, 2 / 64),
        ([1.0] * 8 + [0.0] * 9, 2 / 256),
    ],
)
def test_few_cases_show_nothing(differences: list[float], expected: float | None) -> None:
    assert sign_flip_test(differences) == expected


def test_holm_takes_the_smallest_times_all_and_never_falls() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def _told_apart(sides: Sequence[Sequence[float]]) -> bool:
    return any(test.better is not None for test in pair_tests(sides))


QUICK = [(30, 1, 0.6, 0.7, 0.0, 250), (30, 5, 0.6, 0.7, 0.5, 150)]
FULL = [
    (cases, repetitions, icc, rate, own, 400)
    for cases in part_or_all((10,), (10, 30, 100))
    for repetitions in (1, 5)
    for icc in (0.3, 0.8)
    for rate in (0.5, 0.9)
    for own in (0.0, 1.0)
]


@pytest.mark.parametrize(
    ("grid", "limit"),
    [pytest.param(QUICK, 0.057, id="quick"), pytest.param(FULL, 0.057, id="full", marks=pytest.mark.slow)],
)
def test_equal_sides_are_told_apart_in_at_most_5_percent_of_boards(grid: list[Any], limit: float) -> None:
    random = np.random.default_rng(7)
    errors = []
    for cases, repetitions, icc, rate, own, times in grid:
        boards = (board_of_equals(random, 5, cases, repetitions, icc, rate, own) for _ in range(times))
        errors.append(sum(map(_told_apart, boards)) / times)

    print(f"family-wise error: mean {np.mean(errors):.4f}, greatest {max(errors):.4f}")
    assert max(errors) <= limit


def test_a_difference_is_shown_that_intervals_hide() -> None:
    """Two sides, 100 cases, 70 % and 55 %, most cases answered alike: power of paired tests and of intervals that do
    not overlap."""
    random = np.random.default_rng(8)
    paired, apart = 0, 0
    for _ in range(150):
        better = hardness(random, 0.8, 0.7, (100,))
        first: Array = random.binomial(1, better)
        second: Array = random.binomial(1, better * 0.55 / 0.7)
        paired += _told_apart([first.tolist(), second.tolist()])
        low, high = wilson_at(first.mean(), 100), wilson_at(second.mean(), 100)
        assert low is not None
        assert high is not None
        apart += low[0] > high[1]

    print(f"power: paired {paired / 150:.2f}, intervals {apart / 150:.2f}")
    assert paired / 150 >= 0.8
    assert apart / 150 <= 0.5


def test_a_rank_is_an_interval_of_ranks() -> None:
    sides = [[1.0] * 9 + [0.0], [0.0] * 10, [1.0] * 10]

    tests = pair_tests(sides)

    assert rank_intervals(3, tests) == [(1, 2), (3, 3), (1, 2)]
    assert [(test.first, test.second, test.shared, test.better) for test in tests] == [
        (0, 1, 10, 0), (0, 2, 10, None), (1, 2, 10, 2)
    ]  # fmt: skip


def test_only_shared_cases_are_compared_and_without_any_nothing_is_shown() -> None:
    sides: list[list[float | None]] = [[*[1.0] * 8, None], [*[0.0] * 8, 1.0], [*[None] * 8, 1.0]]

    tests = pair_tests(sides)

    assert [(test.shared, test.p_value) for test in tests] == [(8, 2 / 256), (0, None), (1, 1.0)]
    assert [test.adjusted for test in tests] == [4 / 256, 1.0, 1.0]
    assert rank_intervals(3, tests) == [(1, 2), (2, 3), (1, 3)]


def test_weights_let_small_suites_count_as_much_as_large_ones() -> None:
    first, second = [1.0] * 8 + [0.0, 0.0], [0.0] * 8 + [1.0, 1.0]

    (plain,), (weighted,) = pair_tests([first, second]), pair_tests([first, second], weights=[10 / 16] * 8 + [2.5] * 2)

    assert plain.difference == pytest.approx(0.6)
    assert weighted.difference == pytest.approx(0.0)
    assert weighted.p_value == 1.0
