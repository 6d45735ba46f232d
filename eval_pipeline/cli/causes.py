"""`compare --explain-with RUNNER`: a model is asked once for each candidate for the likely causes of its change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from eval_pipeline.cli.options import open_project
from eval_pipeline.cli.regressions import Candidate
from eval_pipeline.cli.regressions import candidates_of as measured_candidates
from eval_pipeline.cli.result_sources import ResultSources
from eval_pipeline.cli.tables import print_line
from eval_pipeline.errors import InputError
from eval_pipeline.executions.model import Runner
from eval_pipeline.executions.runners import require_environment, select_runners
from eval_pipeline.leaderboards.causes import Cause, Causes, Evidence, causes_question, read_causes
from eval_pipeline.leaderboards.regressions import RegressionRules, regression
from eval_pipeline.leaderboards.results import Results
from eval_pipeline.leaderboards.show import counted, money
from eval_pipeline.leaderboards.totals import Measured
from eval_pipeline.sweeps.asking import ask, with_settings
from eval_pipeline.sweeps.project_session import ProjectSession

MOST_TOKENS = 4_096
"""The most that a reply may have, where the runner has such a limit and does not set it."""
_NOTHING = Causes(problem="nothing moved: no model was asked")


def candidates_of(
    sources: ResultSources, sides: Sequence[Results], reference: str | None, rules: RegressionRules | None,
    explain_with: str | None, *, allow_changed: bool,
) -> list[Candidate]:  # fmt: skip
    """Return what is known of each candidate against the baseline, with likely causes where a runner is named.

    Raises InputError where it cannot be asked, before anything is compared. Without a shift there is no call, and no
    answer is a problem of its own.
    """
    runner = _explainer(sources, explain_with) if explain_with is not None else None
    candidates = measured_candidates(sources, sides, reference, rules, allow_changed=allow_changed)
    if runner is None:
        return candidates
    if reference is None:
        raise InputError("--explain-with needs a baseline: --baseline NAME")
    by_name = {side.name: side for side in sides}
    before = sources.measured(by_name[reference])
    return [
        replace(each, causes=_causes(runner, _evidence(sources, before, by_name[each.name], each, allow_changed)))
        for each in candidates
    ]


def _explainer(sources: ResultSources, name: str) -> Runner:
    """Return the runner that is asked, with a limit of its reply where it takes one."""
    (runner,) = select_runners(ProjectSession(open_project(sources.project, sources.data)).load_runners(), [name])
    require_environment([runner])
    return with_settings(runner, {"max_tokens": MOST_TOKENS})


def _evidence(
    sources: ResultSources, before: Measured, side: Results, candidate: Candidate, allow_changed: bool
) -> Evidence:
    found = candidate.regression or regression(before, sources.measured(side), allow_changed=allow_changed)
    return Evidence(
        baseline=before.results.name,
        candidate=candidate.name,
        found=found,
        changes=candidate.changes,
        reasons=sources.reasons(side),
    )


def _causes(runner: Runner, evidence: Evidence) -> Causes:
    return _asked(runner, evidence) if evidence.shifted else _NOTHING


def _asked(runner: Runner, evidence: Evidence) -> Causes:
    try:
        report = ask(runner, causes_question(evidence), "causes")
    except InputError as error:
        return Causes(problem=str(error), runner=runner.name)
    usage = report.usage
    causes = read_causes(report.final_output or "")
    return replace(causes, runner=runner.name, tokens=usage.total_tokens, cost_usd=usage.cost_usd)


def show_causes(console: Console, candidates: Sequence[Candidate]) -> None:
    """Print the likely causes of each candidate's change."""
    for each in candidates:
        if each.causes is not None:
            console.print()
            _show(console, f"{each.name}: " if len(candidates) > 1 else "", each.causes)


def _show(console: Console, named: str, found: Causes) -> None:
    print_line(console, f"{named}likely causes{_by(found)}", style="bold")
    for cause in found.causes:
        print_line(console, f"{named}{_line(cause)}", mark=cause.direction)
    notes = (found.summary, _titled("prompt", found.prompt_summary), _titled("noise", found.infrastructure_notes))
    for text in filter(None, notes):
        print_line(console, f"{named}{text}", style="dim")
    if found.left_out:
        print_line(console, f"{named}{counted(found.left_out, 'cause')} could not be read", style="yellow")
    if found.problem is not None:
        print_line(console, f"{named}{found.problem}", style="yellow")


def _by(found: Causes) -> str:
    if found.runner is None:
        return ""
    spent = "cost unknown" if found.cost_usd is None else money(found.cost_usd)
    return f", as {found.runner} sees them ({spent}); they decide nothing"


def _line(cause: Cause) -> str:
    why = f" ({cause.reasoning})" if cause.reasoning else ""
    return f"{cause.metric}, {cause.confidence} confidence: {cause.likely_cause}{why}"


def _titled(title: str, text: str | None) -> str | None:
    return f"{title}: {text}" if text else None
