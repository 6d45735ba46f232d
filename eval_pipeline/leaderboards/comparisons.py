"""Results × Results → Comparison: two runners or two sweeps, paired by case.

A case is paired when both sides graded it with the same content; unpaired cases are counted by
their reason. Means are over cases: the repetitions of a case are averaged first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from eval_pipeline.errors import InputError
from eval_pipeline.leaderboards.results import CASE, RUNNER_CASE, WEIGHT, Results, by_case, clusters_of, weights_of
from eval_pipeline.statistics.clusters import clustered_error, clustered_interval
from eval_pipeline.statistics.gates import difference_interval, reach_of
from eval_pipeline.statistics.intervals import Interval
from eval_pipeline.statistics.paired_tests import SignTest, sign_test
from eval_pipeline.statistics.ratings import Games, bradley_terry
from eval_pipeline.statistics.sign_flips import sign_flip_test
from eval_pipeline.statistics.summaries import mean

if TYPE_CHECKING:
    from eval_pipeline.statistics.ranks import PairTest

THRESHOLD = 0.1
SIGNIFICANT = 0.05
UNPAIRED = ("ungraded", "changed", "only-baseline", "only-candidate")
Evidence = Literal["regressed", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The numbers of a comparison, over all suites (`suite` None) or one.

    Means, which have the weights of the candidate's cases, `mean_delta` (candidate - baseline), its standard error and
    its 95 % interval (as the gate's, for one candidate) are over the `paired` cases; `student_interval` is Student's,
    which few cases make too narrow: other tools report it. `p_value` is the sign-flip test of the mean change, None
    without pairs. `passes` is the exact sign test of the cases' pass rates, weights or not: with one repetition,
    McNemar's. The answers of several runners to a case, and cases of one cluster, are one unit of the error, the
    interval and `p_value`.
    """

    suite: str | None
    paired: int
    wins: int
    losses: int
    ties: int
    mean_baseline: float | None
    mean_candidate: float | None
    mean_delta: float | None
    standard_error: float | None
    interval: Interval | None
    student_interval: Interval | None
    p_value: float | None
    pass_rate_baseline: float | None
    pass_rate_candidate: float | None
    passes: SignTest
    ungraded: int
    changed: int
    only_baseline: int
    only_candidate: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A candidate against a baseline.

    `cases` has one row per case of either side: suite, case_id (and runner, where a side has several; cluster and
    weight, where cases have them), score_baseline, score_candidate, pass_rate_baseline, pass_rate_candidate, delta,
    outcome. The outcome is win, loss, tie, or why the case is not paired: ungraded (on a side), changed (another
    content), only-baseline, only-candidate.
    """

    baseline: str
    candidate: str
    threshold: float
    summary: Summary
    suites: tuple[Summary, ...]
    cases: pl.DataFrame

    @property
    def paired(self) -> pl.DataFrame:
        """The rows of `cases` that are paired."""
        return self.cases.filter(pl.col("delta").is_not_null())

    def changes(self, most: int) -> pl.DataFrame:
        """Return the wins and losses of largest change; of equal changes, losses first."""
        moved = self.cases.filter(pl.col("outcome").is_in(["win", "loss"]))
        size = pl.col("delta").abs().round(9)
        keys = [name for name in RUNNER_CASE if name in moved.columns]
        return moved.sort(size, pl.col("outcome"), *keys, descending=[True] + [False] * (1 + len(keys))).head(most)


def compare(
    baseline: Results, candidate: Results, *, threshold: float = THRESHOLD, allow_changed: bool = False
) -> Comparison:
    """Pair two results by suite and case, and by runner where a side has several runners.

    A case whose content differs between the sides is another case: it is paired only with `allow_changed`.
    """
    overall = compare_overall(baseline, candidate, threshold=threshold, allow_changed=allow_changed)
    suites = overall.cases["suite"].unique().sort().to_list()
    summaries = (_summary(overall.cases.filter(pl.col("suite") == suite), suite) for suite in suites)
    return replace(overall, suites=tuple(summaries))


def compare_overall(
    baseline: Results, candidate: Results, *, threshold: float = THRESHOLD, allow_changed: bool = False
) -> Comparison:
    """Return what `compare` returns, without the summaries of single suites: they are most of its time."""
    several = len(baseline.runners) > 1 or len(candidate.runners) > 1
    keys = RUNNER_CASE if several else CASE
    cases = _paired(by_case(baseline.frame, keys), by_case(candidate.frame, keys), keys, threshold, allow_changed)
    return Comparison(
        baseline=baseline.name,
        candidate=candidate.name,
        threshold=threshold,
        summary=_summary(cases, None),
        suites=(),
        cases=cases,
    )


def outcome_of(delta: pl.Expr, threshold: float) -> pl.Expr:
    """Return `win` for a change up by the threshold or more, `loss` for one down, `tie` for less."""
    lost = pl.when(delta <= -threshold).then(pl.lit("loss")).otherwise(pl.lit("tie"))
    return pl.when(delta >= threshold).then(pl.lit("win")).otherwise(lost)


def _paired(
    baseline: pl.DataFrame, candidate: pl.DataFrame, keys: tuple[str, ...], threshold: float, allow_changed: bool
) -> pl.DataFrame:
    joined = baseline.join(candidate, on=list(keys), how="full", coalesce=True, suffix="_candidate")
    delta = pl.col("score_candidate") - pl.col("score")
    same = pl.lit(allow_changed) | (pl.col("content") == pl.col("content_candidate")).fill_null(True)
    outcome = (
        pl.when(pl.col("repetitions").is_null()).then(pl.lit("only-candidate"))
        .when(pl.col("repetitions_candidate").is_null()).then(pl.lit("only-baseline"))
        .when(~same).then(pl.lit("changed"))
        .when(delta.is_null()).then(pl.lit("ungraded"))
        .otherwise(outcome_of(delta, threshold))
    )  # fmt: skip
    clusters = pl.coalesce("cluster_candidate", "cluster").alias("cluster")
    has_clusters = bool(joined.select(clusters.is_not_null().any()).item())
    weights = [name for name in (f"{WEIGHT}_candidate", WEIGHT) if name in joined.columns]
    return joined.with_columns(outcome=outcome).select(
        *keys,
        *([clusters] if has_clusters else []),
        *([pl.coalesce(*weights).alias(WEIGHT)] if weights else []),
        pl.col("score").alias("score_baseline"),
        "score_candidate",
        pl.col("pass_rate").alias("pass_rate_baseline"),
        "pass_rate_candidate",
        pl.when(~pl.col("outcome").is_in(UNPAIRED)).then(delta).alias("delta"),
        "outcome",
    ).sort(*keys)  # fmt: skip


def _summary(cases: pl.DataFrame, suite: str | None) -> Summary:
    counts = dict(cases["outcome"].value_counts().iter_rows())
    paired = cases.filter(pl.col("delta").is_not_null())
    deltas, clusters = paired["delta"].to_list(), clusters_of(paired)
    weights = weights_of(paired)
    passes = (paired["pass_rate_candidate"] - paired["pass_rate_baseline"]).to_list()
    return Summary(
        suite=suite,
        paired=paired.height,
        wins=counts.get("win", 0),
        losses=counts.get("loss", 0),
        ties=counts.get("tie", 0),
        mean_baseline=mean(paired["score_baseline"].to_list(), weights),
        mean_candidate=mean(paired["score_candidate"].to_list(), weights),
        mean_delta=mean(deltas, weights),
        standard_error=clustered_error(deltas, clusters, weights),
        interval=_possible(change_interval(paired)),
        student_interval=_possible(clustered_interval(deltas, clusters, weights=weights)),
        p_value=sign_flip_test(deltas, clusters, weights),
        pass_rate_baseline=mean(paired["pass_rate_baseline"].to_list(), weights),
        pass_rate_candidate=mean(paired["pass_rate_candidate"].to_list(), weights),
        passes=sign_test(passes),
        ungraded=counts.get("ungraded", 0),
        changed=counts.get("changed", 0),
        only_baseline=counts.get("only-baseline", 0),
        only_candidate=counts.get("only-candidate", 0),
    )


def change_interval(paired: pl.DataFrame, lost: float = 0.0, level: float = 0.95) -> Interval | None:
    """Return the interval of what candidates have more than their baseline without a share `lost` of it; None below two
    cases."""
    before, after = paired["score_baseline"].to_list(), paired["score_candidate"].to_list()
    more = [new - (1 - lost) * old for old, new in zip(before, after, strict=True)]
    return difference_interval(more, reach_of([*before, *after]), clusters_of(paired), level, weights_of(paired))


def _possible(interval: Interval | None) -> Interval | None:
    """Clip an interval of score differences to [-1, 1], their range."""
    return None if interval is None else (max(-1.0, interval[0]), min(1.0, interval[1]))


def matrix(sides: Sequence[Results]) -> pl.DataFrame:
    """Return the mean score of each case (row) on each side (column); null without a score.

    Columns: suite, case_id (and runner, where a side has several), then one named after each side.
    """
    keys = RUNNER_CASE if any(len(side.runners) > 1 for side in sides) else CASE
    scores = [by_case(side.frame, keys).select(*keys, pl.col("score").alias(side.name)) for side in sides]
    joined = scores[0]
    for other in scores[1:]:
        joined = joined.join(other, on=list(keys), how="full", coalesce=True)
    return joined.sort(*keys)


def one_per_runner(results: Results) -> list[Results]:
    """Split results by runner, each named after its runner."""
    return [Results(runner, results.frame.filter(pl.col("runner") == runner), results.at) for runner in results.runners]


def tests_of(comparisons: Sequence[Comparison], names: Sequence[str]) -> list[PairTest]:
    """Return the tests of all pairs of sides (by their places in `names`), adjusted for their number."""
    from eval_pipeline.statistics.ranks import adjusted_tests  # noqa: PLC0415 — numpy takes 90 ms, which an unchanged `run` need not wait for

    return adjusted_tests(
        (
            names.index(comparison.candidate),
            names.index(comparison.baseline),
            comparison.summary.paired,
            comparison.summary.mean_delta,
            comparison.summary.p_value,
        )
        for comparison in comparisons
    )


def ranks_of(comparisons: Sequence[Comparison], names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the best and the worst rank that each side may have, by the tests of all pairs."""
    from eval_pipeline.statistics.ranks import rank_intervals  # noqa: PLC0415 — as above

    return dict(zip(names, rank_intervals(len(names), tests_of(comparisons, names)), strict=True))


def evidence(passes: SignTest, *, significant: float = SIGNIFICANT) -> Evidence:
    """Return `regressed` when more cases fell than chance explains, else `none`."""
    return "regressed" if passes.p_worse < significant else "none"


def ratings(comparisons: Sequence[Comparison]) -> dict[str, float]:
    """Return the strength of each side from the wins of all pairs of sides (Bradley and Terry 1952, Biometrika 39).

    A case that a side wins counts 1, a tie counts 1/2 for both; strengths have geometric mean 1, and a side beats
    another with probability a / (a + b). Raises InputError when the wins do not determine them.
    """
    wins = [entry for comparison in comparisons for entry in _wins(comparison)]
    try:
        return bradley_terry(wins)
    except ValueError as error:
        raise InputError(f"ratings: {error}") from None


def games_of(comparison: Comparison) -> Games:
    """Return the paired cases as games of the candidate with the baseline; cases of a cluster belong together."""
    paired = comparison.paired
    keys = [name for name in (*RUNNER_CASE, "cluster") if name in paired.columns]
    own = pl.struct(name for name in keys if name != "cluster").hash()
    cluster = pl.struct("suite", "cluster").hash(1)
    clusters = pl.when(pl.col("cluster").is_not_null()).then(cluster).otherwise(own) if "cluster" in keys else own
    won = pl.col("outcome").replace_strict({"win": 1.0, "tie": 0.5, "loss": 0.0}, return_dtype=pl.Float32)
    games = paired.select(clusters.alias("clusters"), won.alias("won"))
    return Games(
        first=comparison.candidate,
        second=comparison.baseline,
        clusters=games["clusters"].to_numpy(),
        won=games["won"].to_numpy(),
    )


def _wins(comparison: Comparison) -> Iterator[tuple[str, str, float]]:
    summary = comparison.summary
    yield comparison.candidate, comparison.baseline, summary.wins + summary.ties / 2
    yield comparison.baseline, comparison.candidate, summary.losses + summary.ties / 2


def details(comparison: Comparison) -> dict[str, Any]:
    """Return the numbers of a comparison as JSON values, without its cases."""
    return {
        "baseline": comparison.baseline,
        "candidate": comparison.candidate,
        "threshold": comparison.threshold,
        "summary": asdict(comparison.summary),
        "suites": [asdict(summary) for summary in comparison.suites],
        "evidence_of_regression": evidence(comparison.summary.passes),
    }


def check_names(sides: Sequence[Results]) -> None:
    """Raise InputError when two sides have the same name."""
    names = [side.name for side in sides]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"'{name}' is named twice; each has to be another")
