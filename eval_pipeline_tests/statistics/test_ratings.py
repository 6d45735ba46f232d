"""Strengths from wins between pairs."""

from __future__ import annotations

import math
import random
from itertools import combinations

import pytest

from eval_pipeline.statistics.ratings import Games, bradley_terry, rating_intervals


def test_two_are_as_strong_as_they_win() -> None:
    strengths = bradley_terry([("a", "b", 3), ("b", "a", 1)])

    assert strengths["a"] / strengths["b"] == pytest.approx(3)
    assert strengths["a"] * strengths["b"] == pytest.approx(1)


def test_strengths_explain_how_many_games_each_won() -> None:
    wins = [("a", "b", 2), ("b", "a", 3), ("a", "c", 4), ("c", "a", 1), ("b", "c", 5), ("c", "b", 2)]
    strengths = bradley_terry(wins)

    for name in strengths:
        won = sum(count for winner, _, count in wins if winner == name)
        expected = sum(
            count * strengths[name] / (strengths[winner] + strengths[loser]) for winner, loser, count in wins
            if name in (winner, loser)
        )  # fmt: skip
        assert expected == pytest.approx(won, rel=1e-6)


def test_nobody_has_a_strength_without_games() -> None:
    assert bradley_terry([]) == {}


@pytest.mark.parametrize(
    "wins",
    [
        pytest.param([("a", "b", 1)], id="never-lost"),
        pytest.param([("a", "b", 1), ("b", "a", 1), ("c", "d", 1), ("d", "c", 1)], id="two-groups"),
        pytest.param([("a", "b", 1), ("b", "a", 0)], id="no-win-is-no-win"),
    ],
)
def test_strengths_that_no_finite_number_explains_are_refused(wins: list[tuple[str, str, float]]) -> None:
    with pytest.raises(ValueError, match="not determined"):
        bradley_terry(wins)


def test_intervals_of_independent_games_are_those_of_fishers_information() -> None:
    games = Games(first="a", second="b", clusters=range(100), won=[1.0] * 70 + [0.0] * 30)
    low, high = intervals([games])["a"] or (0.0, 0.0)

    error = 0.5 / math.sqrt(100 * 0.7 * 0.3)  # of the logarithm of a, which is half of the log odds
    assert math.log(high / low) == pytest.approx(2 * 1.98422 * error, rel=0.01)
    assert math.sqrt(low * high) == pytest.approx(math.sqrt(7 / 3))


def test_games_of_one_cluster_count_as_one() -> None:
    won = [1.0] * 40 + [0.0] * 20
    apart, together = (
        intervals([Games(first="a", second="b", clusters=clusters, won=won)])["a"] or (0.0, 0.0)
        for clusters in (range(60), [number // 10 for number in range(60)])
    )

    assert together[1] / together[0] > 2 * apart[1] / apart[0]


def test_ties_alone_leave_the_strengths_open() -> None:
    low, high = intervals([Games(first="a", second="b", clusters=range(4), won=[0.5] * 4)])["a"] or (1.0, 1.0)

    assert low < 0.3
    assert high > 3


def test_one_case_has_no_interval() -> None:
    assert rating_intervals({"a": 1.0, "b": 1.0}, [Games(first="a", second="b", clusters=[7], won=[0.5])]) == {
        "a": None,
        "b": None,
    }


def test_intervals_cover_the_true_strengths_when_all_sides_play_the_same_cases() -> None:
    random_ = random.Random(7)
    true = {"a": 0.5, "b": 1.0, "c": 2.0}
    covered = 0
    for _ in range(150):
        found = intervals(_rounds(random_, true, cases=80))
        covered += sum(low <= true[name] <= high for name, (low, high) in _known(found))

    assert 0.92 <= covered / 450 <= 0.99


def _rounds(random_: random.Random, true: dict[str, float], cases: int) -> list[Games]:
    """Each case has a race of exponential times: who is faster wins, with the odds of Bradley and Terry."""
    times = [{name: random_.expovariate(strength) for name, strength in true.items()} for _ in range(cases)]
    return [
        Games(first=a, second=b, clusters=range(cases), won=[float(each[a] < each[b]) for each in times])
        for a, b in combinations(true, 2)
    ]


def _known(found: dict[str, tuple[float, float] | None]) -> list[tuple[str, tuple[float, float]]]:
    return [(name, interval) for name, interval in found.items() if interval is not None]


def intervals(games: list[Games]) -> dict[str, tuple[float, float] | None]:
    wins = [
        entry
        for each in games
        for entry in (
            (each.first, each.second, sum(each.won)),
            (each.second, each.first, len(each.won) - sum(each.won)),
        )
    ]
    return rating_intervals(bradley_terry(wins), games)
