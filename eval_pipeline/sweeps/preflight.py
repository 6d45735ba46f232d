"""What is checked before anything costs money: that pairs can be graded, and by another model than the one graded; that
their budgets can hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.executions.model import Runner
from eval_pipeline.executions.runners import UnusableRunner
from eval_pipeline.scores.evaluate import EvaluatorSet
from eval_pipeline.scores.model import NOTHING
from eval_pipeline.suites.case_list import traits_of
from eval_pipeline.sweeps.budget import unknown_cost
from eval_pipeline.sweeps.costs import limits_of, reports_cost
from eval_pipeline.sweeps.grading import Graders, graded_part
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.pairs import Pair
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.sweep import make_graders
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.queries import costs_are_reported

_ENDPOINT = ("wire", "base_url", "api_format")


@dataclass(frozen=True, slots=True)
class Preflight:
    """Why pairs cannot be carried out, for those that cannot, and what to know before money is spent."""

    errors: Mapping[PairKey, InputError]
    warnings: Sequence[str]


def preflight(session: ProjectSession, pairs: Sequence[Pair], options: SweepOptions) -> Preflight:
    """Check pairs before they are carried out."""
    graders = make_graders(options, session.warehouse, session.runner)
    errors: dict[PairKey, InputError] = {}
    self_graded: dict[tuple[str, str], list[str]] = {}
    for pair in pairs:
        used, error = graders_of(pair, graders, any_runner=options.any_runner)
        error = error or _budget_error(session, pair, used, options)
        if error is not None:
            errors[pair.name] = error
        for grader in used:
            if grades_itself(pair.runner, grader):
                self_graded.setdefault((pair.runner.name, grader.name), []).append(pair.name.suite)
    return Preflight(errors, [self_grading(*names, suites) for names, suites in self_graded.items()])


def graders_of(pair: Pair, graders: Graders, *, any_runner: bool = False) -> tuple[list[Runner], InputError | None]:
    """Return the runners that grade the answers of a pair, and why they cannot be graded: the first evaluator without
    a grader, or None."""
    suite = graded_part(pair.ready.suite, pair.runner, any_runner=any_runner)
    if suite is None:
        return [], None
    used: dict[str, Runner] = {}

    def note(name: str | None, settings: Mapping[str, Any] = NOTHING) -> str:
        grader = graders.choose(pair.runner, name)
        if "model" in settings:
            grader = replace(grader, settings={**grader.settings, "model": settings["model"]})
        used[f"{grader.address} {grader.model}"] = grader
        return graders.revision(pair.runner, name, settings)

    errors = EvaluatorSet(suite, note).check()
    return list(used.values()), next(iter(errors.values()), None)


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
    budget = next(_usd_budgets(pair, limits.usd), None)
    if budget is None:
        return None
    for runner in (pair.runner, *graders):
        if not isinstance(runner, UnusableRunner) and _cost_stays_unknown(session, runner):
            return InputError(f"{budget} cannot hold: {unknown_cost(runner.name)}")
    return None


def _usd_budgets(pair: Pair, of_the_run: float | None) -> Iterator[str]:
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
        if case.budget_usd is not None
    )


def _cost_stays_unknown(session: ProjectSession, runner: Runner) -> bool:
    """Whether the target never reports a cost: by its kind, or as far as its stored executions show."""
    reports = reports_cost(runner)
    if reports:
        return False
    stored = costs_are_reported(session.warehouse, runner.name)
    return stored is False or (reports is False and stored is None)
