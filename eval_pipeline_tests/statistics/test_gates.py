"""Gates: how often a drop is reported without one, shown with one, and excluded despite one."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from eval_pipeline.statistics.gates import Decision, decide, difference_interval, level_for, reach_of
from eval_pipeline_tests.statistics.simulated_answers import Array, hardness
from eval_pipeline_tests.thoroughness import part_or_all


def decisions(
    random: np.random.Generator,
    cases: int,
    repetitions: int,
    icc: float,
    rate: float,
    *,
    drop: float,
    margin: float,
    times: int,
) -> Counter[Decision]:
    """Return how two sweeps of the same cases are decided; `drop` is how much lower the second one's rate is.

    The order of cases decides nothing: sweeps that are equal but for it are decided once.
    """
    before = hardness(random, icc, rate, (times, cases))
    first, second = (random.binomial(repetitions, before * share) for share in (1.0, 1 - drop / rate))
    reaches = [reach_of((seen / repetitions).tolist()) for seen in map(np.unique, np.hstack([first, second]))]
    rows = np.column_stack([np.sort(second - first), np.round(np.array(reaches) * repetitions).astype(int)])
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    decided: Counter[Decision] = Counter()
    for (*differences, reach), count in zip((distinct / repetitions).tolist(), counts.tolist(), strict=True):
        decided[decide(difference_interval(differences, reach), margin)] += count
    return decided


QUICK = ((5, 20, 80), (1, 5), (0.1, 0.8), (0.5, 0.9))
FULL = part_or_all(
    ((2, 3, 8, 50), (1, 2), (0.05, 0.9), (0.5, 0.95)),
    ((2, 3, 5, 8, 12, 20, 50, 100), (1, 2, 5), (0.05, 0.3, 0.6, 0.9), (0.5, 0.8, 0.95)),
)


@pytest.mark.parametrize(
    ("grid", "times"),
    [pytest.param(QUICK, 200, id="quick"), pytest.param(FULL, 500, id="full", marks=pytest.mark.slow)],
)
def test_an_unchanged_runner_is_no_go_in_at_most_5_percent(grid: tuple[tuple[float, ...], ...], times: int) -> None:
    random = np.random.default_rng(9)
    alarms = [
        decisions(random, int(cases), int(repetitions), icc, rate, drop=0.0, margin=0.0, times=times)["NO-GO"] / times
        for cases, repetitions, icc, rate in itertools.product(*grid)
    ]

    print(f"false alarms: mean {np.mean(alarms):.4f}, greatest {max(alarms):.4f}")
    assert max(alarms) <= 0.05


FEW = ((12, 20, 30), (1,), (0.05, 0.9), (0.9,))
MANY = part_or_all(
    ((5, 12, 20, 60), (1, 3), (0.05, 0.9), (0.8, 0.95)),
    ((5, 8, 12, 20, 30, 40, 60, 100), (1, 3), (0.05, 0.3, 0.9), (0.5, 0.8, 0.9, 0.95)),
)
MARGINS = part_or_all((0.05, 0.2), (0.02, 0.05, 0.1, 0.2))


@pytest.mark.parametrize(
    ("grid", "margins", "times"),
    [
        pytest.param(FEW, (0.1,), 300, id="quick"),
        pytest.param(MANY, MARGINS, part_or_all(500, 1_000), id="full", marks=pytest.mark.slow),
    ],
)
def test_a_drop_as_great_as_the_margin_is_go_in_at_most_5_percent(
    grid: tuple[tuple[float, ...], ...], margins: tuple[float, ...], times: int
) -> None:
    """Few cases may all miss a drop that hits one in ten of them."""
    random = np.random.default_rng(9)
    wrong: list[float] = []
    for margin, (cases, repetitions, icc, rate) in itertools.product(margins, itertools.product(*grid)):
        seen = decisions(random, int(cases), int(repetitions), icc, rate, drop=margin, margin=margin, times=times)
        wrong.append(seen["GO"] / times)

    print(f"false GO: mean {np.mean(wrong):.4f}, greatest {max(wrong):.4f}")
    assert max(wrong) <= 0.05


def test_a_drop_that_hits_few_cases_wholly_is_go_in_at_most_5_percent() -> None:
    """The runner breaks on one case in ten, whatever the repetitions, and is as good as before on the others."""
    random, go = np.random.default_rng(11), 0
    for _ in range(400):
        before: Array = random.binomial(5, 0.9, 20) / 5
        after: Array = np.where(random.random(20) < 0.11, 0.0, random.binomial(5, 0.9, 20) / 5)
        interval = difference_interval((after - before).tolist(), reach_of([*before.tolist(), *after.tolist()]))
        go += decide(interval, 0.1) == "GO"

    assert go <= 20


def test_a_drop_beyond_the_margin_is_shown_and_one_within_it_excluded() -> None:
    random = np.random.default_rng(10)

    dropped = decisions(random, 60, 3, 0.6, 0.7, drop=0.2, margin=0.02, times=100)
    unchanged = decisions(random, 150, 3, 0.6, 0.7, drop=0.0, margin=0.1, times=100)
    borderline = decisions(random, 150, 3, 0.6, 0.7, drop=0.1, margin=0.1, times=100)

    assert dropped["NO-GO"] >= 90
    assert unchanged["GO"] >= 90
    assert borderline["INCONCLUSIVE"] >= 85


@pytest.mark.parametrize(
    ("interval", "margin", "decision"),
    [
        ((-0.2, -0.1), 0.0, "NO-GO"),
        ((-0.2, -0.1), 0.1, "INCONCLUSIVE"),
        ((-0.2, -0.1), 0.2, "GO"),
        ((-0.1, 0.1), 0.0, "INCONCLUSIVE"),
        ((0.0, 0.1), 0.0, "GO"),
        (None, 0.5, "INCONCLUSIVE"),
    ],
)
def test_a_decision_is_where_the_interval_lies(
    interval: tuple[float, float] | None, margin: float, decision: str
) -> None:
    assert decide(interval, margin) == decision


@pytest.mark.parametrize("cases", [2, 5, 100])
def test_an_interval_of_equal_differences_has_a_width(cases: int) -> None:
    for difference in (0.0, 0.3, -1.0):
        low, high = difference_interval([difference] * cases, 0.5) or (0.0, 0.0)

        assert low < difference < high or low < high


def test_one_case_shows_nothing() -> None:
    assert difference_interval([0.5], 1.0) is None
    assert difference_interval([0.5, 0.5], 1.0, ["a", "a"]) is None


def test_repeated_differences_of_a_cluster_are_one() -> None:
    single = difference_interval([0.5, -0.25, 0.5, 0.0], 1.0)
    doubled = difference_interval([0.5, 0.5, -0.25, -0.25, 0.5, 0.5, 0.0, 0.0], 1.0, [1, 1, 2, 2, 3, 3, 4, 4])

    assert single is not None
    assert doubled is not None
    assert doubled[1] - doubled[0] > 0.75 * (single[1] - single[0])


@pytest.mark.parametrize(
    ("values", "reach"), [([0.0, 1.0, 1.0], 1.0), ([1.0], 1.0), ([0.7, 0.7], 1.0), ([0.2, 0.5, 0.4], 0.3), ([], 1.0)]
)
def test_the_reach_of_a_case_is_the_range_of_all(values: list[float], reach: float) -> None:
    assert reach_of(values) == pytest.approx(reach)


def test_several_intervals_hold_together() -> None:
    assert [level_for(count) for count in (1, 5)] == pytest.approx([0.95, 0.99])


def test_light_cases_that_fall_wholly_count_as_little_as_they_weigh() -> None:
    falling, steady = [-1.0] * 50, [0.0] * 50

    interval = difference_interval([*falling, *steady], 1.0, weights=[0.1] * 50 + [1.0] * 50)

    assert interval is not None
    assert -0.5 < interval[0] < -5 / 55 < interval[1]
