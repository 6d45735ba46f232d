"""What a sweep would do: the same decisions as a sweep makes, without carrying anything out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.suites.case_list import traits_of
from eval_pipeline.sweeps.decisions import Decision, PairRules, decide_plan, is_settled, pair_rules, stored_outcome
from eval_pipeline.sweeps.history import StoredHistory
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.outcomes import SweepCounts
from eval_pipeline.sweeps.pairs import Pair, executes, pair_plans
from eval_pipeline.sweeps.plan_queue import PlanOutcome
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.sweep import make_graders
from eval_pipeline.sweeps.unfinished import unfinished_refreshes
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.queries import mean_cost
from eval_pipeline.warehouse.stored_pairs import StoredExecution


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """What a sweep would do with one pair; the cost is None when it is unknown."""

    pair: PairKey
    counts: SweepCounts
    estimated_cost_usd: float | None


def plan_sweep(session: ProjectSession, names: Iterable[PairKey], options: SweepOptions) -> Iterator[SweepPlan]:
    """Yield the plan of each pair: how many plans are reused, to execute (`executed`), to score again (`rescored`).

    A case that may end early is counted with all its repetitions, until a stored one settles it.
    """
    pairs = session.pairs(names)
    history = StoredHistory(session.warehouse, pairs)
    graders = make_graders(options, session.warehouse, session.runner)
    unfinished = unfinished_refreshes(session.warehouse, options)
    for pair in pairs:
        counts = _count(pair_rules(pair, options, graders, unfinished), history.take(pair.name))
        cost = mean_cost(session.warehouse, pair.name) if counts.executed else _cost_of_scoring(pair, counts)
        estimated = cost * counts.executed if cost is not None else None
        yield SweepPlan(pair=pair.name, counts=counts, estimated_cost_usd=estimated)


def _cost_of_scoring(pair: Pair, counts: SweepCounts) -> float | None:
    """The cost (USD) when no target is called: none, unless a model may be called again."""
    kinds = traits_of(pair.ready.suite.cases).evaluator_types if counts.rescored else ()
    return None if any(hasattr(EVALUATORS.find(kind), "grade") for kind in kinds) else 0.0


def _count(rules: PairRules, known: dict[str, StoredExecution]) -> SweepCounts:
    counts = SweepCounts()
    outcomes: dict[str, list[PlanOutcome]] = {}
    for plan in pair_plans(rules.pair, rules.options):
        stored = known.get(plan.key)
        decision = decide_plan(stored, plan, rules)
        earlier = outcomes.setdefault(plan.case.id, [])
        if decision is Decision.EXECUTE and earlier and is_settled(rules.pair, plan.case, earlier):
            counts.skipped += executes(rules.options)
            continue
        counts.planned += 1
        counts.executed += decision is Decision.EXECUTE and executes(rules.options)
        counts.rescored += decision is Decision.RESCORE
        counts.updated += decision is Decision.UPDATE
        counts.reused += decision is Decision.REUSE
        if stored is not None and decision is not Decision.EXECUTE:
            earlier.append(stored_outcome(stored))
    return counts
