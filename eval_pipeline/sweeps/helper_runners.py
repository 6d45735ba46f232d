"""Runners that only help to evaluate others: they grade answers, play users, or review who does.

Where a suite, the project or the command names no runners, everybody but these is evaluated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from eval_pipeline.executions.model import Runner
from eval_pipeline.suites.case_list import traits_of
from eval_pipeline.suites.model import Suite
from eval_pipeline.sweeps.project import Project


def evaluated(suite: Suite, runners: Mapping[str, Runner], project: Project, more: Collection[str]) -> tuple[str, ...]:
    """Return the runners that a suite which names none is for; none where it is for all of them.

    `more` are helpers that the command names. A runner that a sweep of the project names is evaluated, and so are all
    where each helps another.
    """
    helpers = (helpers_of(suite, runners, project) | {*more}) - _of_sweeps(project)
    left = tuple(name for name in runners if name not in helpers)
    return left if len(left) < len(runners) else ()


def helpers_of(suite: Suite, runners: Mapping[str, Runner], project: Project) -> frozenset[str]:
    """Return the names by which a suite, runners and the project choose graders, simulators and reviewers."""
    of_runners = {name for own, runner in runners.items() for name in (runner.grader, runner.simulator) if name != own}
    usual = {project.defaults.grader, project.defaults.simulator}
    return frozenset(name for name in (*traits_of(suite.cases).helpers, *of_runners, *usual) if name is not None)


def _of_sweeps(project: Project) -> set[str]:
    return {name for sweep in project.sweeps.values() for name in sweep.runners}
