"""Results of one sweep after another → Trend: the direction of the mean score, where the cases show one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from operator import mul
from typing import Literal

import polars as pl

from eval_pipeline.errors import InputError
from eval_pipeline.leaderboards.results import CASE, RUNNER_CASE, WEIGHT, Results, by_case, clusters_of, weights_of
from eval_pipeline.statistics.gates import Decision, decide, difference_interval, reach_of
from eval_pipeline.statistics.intervals import Interval
from eval_pipeline.statistics.lines import Line, fit_line
from eval_pipeline.statistics.summaries import mean

SLOPE_THRESHOLD = 0.01
Direction = Literal["improving", "degrading", "stable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One sweep of a trend: means over the cases that count; `left_out` were graded, but not in every sweep."""

    name: str
    at: datetime | None
    cases: int
    left_out: int
    mean_score: float
    pass_rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A least-squares line through the mean scores of sweeps, per sweep; `matched` cases were graded in all of them.

    `interval` holds the mean of the slopes of the matched cases (95 %); None below two cases.
    """

    points: tuple[Point, ...]
    matched: int
    line: Line
    interval: Interval | None
    slope_threshold: float
    allow_missing: bool

    @property
    def direction(self) -> Direction:
        return direction_of(self.line.slope, self.interval, self.slope_threshold)

    @property
    def decision(self) -> Decision:
        """NO-GO for a degrading trend, GO if the interval excludes a fall by more than the threshold per sweep."""
        if self.direction == "degrading":
            return "NO-GO"
        decision = decide(self.interval, self.slope_threshold)
        return "INCONCLUSIVE" if decision == "NO-GO" else decision


def direction_of(slope: float, interval: Interval | None, threshold: float = SLOPE_THRESHOLD) -> Direction:
    """Return improving or degrading when the mean changes by more than the threshold per sweep, and the interval shows
    a change in this direction."""
    if interval is None or abs(slope) <= threshold or interval[0] <= 0 <= interval[1]:
        return "stable"
    return "improving" if min(slope, interval[0]) > 0 else "degrading" if max(slope, interval[1]) < 0 else "stable"


def trend(sweeps: Sequence[Results], *, slope_threshold: float = SLOPE_THRESHOLD, allow_missing: bool = False) -> Trend:
    """Return the trend over sweeps, oldest first, of the cases (suite × runner × case) that every sweep graded.

    All means have the weights of the newest sweep. With `allow_missing` each sweep's mean is over whatever it graded,
    by its own weights. A case whose content changed is another case.
    Raises InputError for fewer than two sweeps, or when no case is common to all.
    """
    if len(sweeps) < 2:
        raise InputError(f"a trend needs at least two sweeps, got {len(sweeps)}")
    graded = [_graded(results, _content_known(sweeps)) for results in sweeps]
    common = graded[-1].select("plan", *CASE, "cluster", *_weight(graded[-1]))
    for number, frame in enumerate(graded):
        common = common.join(frame.select("plan", pl.col("score").alias(f"score_{number}")), on="plan")
    chosen = graded if allow_missing else [_as_weighted_in(common, frame) for frame in graded]
    points = [_point(results, all_, kept) for results, all_, kept in zip(sweeps, graded, chosen, strict=True)]
    line = fit_line([point.mean_score for point in points])
    assert line is not None  # two points or more
    return Trend(
        points=tuple(points), matched=common.height, line=line, interval=_interval(common, len(sweeps)),
        slope_threshold=slope_threshold, allow_missing=allow_missing,
    )  # fmt: skip


def _as_weighted_in(common: pl.DataFrame, graded: pl.DataFrame) -> pl.DataFrame:
    """Return the common cases of a sweep with the weights that they have in `common`."""
    return graded.drop(_weight(graded)).join(common.select("plan", *_weight(common)), on="plan")


def _interval(common: pl.DataFrame, sweeps: int) -> Interval | None:
    """Return the interval of the mean slope of cases. The answers of several runners to a case, and cases of one
    cluster, are one unit."""
    center = (sweeps - 1) / 2
    squares = sum((place - center) ** 2 for place in range(sweeps))
    weights = [(place - center) / squares for place in range(sweeps)]
    scores = [common[f"score_{place}"].to_list() for place in range(sweeps)]
    slopes = [sum(map(mul, weights, row)) for row in zip(*scores, strict=True)]
    steepest = reach_of(chain.from_iterable(scores)) * sum(map(abs, weights)) / 2
    return difference_interval(slopes, steepest, clusters_of(common), weights=weights_of(common))


def _content_known(sweeps: Sequence[Results]) -> bool:
    return all(results.frame["content"].null_count() == 0 for results in sweeps)


def _graded(results: Results, by_content: bool) -> pl.DataFrame:
    frame = by_case(results.frame, RUNNER_CASE).filter(pl.col("score").is_not_null())
    names = [*RUNNER_CASE, "content"] if by_content else list(RUNNER_CASE)
    return frame.with_columns(plan=pl.struct(names)).select(
        "plan", *CASE, "cluster", *_weight(frame), "score", "pass_rate"
    )


def _weight(frame: pl.DataFrame) -> list[str]:
    return [WEIGHT] if WEIGHT in frame.columns else []


def _point(results: Results, graded: pl.DataFrame, kept: pl.DataFrame) -> Point:
    weights = weights_of(kept)
    score, rate = mean(kept["score"].to_list(), weights), mean(kept["pass_rate"].to_list(), weights)
    if score is None or rate is None:
        why = "graded nothing" if graded.is_empty() else "has no case that every sweep graded; see --allow-missing"
        raise InputError(f"{results.name} {why}")
    return Point(
        name=results.name, at=results.at, cases=kept.height, left_out=graded.height - kept.height, mean_score=score,
        pass_rate=rate,
    )  # fmt: skip


def in_order(sweeps: Sequence[Results]) -> list[Results]:
    """Return sweeps oldest first, if all have a start time; else in the given order."""
    times = [results.at for results in sweeps]
    if any(at is None for at in times):
        return list(sweeps)
    return sorted(sweeps, key=lambda results: (results.at, results.name))
