"""Strengths from wins between pairs."""

from __future__ import annotations

import pytest

from eval_pipeline.statistics.ratings import bradley_terry


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
