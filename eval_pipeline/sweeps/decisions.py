"""What a sweep does with a plan, decided from what is stored of it.

Pure functions, called by the sweep and by `plan_sweep` alike, so that a plan and the run after it cannot differ.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from eval_pipeline.failures import EVALUATOR as NOT_GRADED
from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.reports.normalize import normalizer_version
from eval_pipeline.scores.evaluate import EvaluatorSet
from eval_pipeline.scores.model import Status
from eval_pipeline.suites.model import Case
from eval_pipeline.sweeps.grading import Graders
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.pairs import Pair, ends_early, executes, judges, repeat_budget_of, threshold_of
from eval_pipeline.sweeps.plan_queue import PlanOutcome
from eval_pipeline.warehouse.stored_pairs import StoredExecution


class Decision(StrEnum):
    """What happens to a plan: its stored execution counts as it is, the target is called, or the stored report is
    scored again."""

    REUSE = "reuse"
    EXECUTE = "execute"
    RESCORE = "rescore"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRules:
    """What the plans of one pair are decided by; `threshold` is the least score that passes where a case sets none."""

    pair: Pair
    options: SweepOptions
    evaluators: EvaluatorSet
    threshold: float


def pair_rules(pair: Pair, options: SweepOptions, graders: Graders) -> PairRules:
    """Return the rules of a pair under these options."""
    return PairRules(
        pair=pair,
        options=options,
        evaluators=EvaluatorSet(pair.ready.suite, partial(graders.revision, pair.runner)),
        threshold=threshold_of(pair, options),
    )


def decide_plan(stored: StoredExecution | None, case: Case, rules: PairRules) -> Decision:
    """Return what happens to a plan of `case` of which `stored` is known."""
    if stored is None or _needs_execution(stored, case, rules):
        return Decision.EXECUTE
    if judges(rules.options) and (_is_stale(stored, case, rules) or _is_ungraded(stored, case, rules)):
        return Decision.RESCORE
    return Decision.REUSE


def stored_outcome(stored: StoredExecution) -> PlanOutcome:
    """Return what a stored execution means for the plans that depend on it."""
    passed = stored.status is not None and Status(stored.status).as_expected
    return PlanOutcome(stored.valid, passed, stored.cost_usd)


def is_settled(pair: Pair, case: Case, outcomes: Collection[PlanOutcome]) -> bool:
    """Return whether earlier repetitions make a later one needless: one passed, or their budget is spent."""
    limit = repeat_budget_of(pair, case)
    spent = sum(outcome.cost_usd or 0.0 for outcome in outcomes)
    passed = any(outcome.completed and outcome.passed for outcome in outcomes)
    return (limit is not None and spent >= limit) or (ends_early(pair, case) and passed)


def decision_key(case: Case, spec_keys: Sequence[str], threshold: float) -> str:
    """Return the identity of everything that a case's verdict is decided from, beside the report."""
    limit = case.threshold if case.threshold is not None else threshold
    return fingerprint([spec_keys, limit, case.expected_fail])[:32]


def _needs_execution(stored: StoredExecution, case: Case, rules: PairRules) -> bool:
    """Whether the target has to be called although the content of the plan was executed before."""
    options = rules.options
    if options.resume is not None and stored.sweep_id == options.resume and stored.valid:
        return False
    cached = case.cache if case.cache is not None else rules.pair.ready.suite.settings.cache
    if not stored.valid or options.refresh == "all" or (cached is False and executes(options)):
        return True
    if options.refresh != "failed" or _is_ungraded(stored, case, rules):
        return False
    return stored.status is None or not Status(stored.status).as_expected


def _is_stale(stored: StoredExecution, case: Case, rules: PairRules) -> bool:
    """Whether the stored verdict was decided from something else than what applies now."""
    keys = [bound.key for bound in rules.evaluators.of(case)]
    changed = stored.decision_key != decision_key(case, keys, rules.threshold)
    return changed or stored.normalizer != normalizer_version(stored.format or "")


def _is_ungraded(stored: StoredExecution, case: Case, rules: PairRules) -> bool:
    """Whether a grader or a program gave no score last time. It is called again; the target is not."""
    return stored.failure_class == NOT_GRADED.id and any(bound.requires_client for bound in rules.evaluators.of(case))
