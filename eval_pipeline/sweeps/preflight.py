"""What is checked before anything costs money: that pairs can be graded, and by another model than the one graded; that
their budgets can hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from eval_pipeline.errors import EvalPipelineError, InputError, SourceLocation, UnknownName
from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.model import Runner
from eval_pipeline.executions.planning import pair_cases
from eval_pipeline.executions.provider_limits import unmatched_limits
from eval_pipeline.executions.runners import UnusableRunner
from eval_pipeline.executions.tool_sets import TOOL_MODE, in_mode, unknown_mocks
from eval_pipeline.llm.reading import mapping
from eval_pipeline.parsing.source import show_path
from eval_pipeline.scores.evaluate import EvaluatorSet
from eval_pipeline.scores.model import NOTHING
from eval_pipeline.suites.case_list import case_list, traits_of
from eval_pipeline.suites.model import Case
from eval_pipeline.sweeps.budget import unknown_cost
from eval_pipeline.sweeps.costs import limits_of, reports_cost
from eval_pipeline.sweeps.grader_settings import accepted_settings
from eval_pipeline.sweeps.grading import Graders, MissingGrader, graded_part
from eval_pipeline.sweeps.missing_workspaces import missing_workspaces
from eval_pipeline.sweeps.month_budgets import month_limit
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.pairs import Pair, ValidatedSuite, reviewer_of, simulator_of
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.sweep import make_graders
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.queries import costs_are_reported

_ENDPOINT = ("wire", "base_url", "api_format")


@dataclass(frozen=True, slots=True)
class Preflight:
    """What is known before money is spent.

    `errors` are the reasons of pairs that cannot be carried out, of `unlimited` ones that no budget in USD can hold.
    Of the other pairs `ungraded` has the cases whose grader is missing, `invalid` those whose grader cannot be used as
    they use it, each with its reason. A pair without any other case is among the errors where no pair has one.
    """

    errors: Mapping[PairKey, InputError]
    warnings: Sequence[str]
    unlimited: frozenset[PairKey] = frozenset()
    ungraded: Mapping[PairKey, Mapping[str, InputError]] = field(default_factory=dict)
    invalid: Mapping[PairKey, Mapping[str, InputError]] = field(default_factory=dict)

    def usable(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Return the pairs that can be carried out; their invalid cases are among their errors."""
        return [
            replace(_valid(pair, self.invalid.get(pair.name, {})), ungraded=self.ungraded.get(pair.name, {}))
            for pair in pairs
            if pair.name not in self.errors
        ]

    @property
    def without_grader(self) -> list[tuple[InputError, int]]:
        """Each reason why a grader is missing, at its first case, with the number of cases × runners that have it."""
        reasons: dict[tuple[str, str], tuple[InputError, int]] = {}
        for pair, cases in self.ungraded.items():
            for error in cases.values():
                first, number = reasons.get((pair.suite, error.problem), (error, 0))
                reasons[pair.suite, error.problem] = first, number + 1
        return list(reasons.values())


def preflight(session: ProjectSession, pairs: Sequence[Pair], options: SweepOptions) -> Preflight:
    """Check pairs before they are carried out."""
    graders = make_graders(options, session.warehouse, session.runner)
    errors: dict[PairKey, InputError] = {}
    unlimited: set[PairKey] = set()
    ungraded: dict[PairKey, Mapping[str, InputError]] = {}
    invalid: dict[PairKey, Mapping[str, InputError]] = {}
    self_graded: dict[tuple[str, str], list[str]] = {}
    for pair in pairs:
        used, unusable = graders_of(pair, graders, options)
        missing = {case: error for case, error in unusable.items() if isinstance(error, MissingGrader)}
        if unusable and not missing and not _has_others(pair, unusable, options):
            errors[pair.name] = next(iter(unusable.values()))
        elif unusable:
            ungraded |= {pair.name: missing} if missing else {}
            invalid[pair.name] = {case: error for case, error in unusable.items() if case not in missing}
        if (error := _simulator_error(pair, options)) is not None:
            errors.setdefault(pair.name, error)
        if (error := _mock_error(pair, options)) is not None:
            errors.setdefault(pair.name, error)
        if (error := _budget_error(session, pair, used, options)) is not None:
            errors.setdefault(pair.name, error)
            unlimited.add(pair.name)
        for grader in used:
            if grades_itself(pair.runner, grader):
                self_graded.setdefault((pair.runner.name, grader.name), []).append(pair.name.suite)
    warnings = [self_grading(*names, suites) for names, suites in self_graded.items()]
    warnings += missing_workspaces(pairs, options)
    warnings += _unmatched_limits(session, options)
    if not any(_has_others(pair, ungraded.get(pair.name, ()), options) for pair in pairs if pair.name not in errors):
        errors = {name: next(iter(cases.values())) for name, cases in ungraded.items()} | errors
        ungraded = {}
    return Preflight(errors, warnings, frozenset(unlimited), ungraded, invalid)


def _unmatched_limits(session: ProjectSession, options: SweepOptions) -> list[str]:
    """Return warnings about limits of providers that limit nothing; none where the runners are not all known."""
    if not options.defaults.providers:
        return []
    with suppress(EvalPipelineError):  # reported where the runners are needed
        usable = (runner for runner in session.all_runners() if not isinstance(runner, UnusableRunner))
        return list(unmatched_limits(options.defaults.providers, usable))
    return []


def _simulator_error(pair: Pair, options: SweepOptions) -> InputError | None:
    """Return why the users of a pair's cases cannot be played; None when they can, or there are none."""
    if not traits_of(pair.ready.suite.cases).has_users:
        return None
    for case in _cases_of(pair, options):
        try:
            if case.user is not None:
                simulator = simulator_of(case.user, pair, options)
                if simulator is not None and options.simulator is None:
                    given = {"model": case.user.model, "temperature": case.user.temperature}
                    settings = {name: value for name, value in given.items() if value is not None}
                    accepted_settings(simulator, settings, "simulator").check()
                reviewer_of(case.user, pair)
        except InputError as error:
            place = SourceLocation(show_path(case.origin or pair.ready.suite.path), case.line, "user")
            return InputError(f"case '{case.id}' {error.problem}", place)
    return None


def _mock_error(pair: Pair, options: SweepOptions) -> InputError | None:
    """Return the error of a canned answer whose tool the runner does not declare; None for runners that answer their
    own calls."""
    declared = getattr(ADAPTERS.find(pair.runner.adapter), "declared_tools", None)
    if declared is None or isinstance(pair.runner, UnusableRunner) or not traits_of(pair.ready.suite.cases).has_tools:
        return None
    tools = declared(pair.runner)
    for case in pair_cases(pair.ready.suite, pair.runner, any_runner=options.any_runner):
        try:
            in_mode(tools, mapping(case.model_settings).get(TOOL_MODE))
        except InputError as error:
            place = SourceLocation(show_path(case.origin or pair.ready.suite.path), case.line, TOOL_MODE)
            return InputError(f"runner '{pair.runner.name}': {error.problem}", place)
        for number, mock in unknown_mocks(case.mocks, tools):
            place = SourceLocation(show_path(case.origin or pair.ready.suite.path), case.line, f"mocks[{number}].tool")
            return _no_such_tool(pair.runner, mock.tool, tools.names, place)
    return None


def _no_such_tool(runner: Runner, tool: str, known: Collection[str], place: SourceLocation) -> InputError:
    """Return the error of a canned answer that no call can get."""
    if known:
        return UnknownName(f"tool of runner '{runner.name}'", tool, known, place)
    cure = "declare it under `tools` of the runner, or leave the canned answer out"
    return InputError(f"runner '{runner.name}' has no tools, and this is an answer of '{tool}'; {cure}", place)


def _has_others(pair: Pair, ungraded: Collection[str], options: SweepOptions) -> bool:
    """Return whether a pair has a case that can be graded."""
    return any(case.id not in ungraded for case in _cases_of(pair, options))


def _cases_of(pair: Pair, options: SweepOptions) -> Iterator[Case]:
    """Yield the cases of a pair that have the statuses which the options name."""
    return pair_cases(pair.ready.suite, pair.runner, options.cases.whole, any_runner=options.any_runner)


def _valid(pair: Pair, invalid: Mapping[str, InputError]) -> Pair:
    if not invalid:
        return pair
    suite = pair.ready.suite
    cases = case_list(case for case in suite.cases if case.id not in invalid)
    errors = (*pair.ready.errors, *invalid.values())
    return replace(pair, ready=ValidatedSuite(suite=replace(suite, cases=cases), errors=errors))


def graders_of(pair: Pair, graders: Graders, options: SweepOptions) -> tuple[list[Runner], Mapping[str, InputError]]:
    """Return the runners that grade the answers of a pair, and an error for each case with an evaluator that has no
    grader, by case id."""
    suite = graded_part(pair.ready.suite, pair.runner, options.cases.whole, any_runner=options.any_runner)
    if suite is None:
        return [], {}
    used: dict[str, Runner] = {}

    def note(name: str | None, settings: Mapping[str, Any] = NOTHING) -> str:
        grader = graders.choose(pair.runner, name)
        if "model" in settings:
            grader = replace(grader, settings={**grader.settings, "model": settings["model"]})
        used[f"{grader.address} {grader.model}"] = grader
        return graders.revision(pair.runner, name, settings)

    errors = EvaluatorSet(suite, note).check()
    return list(used.values()), errors


def grades_itself(runner: Runner, grader: Runner) -> bool:
    """Return whether answers are graded by the model that gave them: the same runner, or one of the same model at the
    same address."""
    if runner.model is None or runner.model != grader.model:
        return False
    same_place = all(runner.settings.get(name) == grader.settings.get(name) for name in _ENDPOINT)
    return runner.adapter == grader.adapter and same_place


def self_grading(runner: str, grader: str, suites: Sequence[str]) -> str:
    """Return the warning about a model that grades itself."""
    same = "" if runner == grader else f" ('{grader}' is the same model)"
    where = f"suite '{suites[0]}'" if len(suites) == 1 else f"{len(suites)} suites"
    return (
        f"runner '{runner}' grades its own answers{same} in {where}, which favours them: name another grader with "
        "--grader, as `grader` of the runner, or under `defaults` in eval-pipeline.yaml"
    )


def _budget_error(
    session: ProjectSession, pair: Pair, graders: Iterable[Runner], options: SweepOptions
) -> InputError | None:
    """Return why no budget in USD can hold for a pair: the cost of its runner, or of a grader, stays unknown."""
    limits = limits_of(options)
    if limits.calls is not None or limits.tokens is not None:
        return None
    of_month = month_limit(session.project, options)
    budget = next(_usd_budgets(pair, limits.usd, options.cases.statuses), None)
    if budget is None and of_month is not None:
        budget = f"the budget of each month of sweep '{options.sweep}' ({of_month:g} USD)"
    if budget is None:
        return None
    for runner in (pair.runner, *graders):
        if not isinstance(runner, UnusableRunner) and _cost_stays_unknown(session, runner):
            return InputError(f"{budget} cannot hold: {unknown_cost(runner.name)}")
    return None


def _usd_budgets(pair: Pair, of_the_run: float | None, statuses: Collection[str]) -> Iterator[str]:
    suite = pair.ready.suite
    if of_the_run is not None:
        yield f"the budget of the run ({of_the_run:g} USD)"
    if suite.settings.budget_usd is not None:
        yield f"the budget of suite '{suite.name}' ({suite.settings.budget_usd:g} USD)"
    if not traits_of(suite.cases).has_budgets:
        return
    yield from (
        f"the budget of case '{case.id}' ({case.budget_usd:g} USD)"
        for case in suite.cases
        if case.budget_usd is not None and case.status in statuses
    )


def _cost_stays_unknown(session: ProjectSession, runner: Runner) -> bool:
    """Whether the target never reports a cost: by its kind, or as far as its stored executions show."""
    reports = reports_cost(runner)
    if reports:
        return False
    stored = costs_are_reported(session.warehouse, runner.name)
    return stored is False or (reports is False and stored is None)
