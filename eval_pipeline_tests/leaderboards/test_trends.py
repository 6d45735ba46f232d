"""The mean score over sweeps: rising, falling or staying."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import polars as pl
import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.leaderboards.plots import plot_trend
from eval_pipeline.leaderboards.results import Results
from eval_pipeline.leaderboards.trends import direction_of, in_order, trend
from eval_pipeline.statistics.intervals import Interval
from eval_pipeline_tests.exports.sample_rows import NOON, results


@pytest.mark.parametrize(
    ("means", "direction"),
    [([0.5, 0.6, 0.7], "improving"), ([0.7, 0.6, 0.5], "degrading"), ([0.5, 0.505, 0.5], "stable"), ([0, 0], "stable")],
)
def test_a_line_through_the_means_tells_the_direction(means: list[float], direction: str) -> None:
    sweeps = [results(str(place), {f"c{n}": mean for n in range(8)}) for place, mean in enumerate(means)]

    result, single = trend(sweeps), trend([results(str(place), {"c": mean}) for place, mean in enumerate(means)])

    assert result.direction == direction
    assert [point.mean_score for point in result.points] == pytest.approx(means)
    assert (single.direction, single.decision, single.interval) == ("stable", "INCONCLUSIVE", None)


@pytest.mark.parametrize(
    ("slope", "interval", "direction"),
    [
        (0.02, (0.01, 0.03), "improving"),
        (-0.02, (-0.03, -0.01), "degrading"),
        (0.01, (0.005, 0.015), "stable"),
        (-0.01, (-0.015, -0.005), "stable"),
        (-0.02, (-0.05, 0.01), "stable"),
        (-0.02, None, "stable"),
        (-0.02, (0.01, 0.03), "stable"),
    ],
)
def test_a_trend_is_beyond_the_threshold_and_shown_by_its_interval(
    slope: float, interval: Interval | None, direction: str
) -> None:
    assert direction_of(slope, interval, 0.01) == direction


def _sweeps(random: np.random.Generator, count: int, cases: int, fall: float = 0.0) -> list[Results]:
    hard = random.beta(1.4, 0.6, cases)
    passed = [random.random(cases) < np.clip(hard - fall * place, 0, 1) for place in range(count)]
    return [
        results(str(place), {f"c{case}": float(value) for case, value in enumerate(row)})
        for place, row in enumerate(passed)
    ]


def test_unchanged_sweeps_are_degrading_in_at_most_5_percent_and_falling_ones_in_most() -> None:
    random = np.random.default_rng(11)

    unchanged = [trend(_sweeps(random, count, 20)) for count in (2, 5) for _ in range(60)]
    falling = [trend(_sweeps(random, 6, 60, fall=0.08)) for _ in range(20)]

    assert sum(result.line.slope < -0.01 for result in unchanged) / 120 > 0.2  # what was called degrading before
    assert sum(result.direction == "degrading" for result in unchanged) / 120 <= 0.05
    assert sum(result.decision == "NO-GO" for result in falling) / 20 >= 0.9


def test_a_trend_is_go_when_the_cases_exclude_a_fall() -> None:
    steady = {f"c{n}": n % 5 / 4 for n in range(100)}

    result = trend([results("1", steady), results("2", steady)], slope_threshold=0.05)

    assert (result.direction, result.decision) == ("stable", "GO")


def test_only_cells_that_every_sweep_graded_count() -> None:
    sweeps = [
        results("1", {"easy": 1.0, "gone": 0.0}),
        results("2", {"easy": 1.0, "new": 0.0}),
        results("3", {"easy": 1.0, "new": None}),
    ]

    matched, all_ = trend(sweeps), trend(sweeps, allow_missing=True)

    assert [(point.cases, point.left_out, point.mean_score) for point in matched.points] == [
        (1, 1, 1.0), (1, 1, 1.0), (1, 0, 1.0)
    ]  # fmt: skip
    assert [point.mean_score for point in all_.points] == [0.5, 0.5, 1.0]
    assert matched.matched == all_.matched == 1


def test_a_case_whose_content_changed_is_another_case() -> None:
    same = {"kept": 1.0}
    sweeps = [results("1", same, content="a"), results("2", same, content="b")]

    with pytest.raises(InputError, match="1 has no case that every sweep graded"):
        trend(sweeps)


def test_a_file_that_does_not_tell_contents_is_matched_by_name() -> None:
    result = trend([results("1", {"c": 1.0}, content="a"), results("2", {"c": 0.5})])

    assert result.matched == 1


def test_the_same_case_of_two_runners_is_two_cells() -> None:
    with pytest.raises(InputError, match="every sweep graded"):
        trend([results("1", {"c": 1.0}, runner="x"), results("2", {"c": 1.0}, runner="y")])


@pytest.mark.parametrize("count", [0, 1])
def test_a_trend_needs_two_sweeps(count: int) -> None:
    with pytest.raises(InputError, match=f"at least two sweeps, got {count}"):
        trend([results("1", {"c": 1.0})] * count)


def test_a_sweep_that_graded_nothing_is_named() -> None:
    with pytest.raises(InputError, match="2 graded nothing"):
        trend([results("1", {"c": 1.0}), results("2", {"c": None})], allow_missing=True)


def test_sweeps_are_put_in_order_of_time_when_all_tell_theirs() -> None:
    late = replace(results("late", {}), at=NOON + timedelta(days=1))
    early = replace(results("early", {}), at=NOON)

    assert [one.name for one in in_order([late, early])] == ["early", "late"]
    assert [one.name for one in in_order([late, results("when", {}), early])] == ["late", "when", "early"]


def test_the_picture_of_a_trend_is_a_png() -> None:
    result = trend([results(f"sweep {place}", {"c": place / 40}) for place in range(40)])

    assert plot_trend(result).startswith(b"\x89PNG")


def test_cases_of_one_cluster_are_one_unit_of_a_trend() -> None:
    """Forty cases of four documents, of which one fell: forty slopes, but one document that fell."""
    scores = [{f"c{number}": 1.0 if number < 40 - fallen else 0.0 for number in range(40)} for fallen in (0, 10, 20)]
    sweeps = [results(str(place), of_sweep) for place, of_sweep in enumerate(scores)]
    cluster = (pl.col("case_id").str.slice(1).cast(pl.Int32) // 10).cast(pl.String)
    documents = [Results(sweep.name, sweep.frame.with_columns(cluster=cluster)) for sweep in sweeps]

    single, clustered = trend(sweeps), trend(documents)

    assert (single.direction, clustered.direction) == ("degrading", "stable")
    assert single.line == clustered.line


def _weighted(name: str, scores: dict[str, float], heavy: float) -> Results:
    """Results whose cases `h…` count so much more than the others."""
    plain = results(name, dict(scores))
    weight = pl.when(pl.col("case_id").str.starts_with("h")).then(heavy).otherwise(1.0)
    return Results(plain.name, plain.frame.with_columns(weight=weight), plain.at)


def test_a_trend_counts_cases_by_the_weights_of_the_newest_sweep() -> None:
    """Easy cases rise as far as hard ones fall: what counts decides; other weights alone are no trend."""
    before = {f"{kind}{n}": 0.5 if n else 0.0 for kind in "eh" for n in range(100)}
    after = {case: (0.7 if case.startswith("e") else 0.3) if mean else 0.0 for case, mean in before.items()}
    mixed = {case: 0.9 if case.startswith("e") else 0.1 for case in before}

    directions = {
        heavy: trend([_weighted("1", before, 1.0), _weighted("2", after, heavy)]).direction
        for heavy in (1.0, 4.0, 0.25)
    }
    reweighted = trend([_weighted("1", mixed, 1.0), _weighted("2", mixed, 9.0)])

    assert directions == {1.0: "stable", 4.0: "degrading", 0.25: "improving"}
    assert [point.mean_score for point in reweighted.points] == pytest.approx([0.18, 0.18])
    assert reweighted.line.slope == pytest.approx(0)
