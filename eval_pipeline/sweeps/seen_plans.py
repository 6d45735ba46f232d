"""What the project's files ask for that is not carried out: plans, stored so that SQL lists stale pairs with the
reasons that `eval-pipeline plan` has. Files that evaluators name and the project's defaults are in no revision of a
suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.sweeps.decisions import Reason
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.plan import SweepPlan, plan_sweep
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.reasons import NEW_CASE, NEW_PAIR
from eval_pipeline.sweeps.rescore_reasons import NEVER, UNGRADED
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.project_pairs import stored_pairs

_NO_EDITS = frozenset({*map(str, Reason), NEW_CASE, NEW_PAIR, NEVER, UNGRADED})


def store_seen_plans(session: ProjectSession, requested: Callable[[PairKey], bool], options: SweepOptions) -> int:
    """Store what a sweep would do with the requested pairs that were carried out; return how many are stale."""
    known = [each.pair for each in stored_pairs(session.warehouse) if requested(each.pair)]
    if not known:
        return 0
    plans, now = _plans(session, known, options), session.clock.now()
    rows = [_row(plan, now) for plan in plans]
    session.warehouse.write("seen_plans", rows)
    return sum(bool(row["reasons"]) for row in rows)


def _plans(session: ProjectSession, names: Sequence[PairKey], options: SweepOptions) -> list[SweepPlan]:
    """Return the plans of pairs; where one has none, as a grader is missing, those of the others. Its run says why."""
    try:
        return list(plan_sweep(session, names, options))
    except EvalPipelineError:
        return list(_plans_one_by_one(session, names, options)) if len(names) > 1 else []


def _plans_one_by_one(session: ProjectSession, names: Sequence[PairKey], options: SweepOptions) -> Iterator[SweepPlan]:
    for name in names:
        with suppress(EvalPipelineError):
            yield from plan_sweep(session, [name], options)


def _row(plan: SweepPlan, now: datetime) -> Row:
    """Return the `seen_plans` row of a plan."""
    to_execute, to_score = _edits(plan.reasons), _edits(plan.rescore_reasons) + _edits(plan.update_reasons)
    return {
        "suite": plan.pair.suite,
        "runner": plan.pair.runner,
        "to_execute": to_execute.total(),
        "to_score": to_score.total(),
        "needs": _needs(plan, to_execute.total(), to_score.total()),
        "reasons": list(to_execute | to_score),
        "seen_at": now,
    }


def _edits(reasons: Mapping[str, int]) -> Counter[str]:
    """Return the reasons that are an edit. The others are what is missing, which `stale_pairs` knows from the results,
    and what a sweep carries out each time."""
    return Counter({reason: count for reason, count in reasons.items() if reason not in _NO_EDITS})


def _needs(plan: SweepPlan, to_execute: int, to_score: int) -> str | None:
    """Return what brings a pair up to date; None where nothing has to, or other plans hide what it costs."""
    if to_execute:
        return "executions"
    if plan.counts.executed or not to_score:
        return None
    return "nothing" if plan.estimate.cost_usd == 0 else "graders"
