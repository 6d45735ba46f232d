"""What a sweep does with a plan, decided from what is stored of it.

Pure functions, called by the sweep and by `plan_sweep` alike, so that a plan and the run after it cannot differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, partial

from eval_pipeline.errors import InputError
from eval_pipeline.executions.identity import PlayedBy, runner_revision
from eval_pipeline.executions.model import Plan, Runner, RunnerNamed
from eval_pipeline.failures import EVALUATOR as NOT_GRADED
from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.reports.normalize import normalizer_version, prices_key
from eval_pipeline.scores.evaluate import EvaluatorSet
from eval_pipeline.scores.model import Status
from eval_pipeline.suites.incomplete import incomplete_of
from eval_pipeline.suites.model import Case, Incomplete
from eval_pipeline.sweeps.grading import Graders
from eval_pipeline.sweeps.options import EVALUATE, SweepOptions
from eval_pipeline.sweeps.pairs import (
    Pair,
    ends_early,
    executes,
    judges,
    repeat_budget_of,
    simulator_identity,
    threshold_of,
    tries_of,
)
from eval_pipeline.sweeps.plan_queue import PlanOutcome
from eval_pipeline.sweeps.unfinished import UnfinishedRefresh
from eval_pipeline.warehouse.stored_pairs import StoredExecution, has_other_tags

_PASSED = frozenset(status.value for status in Status if status.as_expected)


class Decision(StrEnum):
    """What happens to a plan: its stored execution counts as it is, the target is called, the stored report is scored
    again, or the verdict gets today's tags, weights, threshold and cost without any call."""

    REUSE = "reuse"
    EXECUTE = "execute"
    RESCORE = "rescore"
    UPDATE = "update"


class Reason(StrEnum):
    """Why a plan is executed although its content was executed before."""

    INCOMPLETE = "the last execution did not complete"
    SUPERSEDED = "tried again later, which did not complete"
    UNFINISHED = "an interrupted --refresh all did not reach it"
    ALL = "--refresh all"
    FAILED = "--refresh failed: it did not pass"
    UNCACHED = "cache: false"
    FALLBACK = "a fallback answered: the runner is tried again"


@dataclass(frozen=True, kw_only=True)
class PairRules:
    """What the plans of one pair are decided by.

    `threshold` is the least score that passes where a case sets none; `unfinished` are the interrupted sweeps that were
    to execute everything anew; `runner_named` finds the runner of a fallback.
    """

    pair: Pair
    options: SweepOptions
    evaluators: EvaluatorSet
    threshold: float
    unfinished: Sequence[UnfinishedRefresh] = ()
    runner_named: RunnerNamed | None = None

    def decision_key_of(self, case: Case) -> str:
        """Return the identity of everything that a case's verdict is decided from today, beside the report."""
        played_by = self.played_by(case.user) if case.user is not None else None
        keys = self.evaluators.keys(case)
        return decision_key(case, keys, self.threshold, played_by, incomplete=self.incomplete_of(case))

    def incomplete_of(self, case: Case) -> Incomplete:
        """Return what becomes of a session of a case that a time or step limit ended."""
        return incomplete_of(self.pair.ready.suite, case)

    @cached_property
    def played_by(self) -> PlayedBy:
        """Returns the identity of the simulator of a user: answers to two simulators are not counted together."""
        return partial(simulator_identity, self.pair, self.options)

    def scores_key_of(self, case: Case) -> str:
        """Return the identity of everything that the values of a case's scores depend on today, beside the report."""
        return scores_key(self.evaluators.score_keys(case))

    def has_usable_fallback(self, stored: StoredExecution) -> bool:
        """Return whether the runner still has the fallback that answered, unchanged."""
        name = stored.answered_by
        if name not in self.pair.runner.fallbacks:
            return False
        return stored.fallback_revision is None or stored.fallback_revision == self.revision_of(name)

    def revision_of(self, fallback: str) -> str | None:
        """Return the revision of a fallback; None when it cannot be used."""
        if fallback not in self._revisions:
            runner = self._fallback(fallback)
            self._revisions[fallback] = runner_revision(runner) if runner is not None else None
        return self._revisions[fallback]

    @cached_property
    def _revisions(self) -> dict[str, str | None]:
        return {}

    def normalizer_of(self, format_: str) -> str:
        """Return the identity of today's normalizer of a format."""
        if format_ not in self._normalizers:
            self._normalizers[format_] = normalizer_version(format_)
        return self._normalizers[format_]

    @cached_property
    def _normalizers(self) -> dict[str, str]:
        return {}

    @property
    def prices(self) -> str | None:
        """The identity of the prices that answers may be paid by: those of the runner and of all its fallbacks."""
        return self.prices_of(next(reversed(self.pair.runner.fallbacks), None))

    def has_other_prices(self, stored: StoredExecution) -> bool:
        """Return whether the stored cost was computed with other prices than those of today."""
        if stored.prices == "reported" or stored.report_normalizer is None:
            return False
        return stored.prices != self.prices_of(stored.answered_by)

    def prices_of(self, fallback: str | None) -> str | None:
        """Return the identity of the prices that an answer is paid by: those of the runner and, where a fallback
        answered, of all that were called until then."""
        if fallback not in self._prices:
            called = [self.pair.runner, *(self._fallback(name) for name in self._called(fallback))]
            self._prices[fallback] = prices_key(*(runner.prices for runner in called if runner is not None))
        return self._prices[fallback]

    def _called(self, fallback: str | None) -> Sequence[str]:
        """Return the fallbacks up to the one that answered; None: none was called."""
        names = self.pair.runner.fallbacks
        if fallback is None:
            return ()
        return names[: names.index(fallback) + 1] if fallback in names else (fallback,)

    @cached_property
    def _prices(self) -> dict[str | None, str | None]:
        return {}

    def _fallback(self, name: str) -> Runner | None:
        """Return a fallback; None when it cannot be used."""
        try:
            return self.runner_named(name, self.pair.runner.place) if self.runner_named is not None else None
        except InputError:
            return None


def pair_rules(
    pair: Pair, options: SweepOptions, graders: Graders, unfinished: Sequence[UnfinishedRefresh] = ()
) -> PairRules:
    """Return the rules of a pair under these options."""
    threshold = threshold_of(pair, options)
    return PairRules(
        pair=pair,
        options=options,
        evaluators=EvaluatorSet(
            pair.ready.suite, partial(graders.revision, pair.runner), threshold, pair.runner.grader_payload
        ),
        threshold=threshold,
        unfinished=[refresh for refresh in unfinished if refresh.covers_pair(pair.name)],
        runner_named=graders.named,
    )


def decide_plan(stored: StoredExecution | None, plan: Plan, rules: PairRules) -> Decision:
    """Return what happens to a plan of which `stored` is known."""
    case = plan.case
    if stored is None or execution_reason(stored, plan, rules) is not None:
        return Decision.EXECUTE
    if not judges(rules.options):
        return Decision.REUSE
    if is_ungraded(stored, case, rules) or (_is_stale(stored, case, rules) and not _has_scores(stored, case, rules)):
        return Decision.RESCORE
    return Decision.UPDATE if decides_anew(stored, case, rules) or has_other_tags(stored, case) else Decision.REUSE


def decides_anew(stored: StoredExecution, case: Case, rules: PairRules) -> bool:
    """Return whether a stored verdict is decided again from stored scores: names, weights, gates or the threshold are
    others, or prices are, from which its cost is computed."""
    repriced = EVALUATE in rules.options.stages and rules.has_other_prices(stored)
    return repriced or _is_stale(stored, case, rules)


def scores_key(score_keys: Iterable[str]) -> str:
    """Return the identity of everything that the values of evaluators' scores depend on, beside the report."""
    return fingerprint(sorted(score_keys))[:32]


def needs_verdict(stored: StoredExecution, case: Case, rules: PairRules) -> bool:
    """Return whether the stored verdict was decided otherwise than today, or is an error of a grader."""
    return _is_stale(stored, case, rules) or is_ungraded(stored, case, rules)


def earlier_to_score(
    answers: Iterable[StoredExecution], current: Collection[str], retried: Mapping[str, Plan], rules: PairRules
) -> Iterator[tuple[Plan, StoredExecution]]:
    """Yield the answers to retried plans (by their first answer), but the current ones, that need a new verdict."""
    for stored in answers:
        plan = retried.get(stored.retry_of or stored.execution_id)
        if plan is None or stored.execution_id in current:
            continue
        if needs_verdict(stored, plan.case, rules) or rules.has_other_prices(stored):
            yield plan, stored


def stored_outcome(stored: StoredExecution) -> PlanOutcome:
    """Return what a stored execution means for the plans that depend on it."""
    return PlanOutcome(stored.valid, stored.status in _PASSED, stored.cost_usd)


def is_settled(pair: Pair, plan: Plan, outcomes: Collection[PlanOutcome], options: SweepOptions) -> bool:
    """Return whether earlier repetitions make a later one needless: one passed, or their budget is spent. Where each is
    tried several times: an earlier try of the same one passed, or all tries of an earlier one failed."""
    case, tries = plan.case, tries_of(pair, plan.case, options)
    limit = repeat_budget_of(pair, case)
    if tries > 1:
        return _is_group_settled((plan.repetition - 1) // tries, tries, outcomes) or _is_spent(limit, outcomes)
    passed = any(outcome.completed and outcome.passed for outcome in outcomes)
    return _is_spent(limit, outcomes) or (ends_early(pair, case) and passed)


def _is_spent(limit: float | None, outcomes: Collection[PlanOutcome]) -> bool:
    return limit is not None and sum(outcome.cost_usd or 0.0 for outcome in outcomes) >= limit


def _is_group_settled(group: int, tries: int, outcomes: Collection[PlanOutcome]) -> bool:
    """Return whether a group of tries needs no further one: it has passed, or an earlier group has not."""
    passed = {(each.repetition - 1) // tries for each in outcomes if each.completed and each.passed}
    tried = Counter((each.repetition - 1) // tries for each in outcomes)
    return group in passed or any(tried[each] == tries and each not in passed for each in range(group))


def decision_key(
    case: Case,
    spec_keys: Sequence[str],
    threshold: float,
    played_by: object = None,
    *,
    incomplete: Incomplete = "error",
) -> str:
    """Return the identity of everything that a case's verdict is decided from, beside the report: who played its user
    is part of it."""
    limit = case.threshold if case.threshold is not None else threshold
    simulator = [] if played_by is None else [played_by]
    ending = [] if incomplete == "error" else [["incomplete", incomplete]]
    return fingerprint([spec_keys, limit, case.expected_fail, *simulator, *ending])[:32]


def execution_reason(stored: StoredExecution, plan: Plan, rules: PairRules) -> Reason | None:
    """Return why the target is called although the content of the plan was executed before; None: it need not be."""
    options, case = rules.options, plan.case
    if options.resume is not None and stored.sweep_id == options.resume and stored.valid:
        return None
    if not stored.valid:
        return Reason.INCOMPLETE
    if options.refresh == "all":
        return Reason.ALL
    cached = case.cache if case.cache is not None else rules.pair.ready.suite.settings.cache
    if cached is False and executes(options):
        return Reason.UNCACHED
    if executes(options) and (older := _is_older(stored, plan, rules)) is not None:
        return older
    if stored.answered_by is not None and executes(options) and not _keeps_fallback(stored, rules):
        return Reason.FALLBACK
    if options.refresh != "failed" or is_ungraded(stored, case, rules):
        return None
    return Reason.FAILED if stored.status not in _PASSED else None


def first_answer(stored: StoredExecution | None, plan: Plan, rules: PairRules) -> str | None:
    """Return the first of the answers of a plan that count beside the one that is made now, because it is made as they
    did not pass; None where the new one replaces them."""
    reason = execution_reason(stored, plan, rules) if stored is not None else None
    if stored is None or reason not in (Reason.FAILED, Reason.SUPERSEDED):
        return None
    return stored.last_retry_of if reason is Reason.SUPERSEDED else stored.retry_of or stored.execution_id


def _keeps_fallback(stored: StoredExecution, rules: PairRules) -> bool:
    return rules.options.keep_fallbacks and rules.has_usable_fallback(stored)


def is_kept_fallback(stored: StoredExecution, plan: Plan, rules: PairRules) -> bool:
    """Return whether the stored answer of a fallback counts if the runner, tried again, is still down."""
    return execution_reason(stored, plan, rules) is Reason.FALLBACK and rules.has_usable_fallback(stored)


def keeping_fallbacks(rules: PairRules) -> PairRules:
    """Return the rules for plans whose runner was tried again in vain: a stored answer of a fallback counts."""
    return replace(rules, options=rules.options.model_copy(update={"keep_fallbacks": True, "refresh": "missing"}))


def _is_older(stored: StoredExecution, plan: Plan, rules: PairRules) -> Reason | None:
    """Why a valid execution is not the answer that was asked for last."""
    if stored.superseded:
        return Reason.SUPERSEDED
    covered = any(stored.sweep_id < refresh.sweep_id and refresh.covers(plan) for refresh in rules.unfinished)
    return Reason.UNFINISHED if covered else None


def _is_stale(stored: StoredExecution, case: Case, rules: PairRules) -> bool:
    """Whether the stored verdict was decided from something else than what applies now."""
    changed = stored.decision_key != rules.decision_key_of(case)
    return changed or stored.normalizer != rules.normalizer_of(stored.format or "")


def _has_scores(stored: StoredExecution, case: Case, rules: PairRules) -> bool:
    """Whether the stored scores have the values that evaluators would give now."""
    same = stored.scores_key is not None and stored.normalizer == rules.normalizer_of(stored.format or "")
    return same and stored.scores_key == rules.scores_key_of(case)


def is_ungraded(stored: StoredExecution, case: Case, rules: PairRules) -> bool:
    """Return whether a grader or a program gave no score last time. It is called again; the target is not."""
    return stored.failure_class == NOT_GRADED.id and rules.evaluators.requires_client(case)
