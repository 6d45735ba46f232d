"""`--refresh failed` after an edit of evaluators: what was decided by the old ones is decided anew first, so that only
what does not pass today is executed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eval_pipeline.executions.model import Plan
from eval_pipeline.sweeps.context import SweepContext
from eval_pipeline.sweeps.decisions import (
    Decision,
    PairRules,
    Reason,
    decide_plan,
    decides_anew,
    execution_reason,
    is_ungraded,
    pair_rules,
)
from eval_pipeline.sweeps.history import StoredHistory
from eval_pipeline.sweeps.options import EVALUATE, NORMALIZE, SweepOptions
from eval_pipeline.sweeps.outcomes import SweepObserver
from eval_pipeline.sweeps.pairs import Pair, executes, pair_plans
from eval_pipeline.sweeps.snapshot_checks import NO_SNAPSHOTS
from eval_pipeline.warehouse.stored_pairs import StoredExecution, find_stored


def first_decision(stored: StoredExecution, plan: Plan, rules: PairRules) -> Decision | None:
    """Return how the verdict of a plan is brought up to date before it tells whether the plan is executed; None: it
    need not be."""
    if not _asks_for_failed(rules.options) or is_ungraded(stored, plan.case, rules):
        return None
    if execution_reason(stored, plan, rules) not in (None, Reason.FAILED):
        return None
    before = replace(rules, options=_verdicts_only(rules.options))
    decision = decide_plan(stored, plan, before)
    changes = decision is Decision.RESCORE or (decision is Decision.UPDATE and decides_anew(stored, plan.case, before))
    return decision if changes else None


def pairs_to_decide(pairs: Sequence[Pair], context: SweepContext) -> list[Pair]:
    """Return the pairs that have verdicts to bring up to date before their plans are decided."""
    if not _asks_for_failed(context.options):
        return []
    history = StoredHistory(context.warehouse, pairs)
    return [pair for pair in pairs if _has_old_verdicts(pair, context, history.take(pair.name))]


def deciding(context: SweepContext) -> SweepContext:
    """Return the context of a sweep that brings verdicts up to date, calls no target and shows nothing."""
    options = _verdicts_only(context.options)
    return replace(context, options=options, observer=SweepObserver(), snapshots=NO_SNAPSHOTS)


def _asks_for_failed(options: SweepOptions) -> bool:
    return options.refresh == "failed" and executes(options) and EVALUATE in options.stages


def _verdicts_only(options: SweepOptions) -> SweepOptions:
    return options.model_copy(update={"refresh": "missing", "stages": (NORMALIZE, EVALUATE)})


def _has_old_verdicts(pair: Pair, context: SweepContext, known: dict[str, StoredExecution]) -> bool:
    rules = pair_rules(pair, context.options, context.graders, context.unfinished)
    stored = ((plan, find_stored(known, plan)) for plan in pair_plans(pair, context.options))
    return any(found is not None and first_decision(found, plan, rules) is not None for plan, found in stored)
