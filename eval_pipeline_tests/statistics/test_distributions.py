"""How scores are spread."""

from __future__ import annotations

from eval_pipeline.statistics.distributions import NamedScores, distribution


def test_scores_are_described_by_middle_ends_spread_and_fifths() -> None:
    result = distribution(NamedScores([("one", 1.0), ("two", 0.6), ("three", 0.9), ("four", 0.4)]), mark=0.8)

    assert (result.count, result.passed, result.mean, result.median) == (4, 2, 0.725, 0.75)
    assert (result.least, result.most, round(result.deviation or 0, 4)) == (0.4, 1.0, 0.2754)
    assert result.buckets == (0, 1, 1, 0, 2)
    assert (result.top, result.bottom) == (("one", "three", "two"), ("three", "two", "four"))


def test_zero_belongs_to_the_first_fifth() -> None:
    assert distribution(NamedScores([("none", 0.0)]), mark=0.8).buckets == (1, 0, 0, 0, 0)


def test_nothing_is_described_as_unknown() -> None:
    result = distribution(NamedScores([]), mark=0.8)

    assert (result.count, result.mean, result.median, result.least, result.deviation, result.top) == (
        0, None, None, None, None, ()
    )  # fmt: skip


def test_of_equal_scores_the_first_are_the_higher() -> None:
    scores = [(f"{value}-{place}", value) for place in range(4) for value in (0.5, 0.0, 1.0)]
    ranked = [name for name, _ in sorted(scores, key=lambda score: -score[1])]

    result = distribution(NamedScores(scores), mark=0.8)

    assert (list(result.top), list(result.bottom)) == (ranked[:3], ranked[-3:])
