"""Programs that runners are to start and that are not on this machine: said before a sweep, not by its first case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.sweeps.plan import SweepPlan
from eval_pipeline.sweeps.project_session import ProjectSession


def missing_programs(session: ProjectSession, plans: Iterable[SweepPlan]) -> Iterator[str]:
    """Yield a warning for each runner with something to execute whose program is not on PATH."""
    runners = {plan.pair.runner: plan.pair for plan in plans if plan.counts.executed}
    for name, pair in runners.items():
        runner = session.runner_of(pair)
        missing = getattr(ADAPTERS.get(runner.adapter)(runner), "missing_program", None)
        program = missing() if missing is not None else None
        if program is not None:
            yield f"runner '{name}' cannot be started here: there is no program '{program}' on PATH"
