"""What a sweep would do: the same decisions as a sweep makes, without carrying anything out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from eval_pipeline.executions.model import Plan
from eval_pipeline.scores.evaluate import EVALUATORS, requires_client
from eval_pipeline.statistics.detection import INDEPENDENT, detectable_difference
from eval_pipeline.suites.case_list import traits_of
from eval_pipeline.sweeps.decisions import (
    Decision,
    PairRules,
    decide_plan,
    earlier_to_score,
    execution_reason,
    first_answer,
    is_settled,
    pair_rules,
    stored_outcome,
)
from eval_pipeline.sweeps.estimates import Estimate, estimate
from eval_pipeline.sweeps.history import StoredHistory
from eval_pipeline.sweeps.old_verdicts import first_decision
from eval_pipeline.sweeps.options import EVALUATE, SweepOptions
from eval_pipeline.sweeps.outcomes import SweepCounts
from eval_pipeline.sweeps.pairs import Pair, executes, incomplete_rules, pair_plans
from eval_pipeline.sweeps.plan_queue import PlanOutcome
from eval_pipeline.sweeps.preflight import Preflight
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.reasons import reasons_of_new
from eval_pipeline.sweeps.rescore_reasons import reasons_of_stored
from eval_pipeline.sweeps.sweep import make_graders
from eval_pipeline.sweeps.unfinished import unfinished_refreshes
from eval_pipeline.warehouse.expectations import mean_executions, variation_of_differences
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.store import Warehouse
from eval_pipeline.warehouse.stored_identities import valued_score_keys
from eval_pipeline.warehouse.stored_pairs import StoredExecution, find_stored, retried_answers


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """What a sweep would do with one pair, and what that is estimated to take. `reasons` are why plans are executed,
    `rescore_reasons` and `update_reasons` why they are scored again or updated, each with their number. `detectable` is
    the smallest difference of pass rates that its cases are likely to show (None: of fewer than two cases)."""

    pair: PairKey
    counts: SweepCounts
    estimate: Estimate
    detectable: float | None = None
    reasons: Mapping[str, int] = field(default_factory=dict)
    rescore_reasons: Mapping[str, int] = field(default_factory=dict)
    update_reasons: Mapping[str, int] = field(default_factory=dict)


def plan_sweep(
    session: ProjectSession, names: Iterable[PairKey], options: SweepOptions, checked: Preflight | None = None
) -> Iterator[SweepPlan]:
    """Yield the plan of each pair: how many plans are reused, to execute (`executed`), to score again (`rescored`).

    A case that may end early is counted with all its repetitions, until a stored one settles it. With `--refresh
    failed` a plan that was decided by other evaluators counts as scored again; whether it is executed then depends on
    its score. Cases that `checked` has no grader for are planned, and not executed.
    """
    pairs = session.pairs(names)
    pairs = checked.usable(pairs) if checked is not None else pairs
    history, means = StoredHistory(session.warehouse, pairs), mean_executions(session.warehouse)
    variations = variation_of_differences(session.warehouse)
    graders = make_graders(options, session.warehouse, session.runner)
    unfinished = unfinished_refreshes(session.warehouse, options)
    for pair in pairs:
        rules = pair_rules(pair, options, graders, unfinished)
        counts, to_execute, to_decide, retried = _count(rules, history.take(pair.name))
        mean = means.of(pair.name)
        expected = estimate(counts.executed, mean)
        counts.earlier = retried.count(session.warehouse, rules)
        if _has_graders(pair) and (
            counts.earlier
            or _scores_by_graders(session.warehouse, rules, to_decide)
            or (not mean.graded and any(_has_models(plan, rules) for plan in to_execute.new))
        ):  # what that costs is in no mean
            expected = replace(expected, cost_usd=None)
        reasons = to_execute.reasons + reasons_of_new(session.warehouse, pair, to_execute.new)
        again, updated = (
            reasons_of_stored(session.warehouse, rules, graders, to_decide[decision])
            for decision in (Decision.RESCORE, Decision.UPDATE)
        )
        yield SweepPlan(
            pair=pair.name,
            counts=counts,
            estimate=expected,
            detectable=detectable_difference(*_size(pair, options), variations.get(pair.name.suite, INDEPENDENT)),
            reasons=dict(reasons.most_common()),
            rescore_reasons=dict(again.most_common()),
            update_reasons=dict(updated.most_common()),
        )


def _size(pair: Pair, options: SweepOptions) -> tuple[int, int]:
    """The cases that a sweep covers of a pair, and the fewest repetitions of one."""
    repetitions = Counter(plan.case.id for plan in pair_plans(pair, options))
    return len(repetitions), min(repetitions.values(), default=1)


def free_pairs(session: ProjectSession, names: Iterable[PairKey], options: SweepOptions) -> list[PairKey]:
    """Return the pairs that a sweep would bring up to date without a call of a target or a grader: nothing of them is
    to be executed, and stored answers are to be scored again, or their verdicts updated."""
    plans = plan_sweep(session, names, options)
    return [
        plan.pair
        for plan in plans
        if not plan.counts.executed
        and plan.estimate.cost_usd == 0
        and (plan.counts.rescored or plan.counts.updated or plan.counts.earlier)
    ]


def _has_graders(pair: Pair) -> bool:
    kinds = traits_of(pair.ready.suite.cases).evaluator_types
    return any(hasattr(EVALUATORS.find(kind), "grade") for kind in kinds)


def _scores_by_graders(warehouse: Warehouse, rules: PairRules, to_decide: _ToDecide) -> bool:
    """Return whether stored answers are scored by graders: some have no stored score that still holds."""
    rescored = to_decide[Decision.RESCORE]
    known = valued_score_keys(warehouse, [stored.execution_id for _, stored in rescored]) if rescored else {}
    return any(_calls_grader(plan, stored, rules, known) for plan, stored in rescored)


def _has_models(plan: Plan, rules: PairRules) -> bool:
    """Return whether a model grades the answer to a plan: programs cost nothing."""
    evaluators = [bound.evaluator for bound in rules.evaluators.of(plan.case)]
    return any(requires_client(evaluator) and evaluator.graders for evaluator in evaluators)


def _calls_grader(plan: Plan, stored: StoredExecution, rules: PairRules, known: Mapping[str, frozenset[str]]) -> bool:
    """Return whether a grader scores an answer: one that has no score of it yet, or one from another report."""
    asked = {bound.score_key for bound in rules.evaluators.of(plan.case) if bound.requires_client}
    same_report = stored.normalizer == rules.normalizer_of(stored.format or "")
    return bool(asked - known.get(stored.execution_id, frozenset()) if same_report else asked)


@dataclass(frozen=True, slots=True)
class _ToExecute:
    """The plans to execute: those of which nothing is stored, and the reasons of the others."""

    new: list[Plan] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, plan: Plan, stored: StoredExecution | None, rules: PairRules) -> None:
        """Note a plan to execute."""
        reason = execution_reason(stored, plan, rules) if stored is not None else None
        if reason is None:
            self.new.append(plan)
        else:
            self.reasons[str(reason)] += 1


@dataclass(frozen=True, slots=True)
class _Retried:
    """The plans that were executed again because they had not passed, by their first answer; `current` are the answers
    that count now."""

    plans: dict[str, Plan] = field(default_factory=dict)
    current: set[str] = field(default_factory=set)

    def add(self, plan: Plan, stored: StoredExecution, decision: Decision, rules: PairRules) -> None:
        """Note what is stored of a plan."""
        executed = decision is Decision.EXECUTE
        first = first_answer(stored, plan, rules) if executed else stored.retry_of
        if first is not None:
            self.plans[first] = plan
        if not executed:
            self.current.add(stored.execution_id)

    def count(self, warehouse: Warehouse, rules: PairRules) -> int:
        """Return how many answers get a new verdict that count beside a later one to the same plan."""
        if not self.plans or EVALUATE not in rules.options.stages:
            return 0
        answers = retried_answers(warehouse, incomplete_rules([rules.pair]), list(self.plans))[rules.pair.name]
        return sum(1 for _ in earlier_to_score(answers, self.current, self.plans, rules))


_ToDecide = dict[Decision, list[tuple[Plan, StoredExecution]]]


def _count(rules: PairRules, known: dict[str, StoredExecution]) -> tuple[SweepCounts, _ToExecute, _ToDecide, _Retried]:
    counts, to_execute, retried = SweepCounts(), _ToExecute(), _Retried()
    to_decide: _ToDecide = {Decision.RESCORE: [], Decision.UPDATE: []}
    outcomes: dict[str, list[PlanOutcome]] = {}
    for plan in pair_plans(rules.pair, rules.options):
        stored = find_stored(known, plan)
        first = first_decision(stored, plan, rules) if stored is not None else None
        decision = first or decide_plan(stored, plan, rules)
        earlier = outcomes.setdefault(plan.case.id, [])
        if decision is Decision.EXECUTE and earlier and is_settled(rules.pair, plan, earlier, rules.options):
            counts.skipped += executes(rules.options)
            continue
        counts.planned += 1
        counts.rescored += decision is Decision.RESCORE
        counts.updated += decision is Decision.UPDATE
        counts.reused += decision is Decision.REUSE
        if decision is Decision.EXECUTE and executes(rules.options) and plan.case.id not in rules.pair.ungraded:
            counts.executed += 1
            to_execute.add(plan, stored, rules)
        if stored is not None:
            retried.add(plan, stored, decision, rules)
        if stored is not None and decision in to_decide:
            to_decide[decision].append((plan, stored))
        if stored is not None and decision is not Decision.EXECUTE:
            earlier.append(replace(stored_outcome(stored), repetition=plan.repetition))
    return counts, to_execute, to_decide, retried
