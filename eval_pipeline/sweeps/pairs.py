"""What a sweep is asked to do: suites made ready, cells (suite × runner), options, and what follows from them for each
plan: whether it is executed, scored anew, or stands as it is. Values and rules; carrying out is `sweep.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from eval_pipeline.errors import InputError
from eval_pipeline.executions.model import Plan, Runner
from eval_pipeline.executions.planning import CaseFilter, pair_cases, plan_pair
from eval_pipeline.failures import EVALUATOR as OPEN
from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.reports.normalize import normalizer_version
from eval_pipeline.scores.decide import DEFAULT_THRESHOLD
from eval_pipeline.scores.evaluate import EvaluatorSet
from eval_pipeline.scores.model import Status
from eval_pipeline.suites.model import Case, Strategy, Suite, SuiteSettings
from eval_pipeline.sweeps.project import Defaults, Refresh
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.stored_pairs import StoredExecution

STAGES = ("target_executions", "session_reports", "evaluator_scores")
EXECUTE, NORMALIZE, EVALUATE = STAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedSuite:
    """A suite whose evaluators are checked: its usable cases, and an error per unusable one."""

    suite: Suite
    errors: tuple[InputError, ...]


def validate_suite(suite: Suite) -> ValidatedSuite:
    """The suite with its evaluators checked; cases that ask for something unusable join `errors`."""
    errors = EvaluatorSet(suite).check()
    if not errors:
        return ValidatedSuite(suite=suite, errors=suite.errors)
    usable = tuple(case for case in suite.cases if case.id not in errors)
    return ValidatedSuite(suite=replace(suite, cases=usable), errors=(*suite.errors, *errors.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """What a sweep is asked to do. What is None here is as the suite says, else as `defaults` say.

    `concurrency` limits all runners together and each runner that has no limit of its own; `threshold` is the least
    score that passes where a case sets none; `resume` names an interrupted sweep whose executions count as done
    whatever `refresh` says; `any_runner` sets aside which runners suites ask for (what a case asks for stands);
    `grader` names the runner that grades everything.
    """

    refresh: Refresh = "missing"
    cases: CaseFilter = field(default_factory=CaseFilter)
    repetitions: int | None = None
    concurrency: int | None = None
    threshold: float | None = None
    budget_usd: float | None = None
    resume: str | None = None
    any_runner: bool = False
    grader: str | None = None
    stages: tuple[str, ...] = STAGES
    defaults: Defaults = field(default_factory=Defaults)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One suite × runner to carry out."""

    ready: ValidatedSuite
    runner: Runner
    revision: str

    @property
    def name(self) -> PairKey:
        return PairKey(self.ready.suite.name, self.runner.name)


def repetitions_of(pair: Pair, options: SweepOptions) -> int:
    """How many repetitions of each case are planned where a case does not say so itself."""
    return options.repetitions or pair.ready.suite.settings.repetitions or options.defaults.repeat


def repetitions_of_case(pair: Pair, case: Case, options: SweepOptions) -> int:
    """How many repetitions of a case are planned: as asked, else as the case says, else as its suite has it."""
    return options.repetitions or case.repetitions or repetitions_of(pair, options)


def threshold_of(pair: Pair, options: SweepOptions) -> float:
    """The least score that passes where a case sets none: as asked, as the suite says, as the project says, 0.8."""
    said = (options.threshold, pair.ready.suite.settings.threshold, options.defaults.threshold, DEFAULT_THRESHOLD)
    return next(threshold for threshold in said if threshold is not None)


def strategy_of(pair: Pair) -> Strategy:
    """How the repetitions of a case become one answer about it."""
    return pair.ready.suite.settings.strategy or "mean"


def ends_early(pair: Pair, case: Case) -> bool:
    """Whether a case is settled by its first passing repetition. Only where the case or its suite says so: the rates
    of all repetitions tell more than the first that passes."""
    return _who_repeats(pair, case).early_exit is True


def repeat_budget_of(pair: Pair, case: Case) -> float | None:
    """What the repetitions of a case may cost in USD before it needs no more; None: whatever they cost."""
    return _who_repeats(pair, case).repeat_budget_usd


def one_by_one(pair: Pair) -> bool:
    """Whether a case's later repetitions may turn out to be needless, so that they have to follow each other."""
    repeated: list[Case | SuiteSettings] = [pair.ready.suite.settings, *pair.ready.suite.cases]
    return any(one.early_exit is True or one.repeat_budget_usd is not None for one in repeated)


def _who_repeats(pair: Pair, case: Case) -> Case | SuiteSettings:
    """What a case says of its repetitions stands in place of what its suite says, as a whole."""
    return case if case.repetitions is not None else pair.ready.suite.settings


def budget_of(pair: Pair, options: SweepOptions) -> float | None:
    """The most USD that a suite may cost with all runners; None when only the sweep's own limit holds."""
    return pair.ready.suite.settings.budget_usd if options.budget_usd is None else None


def pair_plans(pair: Pair, options: SweepOptions) -> Iterator[Plan]:
    """The plans of a cell that the options select."""
    return plan_pair(
        pair.ready.suite,
        pair.runner,
        pair.revision,
        repetitions=lambda case: repetitions_of_case(pair, case, options),
        case_filter=options.cases,
        any_runner=options.any_runner,
    )


def count_plans(pair: Pair, options: SweepOptions, wanted: CaseFilter | None = None) -> int:
    """How many plans a cell has, of all its cases or of those `wanted`."""
    cases = pair_cases(pair.ready.suite, pair.runner, wanted, any_runner=options.any_runner)
    return sum(repetitions_of_case(pair, case, options) for case in cases)


def is_stale(known: StoredExecution, wanted: str) -> bool:
    """Whether a stored verdict was decided from something else than what is asked now."""
    return known.decision_key != wanted or known.normalizer != normalizer_version(known.format or "")


def is_open(known: StoredExecution, case: Case, panel: EvaluatorSet) -> bool:
    """Whether a grader or a program could not tell last time: it is asked again, and never the target for its sake."""
    return known.failure_class == OPEN.id and any(asked.requires_client for asked in panel.of(case))


def wanted_decision(case: Case, panel: EvaluatorSet, threshold: float) -> str:
    """The decision key that a case's verdict has to have now."""
    return decision_key(case, [asked.key for asked in panel.of(case)], threshold)


def decision_key(case: Case, spec_keys: Sequence[str], threshold: float) -> str:
    """The identity of everything a case's verdict is decided from, beside the report."""
    limit = case.threshold if case.threshold is not None else threshold
    return fingerprint([spec_keys, limit, case.expected_fail])[:32]


def needs_execution(known: StoredExecution, pair: Pair, case: Case, options: SweepOptions, panel: EvaluatorSet) -> bool:
    """Whether the target has to be called although the cell's content was executed before."""
    if options.resume is not None and known.sweep_id == options.resume and known.valid:
        return False
    cached = case.cache if case.cache is not None else pair.ready.suite.settings.cache
    if not known.valid or options.refresh == "all" or (cached is False and executes(options)):
        return True
    if options.refresh != "failed" or is_open(known, case, panel):
        return False
    return known.status is None or not Status(known.status).as_expected


def executes(options: SweepOptions) -> bool:
    """Whether a sweep may call targets."""
    return EXECUTE in options.stages


def judges(options: SweepOptions) -> bool:
    """Whether a sweep looks at answers at all, or only executes."""
    return NORMALIZE in options.stages or EVALUATE in options.stages
