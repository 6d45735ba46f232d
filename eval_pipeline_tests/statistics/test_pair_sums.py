"""The tests of all pairs from sums: as each pair tested by itself, and as sums over suites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
import pytest

from eval_pipeline.statistics.outcome_sums import outcome_ranks, outcome_sums
from eval_pipeline.statistics.pair_sums import PairSums, p_values, pair_sums, sign_p_values
from eval_pipeline.statistics.paired_tests import signs
from eval_pipeline.statistics.ranks import rank_intervals
from eval_pipeline.statistics.sign_flips import sign_flip_test
from eval_pipeline.statistics.summaries import mean
from eval_pipeline.statistics.sums_over_suites import added
from eval_pipeline_tests.statistics.pairs_of_sides import pair_tests

Sides = list[list[float | None]]
LEVELS = {"pass-or-fail": (0.0, 1.0), "repetitions": (0.0, 1 / 3, 0.5, 2 / 3, 1.0), "one-value": (1.0,)}


def random_sides(levels: Sequence[float], cases: int, seed: int, lacking: float = 0.1) -> Sides:
    random = np.random.default_rng(seed)
    values = random.choice(levels, (4, cases)).tolist()
    return [[None if random.random() < lacking else value for value in row] for row in values]


def one_by_one(
    first: Sequence[float | None], second: Sequence[float | None], clusters: list[int] | None, weight: Sequence[float]
) -> tuple[int, float | None, float | None]:
    both = [
        (place, (one - other) * weight[place])
        for place, (one, other) in enumerate(zip(first, second, strict=True))
        if one is not None and other is not None
    ]
    differences = [difference for _, difference in both]
    names = None if clusters is None else [clusters[place] for place, _ in both]
    return len(both), mean(differences), sign_flip_test(differences, names)


@pytest.mark.parametrize("levels", LEVELS.values(), ids=LEVELS)
@pytest.mark.parametrize("cases", [0, 1, 12, 90, 700])
@pytest.mark.parametrize("kind", ["plain", "clusters", "weights"])
def test_all_pairs_at_once_are_tested_as_each_by_itself(levels: Sequence[float], cases: int, kind: str) -> None:
    sides = random_sides(levels, cases, seed=cases)
    clusters = [place // 3 for place in range(cases)] if kind == "clusters" else None
    weights = [0.5 + place % 2 for place in range(cases)] if kind == "weights" else None

    tests = pair_tests(sides, clusters, weights)

    for test in tests:
        shared, difference, p_value = one_by_one(
            sides[test.first], sides[test.second], clusters, weights or [1] * cases
        )
        assert test.shared == shared
        assert (test.difference or 0.0) == pytest.approx(difference or 0.0, abs=1e-12)
        assert (test.p_value is None) == (p_value is None)
        assert (test.p_value or 0.0) == pytest.approx(p_value or 0.0, rel=1e-9)


@pytest.mark.parametrize("sizes", [(5, 9), (40, 200), (300, 600)])
@pytest.mark.parametrize("levels", LEVELS.values(), ids=LEVELS)
def test_the_sums_of_suites_give_the_test_over_all_of_them(levels: Sequence[float], sizes: tuple[int, int]) -> None:
    suites = [random_sides(levels, size, seed=size, lacking=0.0) for size in sizes]
    weights = [sum(sizes) / 2 / size for size in sizes]
    joined = [[value for suite in suites for value in suite[side]] for side in range(4)]
    together = pair_tests(joined, None, [weights[place] for place, size in enumerate(sizes) for _ in range(size)])

    parts = [(group, weight, sums) for suite, weight in zip(suites, weights, strict=True)
             for group, (*_, sums) in enumerate(pair_sums(suite))]  # fmt: skip
    columns = {field.name: [getattr(each, field.name) for *_, each in parts] for field in fields(PairSums)}
    groups = np.array([group for group, *_ in parts])
    sums = added(columns, groups, max(groups) + 1, np.array([weight for _, weight, _ in parts]))

    assert p_values(sums) == pytest.approx([test.p_value for test in together], rel=1e-9)
    assert [each.mean for each in sums] == pytest.approx([test.difference for test in together], abs=1e-12)


@pytest.mark.parametrize("cases", [1, 12, 90, 700])
def test_sides_that_passed_or_failed_are_compared_by_their_bits_as_by_their_rates(cases: int) -> None:
    sides = random_sides((0.0, 1.0, 1.0), cases, seed=cases, lacking=0.2)
    sides[1] = [value if place % 3 else 0.0 for place, value in enumerate(sides[0])]
    values = np.array(sides, dtype=np.float64)

    sums = outcome_sums(~np.isnan(values), values == 1)

    pairs = list(pair_sums(sides))
    assert sums.first.tolist() == [first for first, *_ in pairs]
    assert sums.second.tolist() == [second for _, second, _ in pairs]
    counts = zip(sums.shared.tolist(), sums.ups.tolist(), sums.downs.tolist(), strict=True)
    assert list(counts) == [(each.shared, each.ups, each.downs) for *_, each in pairs]
    expected = rank_intervals(len(sides), pair_tests(sides))
    assert outcome_ranks([len(sides)], [sums]) == [expected]


def test_boards_of_passed_or_failed_cases_are_ranked_together_as_each_by_itself() -> None:
    random = np.random.default_rng(7)
    rates = [(0.5, 0.55, 0.6), (0.1, 0.5, 0.52, 0.9), (0.4, 0.43), (0.3,), (0.2, 0.25, 0.3, 0.35, 0.4)]
    boards = [(random.random((len(each), cases)) < np.array(each)[:, None], random.random((len(each), cases)) < graded)
              for each in rates for cases, graded in ((0, 1), (30, 0.9), (400, 1), (400, 0.01))]  # fmt: skip
    sides = [np.where(graded, passed, np.nan).tolist() for passed, graded in boards]

    ranks = outcome_ranks(
        [len(graded) for _, graded in boards], [outcome_sums(graded, passed & graded) for passed, graded in boards]
    )

    known = [[[None if value != value else value for value in side] for side in board] for board in sides]
    assert ranks == [rank_intervals(len(board), pair_tests(board)) for board in known]
    assert sum(worst > best for board in ranks for best, worst in board) > 10 < sum(map(len, ranks))


def test_sign_tests_of_many_signs_are_those_by_whole_numbers() -> None:
    counts = [(40, 60), (500, 490), (0, 900), (333, 334), (600, 400), (80, 0)]

    assert sign_p_values(counts) == pytest.approx([signs(*pair).p_value for pair in counts], rel=1e-9)
