"""What a sweep carries out: validated suites, pairs (suite × runner), options, and what suite, options and project
defaults together make of a setting. Values only; what happens to each plan is decided in `decisions.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from eval_pipeline.errors import InputError, UnknownName
from eval_pipeline.executions.identity import ContentOf, RunnerIdentity, runner_revision
from eval_pipeline.executions.model import Plan, Runner, RunnerNamed
from eval_pipeline.executions.planning import CaseFilter, pair_cases, plan_pair
from eval_pipeline.executions.simulated_user import PROMPT_VERSION
from eval_pipeline.executions.workspaces.contents import WorkspaceContents
from eval_pipeline.scores.evaluate import EvaluatorSet
from eval_pipeline.scores.model import DEFAULT_THRESHOLD
from eval_pipeline.suites.case_list import case_list, traits_of
from eval_pipeline.suites.incomplete import IncompleteRule, incomplete_rule
from eval_pipeline.suites.model import Case, Strategy, Suite, SuiteSettings
from eval_pipeline.suites.simulation import SimulatedUser
from eval_pipeline.sweeps.options import EVALUATE, EXECUTE, NORMALIZE, SweepOptions
from eval_pipeline.warehouse.journal import PairKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedSuite:
    """A suite whose evaluators are checked: its usable cases, and an error per unusable one."""

    suite: Suite
    errors: tuple[InputError, ...]

    @property
    def data_version(self) -> str:
        """The version of what is stored of the suite: its revision, shortened."""
        return self.suite.revision[:32]


def validate_suite(suite: Suite) -> ValidatedSuite:
    """Return the suite with its evaluators checked; cases with an unusable evaluator join `errors`."""
    errors = EvaluatorSet(suite).check()
    if not errors:
        return ValidatedSuite(suite=suite, errors=suite.errors)
    usable = case_list(case for case in suite.cases if case.id not in errors)
    return ValidatedSuite(suite=replace(suite, cases=usable), errors=(*suite.errors, *errors.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One suite × runner to carry out.

    `revision` is the runner's, `identity` more of it (None: nothing but the revision); `contents` finds what workspaces
    depend on beside their specs; `runner_named` finds the simulators of its cases, `revisions` are theirs by name.
    `ungraded` has the cases that have no grader, each with its reason: they are planned and not executed.
    """

    ready: ValidatedSuite
    runner: Runner
    revision: str
    identity: RunnerIdentity | None = None
    contents: WorkspaceContents | None = None
    runner_named: RunnerNamed | None = field(default=None, repr=False, compare=False)
    revisions: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    ungraded: Mapping[str, InputError] = field(default_factory=dict, repr=False, compare=False)
    name: PairKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", PairKey(self.ready.suite.name, self.runner.name))

    @property
    def runner_identity(self) -> RunnerIdentity:
        """What identifies the runner."""
        return self.identity or RunnerIdentity(revision=self.revision)

    @property
    def content_of(self) -> ContentOf | None:
        """The function that returns the content of a workspace beside its spec."""
        return self.contents.of if self.contents is not None else None


def incomplete_rules(pairs: Iterable[Pair]) -> dict[PairKey, IncompleteRule]:
    """Return, for each pair, of which cases a session that a limit ended counts as an answer."""
    return {pair.name: incomplete_rule(pair.ready.suite) for pair in pairs}


def repetitions_of(pair: Pair, options: SweepOptions) -> int:
    """Return how many repetitions of each case are planned where the case sets no number."""
    return options.repetitions or pair.ready.suite.settings.repetitions or options.defaults.repetitions or 1


def groups_of_case(pair: Pair, case: Case, options: SweepOptions) -> int:
    """Return how often a case has to pass: by the options, else the case, else its suite."""
    return options.repetitions or case.repetitions or repetitions_of(pair, options)


def tries_of(pair: Pair, case: Case | None, options: SweepOptions) -> int:
    """Return how often each repetition of a case is tried until it passes; None: where the case sets nothing."""
    own = _repeat_settings(pair, case).on_failure if case is not None else pair.ready.suite.settings.on_failure
    settings = (options.on_failure, own, options.defaults.on_failure, 0)
    return 1 + next(again for again in settings if again is not None)


def repetitions_of_case(pair: Pair, case: Case, options: SweepOptions) -> int:
    """Return how many repetitions of a case are planned, each try of one counted."""
    return groups_of_case(pair, case, options) * tries_of(pair, case, options)


def threshold_of(pair: Pair, options: SweepOptions) -> float:
    """Return the least score that passes where a case sets none: by the options, the suite, the project, else 0.8."""
    settings = (options.threshold, pair.ready.suite.settings.threshold, options.defaults.threshold, DEFAULT_THRESHOLD)
    return next(threshold for threshold in settings if threshold is not None)


def weights_of(pair: Pair, options: SweepOptions) -> Mapping[str, float]:
    """Return how much cases of a difficulty count: by the options, the suite, the project; empty: all the same."""
    given = (options.weights, pair.ready.suite.settings.weights, options.defaults.weights)
    return next(({str(name): weight for name, weight in each.items()} for each in given if each), {})


def strategy_of(pair: Pair, options: SweepOptions) -> Strategy:
    """Return how the repetitions of a case become one result for it."""
    if tries_of(pair, None, options) > 1:
        return "on_failure"
    return pair.ready.suite.settings.strategy or "mean"


def ends_early(pair: Pair, case: Case) -> bool:
    """Return whether the first passing repetition settles a case. Only where the case or its suite sets it: the rates
    of all repetitions carry more information."""
    return _repeat_settings(pair, case).early_exit is True


def repeat_budget_of(pair: Pair, case: Case) -> float | None:
    """Return the cost (USD) of a case's repetitions after which no more are needed; None: no limit."""
    return _repeat_settings(pair, case).repeat_budget_usd


def one_by_one(pair: Pair, options: SweepOptions) -> bool:
    """Return whether a case's later repetitions may become needless, so that they have to follow each other."""
    suite = pair.ready.suite
    early = (
        tries_of(pair, None, options) > 1
        or suite.settings.early_exit is True
        or suite.settings.repeat_budget_usd is not None
    )
    return early or traits_of(suite.cases).ends_repetitions


def _repeat_settings(pair: Pair, case: Case) -> Case | SuiteSettings:
    """A case's settings of its repetitions replace those of its suite as a whole."""
    return case if case.repetitions is not None else pair.ready.suite.settings


def simulator_of(user: SimulatedUser, pair: Pair, options: SweepOptions) -> Runner | None:
    """Return the runner that plays a user: that of the options, the case, the runner, the project; None for a script.

    Raises InputError when no runner is named, or none has that name.
    """
    if user.script:
        return None
    name = options.simulator or user.simulator or pair.runner.simulator or options.defaults.simulator
    if name is None or pair.runner_named is None:
        raise InputError(
            "needs a simulator to play the user: name a runner with --simulator, as `simulator` of the case's user or "
            "of the runner, or under `defaults` in eval-pipeline.yaml"
        )
    try:
        return pair.runner_named(name, pair.runner.place)
    except UnknownName as error:
        raise InputError(f"has no simulator: {error.problem}") from None


def reviewer_of(user: SimulatedUser, pair: Pair) -> Runner | None:
    """Return the runner that reviews the lines of a simulator; None where none is named. Raises InputError."""
    if user.reviewer is None or user.script or pair.runner_named is None:
        return None
    try:
        return pair.runner_named(user.reviewer, pair.runner.place)
    except UnknownName as error:
        raise InputError(f"has no reviewer: {error.problem}") from None


def simulator_identity(pair: Pair, options: SweepOptions, user: SimulatedUser) -> object:
    """Return what identifies the simulator of a user: its revision and the version of the built-in instructions.

    None for a scripted user, and where there is no usable simulator: such a plan is not executed.
    """
    try:
        simulator = simulator_of(user, pair, options)
        reviewer = reviewer_of(user, pair)
        reviewed = [_revision(pair, reviewer)] if reviewer is not None else []
        return [_revision(pair, simulator), PROMPT_VERSION, *reviewed] if simulator is not None else None
    except InputError:
        return None


def _revision(pair: Pair, runner: Runner) -> str:
    """Return the revision of a runner that plays or reviews; it is computed once for a pair, not for each case."""
    if runner.name not in pair.revisions:
        pair.revisions[runner.name] = runner_revision(runner)
    return pair.revisions[runner.name]


def pair_plans(pair: Pair, options: SweepOptions) -> Iterator[Plan]:
    """Return the plans of a pair that the options select."""
    return plan_pair(
        pair.ready.suite,
        pair.runner,
        pair.runner_identity,
        repetitions=lambda case: repetitions_of_case(pair, case, options),
        case_filter=options.cases,
        any_runner=options.any_runner,
        content_of=pair.content_of,
        played_by=partial(simulator_identity, pair, options),
    )


def count_plans(pair: Pair, options: SweepOptions, selected: CaseFilter | None = None) -> int:
    """Return how many plans a pair has: of all cases of the statuses that the options name, or of those that `selected`
    selects."""
    suite = pair.ready.suite
    traits = traits_of(suite.cases)
    selected = options.cases.whole if selected is None else selected
    if not (selected or traits.runners or traits.sets_repetitions or traits.has_inactive):
        of_suite = () if options.any_runner else suite.settings.runners
        planned = not of_suite or pair.runner.name in of_suite
        return len(suite.cases) * repetitions_of(pair, options) * tries_of(pair, None, options) if planned else 0
    cases = pair_cases(suite, pair.runner, selected, any_runner=options.any_runner)
    return sum(repetitions_of_case(pair, case, options) for case in cases)


def executes(options: SweepOptions) -> bool:
    """Return whether a sweep may call targets."""
    return EXECUTE in options.stages


def judges(options: SweepOptions) -> bool:
    """Return whether a sweep normalizes or scores, or only executes."""
    return NORMALIZE in options.stages or EVALUATE in options.stages


def requested_pairs(
    ready: ValidatedSuite, runners: Iterable[Runner], selected: CaseFilter | None = None, *, any_runner: bool = False
) -> Iterator[PairKey]:
    """Yield the pairs of a suite with at least one case to execute."""
    for runner in runners:
        if next(pair_cases(ready.suite, runner, selected, any_runner=any_runner), None) is not None:
            yield PairKey(ready.suite.name, runner.name)
