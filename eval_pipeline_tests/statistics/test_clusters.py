"""Intervals of rates and means with repetitions and clusters: how often they hold the truth, by simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from eval_pipeline.statistics.clusters import CaseSums, case_sums, clustered_error, rate_interval, score_interval
from eval_pipeline.statistics.intervals import wilson_at
from eval_pipeline_tests.statistics.simulated_answers import coverage, passed_counts
from eval_pipeline_tests.thoroughness import part_or_all

QUICK = ((5, 20, 100), (1, 5), (0, 0.6, 0.9), (0.5, 0.8, 0.95))
FULL = part_or_all(
    ((3, 5, 20, 100), (1, 2, 5), (0, 0.3, 0.9), (0.3, 0.5, 0.8, 0.95)),
    (
        (2, 3, 5, 10, 20, 50, 100, 200),
        (1, 2, 5, 10),
        (0, 0.1, 0.3, 0.6, 0.9, 1),
        (0.05, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99),
    ),
)


@pytest.mark.parametrize(
    ("grid", "times", "least"),
    [pytest.param(QUICK, 1_500, 0.9, id="quick"), pytest.param(FULL, 1_500, 0.9, id="full", marks=pytest.mark.slow)],
)
def test_intervals_of_repeated_cases_hold_the_rate(
    grid: tuple[tuple[float, ...], ...], times: int, least: float
) -> None:
    random = np.random.default_rng(20261122)
    rates, scores = [], []

    for cases, repetitions, icc, rate in itertools.product(*grid):
        passed = passed_counts(random, int(cases), int(repetitions), icc, rate, times)
        rates.append(coverage(passed, int(repetitions), rate, rate_interval))
        scores.append(coverage(passed, int(repetitions), rate, score_interval))

    print(f"rate: mean {np.mean(rates):.4f} least {min(rates):.4f}; score: {np.mean(scores):.4f} {min(scores):.4f}")
    for covered in (rates, scores):
        assert 0.94 <= np.mean(covered) <= 0.98
        assert min(covered) >= least


def test_the_interval_that_counts_answers_covers_too_seldom() -> None:
    """What was shown before: Wilson's interval of all answers, as if each were a case."""
    passed = passed_counts(np.random.default_rng(1), 50, 10, 0.6, 0.7, 1_000)

    covered = coverage(passed, 10, 0.7, lambda sums: wilson_at(sums.total / sums.cases, sums.cases * 10))

    assert covered < 0.65


def test_clusters_of_cases_widen_the_interval_as_far_as_they_are_alike() -> None:
    """Twenty documents with ten questions each, answered alike: twenty independent units, not two hundred."""
    random = np.random.default_rng(2)
    names = [case // 10 for case in range(200)]
    held: list[bool] = []
    narrow: list[bool] = []
    for documents in random.random((300, 20)) < 0.7:
        means = [float(documents[name]) for name in names]
        for clusters, seen in ((names, held), (None, narrow)):
            low, high = rate_interval(case_sums(means, [1] * 200, clusters)) or (1.0, 0.0)
            seen.append(low <= 0.7 <= high)

    assert 0.9 <= np.mean(held) <= 0.99
    assert np.mean(narrow) < 0.6


def test_scores_that_hardly_differ_have_a_narrow_interval_that_covers() -> None:
    random = np.random.default_rng(3)
    held, widths = [], []
    for scores in random.beta(16, 4, (600, 25)).tolist():
        low, high = score_interval(case_sums(scores, [1] * 25)) or (1.0, 0.0)
        held.append(low <= 0.8 <= high)
        widths.append(high - low)

    assert 0.94 <= np.mean(held) <= 0.99
    assert np.mean(widths) < 0.09  # Wilson's of 25 answers: 0.3


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("cases", [1, 2, 10, 1000])
def test_no_interval_is_without_width(cases: int, value: float) -> None:
    for repetitions in (1, 7):
        sums = case_sums([value] * cases, [repetitions] * cases)
        for interval in (rate_interval(sums), score_interval(sums)):
            assert interval is not None
            low, high = interval
            assert low <= value <= high
            assert high - low > 5e-4


def test_nothing_has_no_interval() -> None:
    sums = case_sums([], [])

    assert (rate_interval(sums), score_interval(sums), clustered_error([]), sums.mean) == (None, None, None, None)


@pytest.mark.parametrize("passed", [4, 10, 15, 16])
def test_one_answer_per_case_is_wilsons(passed: int) -> None:
    sums = case_sums([1.0] * passed + [0.0] * (20 - passed), [1] * 20)

    assert rate_interval(sums) == pytest.approx(wilson_at(passed / 20, 20), abs=1e-12)


def test_the_lower_end_of_one_success_is_the_modified_one() -> None:
    low, high = rate_interval(case_sums([1.0] + [0.0] * 19, [1] * 20)) or (0.0, 0.0)

    assert (low, high) == pytest.approx((-math.log(0.95) / 20, wilson_at(1 / 20, 20)[1]), abs=1e-12)


def test_sums_of_two_sets_add_up() -> None:
    first, second = ([0.5, 1.0, 0.0], [2, 4, 1], ["a", "a", "b"]), ([1.0, 0.25], [1, 4], ["c", "c"])
    one, other = case_sums(*first), case_sums(*second)

    both = case_sums(*(left + right for left, right in zip(first, second, strict=True)))  # type: ignore[operator]

    names = CaseSums._fields
    assert [getattr(both, name) for name in names] == pytest.approx(
        [getattr(one, name) + getattr(other, name) for name in names]
    )


@pytest.mark.parametrize("name", [None, math.nan])
def test_a_case_without_a_cluster_is_refused(name: object) -> None:
    with pytest.raises(ValueError, match="has no cluster"):
        case_sums([1.0, 0.0], [1, 1], ["a", name])
