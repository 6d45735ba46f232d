"""What is to be expected of executions, from those that are stored."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from eval_pipeline.statistics.detection import Variation
from eval_pipeline.warehouse.conversation_views import COST_OF_BOTH_SIDES
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.question_views import DIFFERENCES
from eval_pipeline.warehouse.store import Warehouse


@dataclass(frozen=True, slots=True)
class MeanExecution:
    """The means over stored executions; None of a measure: unknown. The cost (USD) includes grading, where that is
    known; `graded` is whether any of them was graded by models."""

    cost_usd: float | None = None
    attempts: float | None = None
    tokens: float | None = None
    seconds: float | None = None
    graded: bool | None = None


UNKNOWN = MeanExecution()


@dataclass(frozen=True, slots=True)
class MeanExecutions:
    """The means of each pair and of each runner."""

    of_pairs: Mapping[PairKey, MeanExecution]
    of_runners: Mapping[str, MeanExecution]

    def of(self, pair: PairKey) -> MeanExecution:
        """Return the means of a pair, each by its runner on any suite where the pair has none."""
        here, anywhere = self.of_pairs.get(pair, UNKNOWN), self.of_runners.get(pair.runner, UNKNOWN)
        names = MeanExecution.__slots__
        found = {name: getattr(here, name) for name in names}
        return MeanExecution(**{k: getattr(anywhere, k) if value is None else value for k, value in found.items()})


def mean_executions(warehouse: Warehouse, runners: Collection[str] | None = None) -> MeanExecutions:
    """Return the means over everything that is stored of some runners (None: of all)."""
    if not warehouse.exists():
        return MeanExecutions({}, {})
    frame = warehouse.frame(
        f"""WITH graded AS (
               SELECT suite, runner, avg(grading_cost_usd) AS grading FROM verdicts
               WHERE $1 IS NULL OR list_contains($1::VARCHAR[], runner)
               GROUP BY GROUPING SETS ((suite, runner), (runner))),
           specs AS (
               SELECT suite, runner, bool_or(graders IS NOT NULL) AS graded FROM evaluator_specs
               GROUP BY GROUPING SETS ((suite, runner), (runner))),
           executed AS (
               SELECT e.suite, e.runner, avg({COST_OF_BOTH_SIDES}) AS cost, avg(e.attempt_count) AS attempts,
                      avg(r.total_tokens) AS tokens, avg(coalesce(r.duration_ms, e.duration_ms)) / 1000 AS seconds
               FROM target_executions e LEFT JOIN session_reports r USING (execution_id)
               WHERE $1 IS NULL OR list_contains($1::VARCHAR[], e.runner)
               GROUP BY GROUPING SETS ((e.suite, e.runner), (e.runner)))
           SELECT e.suite, e.runner, cost + CASE WHEN g.runner IS NULL THEN 0 ELSE grading END AS cost,
                  attempts, tokens, seconds, coalesce(s.graded, false) AS graded
           FROM executed e LEFT JOIN graded g ON g.runner = e.runner AND g.suite IS NOT DISTINCT FROM e.suite
           LEFT JOIN specs s ON s.runner = e.runner AND s.suite IS NOT DISTINCT FROM e.suite""",
        [None if runners is None else list(runners)],
    )
    pairs: dict[PairKey, MeanExecution] = {}
    of_runners: dict[str, MeanExecution] = {}
    for suite, runner, *means in frame.iter_rows():
        if suite is None:
            of_runners[runner] = MeanExecution(*means)
        else:
            pairs[PairKey(suite, runner)] = MeanExecution(*means)
    return MeanExecutions(pairs, of_runners)


def variation_of_differences(warehouse: Warehouse) -> dict[str, Variation]:
    """Return, of each suite with results of two runners, how the difference of their pass rates on a case varies: the
    medians over its pairs of runners. Where nothing was repeated, all of it counts as between cases."""
    if not warehouse.exists():
        return {}
    frame = warehouse.frame(DIFFERENCES)
    return {suite: Variation(between, within) for suite, between, within in frame.iter_rows()}
