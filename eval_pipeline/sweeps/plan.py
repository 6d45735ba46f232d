"""What a sweep would do: the same comparison that a sweep makes, without carrying anything out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from eval_pipeline.scores.evaluate import EVALUATORS, EvaluatorSet
from eval_pipeline.scores.model import Status
from eval_pipeline.sweeps.outcomes import SweepCounts
from eval_pipeline.sweeps.pairs import (
    Pair,
    SweepOptions,
    ends_early,
    is_open,
    is_stale,
    needs_execution,
    pair_plans,
    threshold_of,
    wanted_decision,
)
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.sweep import make_graders
from eval_pipeline.warehouse.journal import PairKey, recover
from eval_pipeline.warehouse.queries import mean_cost
from eval_pipeline.warehouse.stored_pairs import stored_executions


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """What a sweep would do with one suite × runner; the cost is None when nothing tells."""

    pair: PairKey
    counts: SweepCounts
    estimated_cost_usd: float | None


def plan_sweep(session: ProjectSession, names: Iterable[PairKey], options: SweepOptions) -> Iterator[SweepPlan]:
    """The plan of each cell: reused, to execute (`executed`), to score again (`rescored`).

    A case that may end early is taken to need all its repetitions until one that is stored has settled it.
    """
    for pair in session.pairs(names):
        counts = _tally(session, pair, options)
        cost = mean_cost(session.warehouse, pair.name) if counts.executed else _cost_of_scoring(pair, counts)
        estimated = cost * counts.executed if cost is not None else None
        yield SweepPlan(pair=pair.name, counts=counts, estimated_cost_usd=estimated)


def _cost_of_scoring(pair: Pair, counts: SweepCounts) -> float | None:
    """What it costs when no target is called: nothing, unless a model may be asked again."""
    kinds = {spec.type for case in pair.ready.suite.cases for spec in case.evaluators} if counts.rescored else set()
    return None if any(hasattr(EVALUATORS.find(kind), "grade") for kind in kinds) else 0.0


def _tally(session: ProjectSession, pair: Pair, options: SweepOptions) -> SweepCounts:
    recover(session.warehouse, pair.name, except_sweep="")
    known_by_key = stored_executions(session.warehouse, pair.name)
    threshold = threshold_of(pair, options)
    graders = make_graders(options, session.warehouse, session.runner)
    panel = EvaluatorSet(pair.ready.suite, partial(graders.revision, pair.runner))
    counts = SweepCounts()
    passed: set[str] = set()
    for plan in pair_plans(pair, options):
        known = known_by_key.get(plan.key)
        if plan.case.id in passed and known is None and ends_early(pair, plan.case):
            continue
        counts.planned += 1
        if known is not None and known.valid and known.status is not None and Status(known.status).as_expected:
            passed.add(plan.case.id)
        if known is None or needs_execution(known, pair, plan.case, options, panel):
            counts.executed += 1
        elif is_stale(known, wanted_decision(plan.case, panel, threshold)) or is_open(known, plan.case, panel):
            counts.rescored += 1
        else:
            counts.reused += 1
    return counts
