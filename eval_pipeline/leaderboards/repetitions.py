"""Results with repetitions → reliability of each runner: pass@k, pass^k, the error from repetitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from eval_pipeline.leaderboards.results import ATTEMPT, EVALUATOR, Results
from eval_pipeline.scores.model import DEFAULT_THRESHOLD
from eval_pipeline.statistics.repetitions import (
    mean_pass_at_k,
    mean_pass_within_k,
    pass_all_k,
    reduce_repetitions,
    repetition_error,
)
from eval_pipeline.statistics.summaries import mean

Counts = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """One runner on one suite, over graded repetitions.

    `repetitions` is the lowest number of graded repetitions of a case, `cases` how many cases have `k` of them.
    `pass_at_k` (any of k tries passes) and `pass_all_k` (all of k tries pass) are means over those cases. `pass_rate`
    is the mean over all graded cases, `low` and `high` its 95 % interval from repetitions that differ: None when a case
    has fewer than two. `score` is the mean over cases of their repetitions, reduced by `reducer`.

    Where plans were tried again because they failed, `tries` is the most answers to a plan, and `pass_at_k` the share
    of plans that passed within k answers, mean over cases; a case counts where that is known of all its plans. All else
    is of first answers. `tries` is 1 where nothing was tried again. With an `evaluator` all is of its scores alone.
    """

    suite: str
    runner: str
    cases: int
    repetitions: int
    k: int
    pass_rate: float | None
    low: float | None
    high: float | None
    pass_at_k: float | None
    pass_all_k: float | None
    reducer: str
    score: float | None
    tries: int = 1
    evaluator: str | None = None


def reliability(
    results: Results, *, k: int | None = None, reducer: str = "mean", mark: float = DEFAULT_THRESHOLD
) -> list[Reliability]:
    """Return the reliability of each runner on each suite, sorted by suite and runner (and evaluator).

    Args:
        results: rows of any suites and runners; with the column EVALUATOR, each evaluator has rows of its own.
        k: number of tries; by default the lowest number of graded repetitions of a case, or the most tries of a plan.
        reducer: one of `REDUCERS`.
        mark: lowest score that passes, for reducers that count passes.
    """
    keys = [name for name in ("suite", "runner", EVALUATOR) if name in results.frame.columns]
    groups = results.frame.sort(keys).group_by(keys, maintain_order=True)
    return [_of_group(dict(zip(keys, names, strict=True)), frame, k, reducer, mark) for names, frame in groups]


def _of_group(names: dict[str, Any], frame: pl.DataFrame, k: int | None, reducer: str, mark: float) -> Reliability:
    answers = frame.filter(pl.col("status") != "error").sort("case_id", "repetition")
    retried = _chains(answers)
    most = max((count for chains in retried.values() for count, _ in chains), default=1)
    graded = answers.filter(pl.col(ATTEMPT) == 1) if ATTEMPT in answers.columns else answers
    passed = pl.col("status").is_in(["passed", "expected-failed"]).sum()
    by_case = graded.group_by("case_id", maintain_order=True).agg(pl.len(), passed=passed, scores=pl.col("score"))
    counts = list(by_case.select("len", "passed").iter_rows())
    fewest = min((count for count, _ in counts), default=0)
    tries = k or max(1, fewest if most == 1 else most)
    enough = [(count, passes) for count, passes in counts if count >= tries]
    error = repetition_error(counts)
    reduced = [reduce_repetitions(scores, reducer, k=tries, mark=mark) for scores in by_case["scores"].to_list()]
    within = mean_pass_within_k(retried.values(), tries) if most > 1 else None
    return Reliability(
        **names, cases=within[0] if within else len(enough), repetitions=fewest, k=tries,
        pass_rate=mean([passes / count for count, passes in counts]),
        low=error.low if error is not None else None,
        high=error.high if error is not None else None,
        pass_at_k=within[1] if within else mean_pass_at_k(enough, tries),
        pass_all_k=mean([pass_all_k(count, passes, tries) for count, passes in enough]),
        reducer=reducer,
        score=mean([score for score in reduced if score is not None]),
        tries=most,
    )  # fmt: skip


def _chains(answers: pl.DataFrame) -> dict[str, list[tuple[int, int | None]]]:
    """Return the number of answers to each plan and the first of them that passed, by case."""
    if ATTEMPT not in answers.columns:
        return {}
    passed = pl.col("status").is_in(["passed", "expected-failed"])
    plans = answers.group_by("case_id", "repetition", maintain_order=True).agg(
        pl.len(), first=pl.col(ATTEMPT).filter(passed).min()
    )
    chains: dict[str, list[tuple[int, int | None]]] = {}
    for case_id, _, count, first in plans.iter_rows():
        chains.setdefault(case_id, []).append((count, first))
    return chains
