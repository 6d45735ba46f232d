"""How scores are spread."""

from __future__ import annotations

from eval_pipeline.statistics.distributions import distribution


def test_scores_are_described_by_middle_ends_spread_and_fifths() -> None:
    found = distribution([("one", 1.0), ("two", 0.6), ("three", 0.9), ("four", 0.4)], mark=0.8)

    assert (found.count, found.passed, found.mean, found.median) == (4, 2, 0.725, 0.75)
    assert (found.least, found.most, round(found.deviation or 0, 4)) == (0.4, 1.0, 0.2754)
    assert found.buckets == (0, 1, 1, 0, 2)
    assert (found.top, found.bottom) == (("one", "three", "two"), ("three", "two", "four"))


def test_zero_belongs_to_the_first_fifth() -> None:
    assert distribution([("none", 0.0)], mark=0.8).buckets == (1, 0, 0, 0, 0)


def test_nothing_is_described_as_unknown() -> None:
    found = distribution([], mark=0.8)

    assert (found.count, found.mean, found.median, found.least, found.deviation, found.top) == (
        0, None, None, None, None, ()
    )  # fmt: skip
