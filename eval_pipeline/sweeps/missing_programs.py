"""Programs and logins that runners need and that are not on this machine: said before a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eval_pipeline.executions.adapters import ADAPTERS, Adapter
from eval_pipeline.sweeps.plan import SweepPlan
from eval_pipeline.sweeps.project_session import ProjectSession


def missing_programs(session: ProjectSession, plans: Iterable[SweepPlan]) -> Iterator[str]:
    """Yield warnings for runners with something to execute: no program on PATH, no login, sessions that its sandbox
    hides."""
    runners = {plan.pair.runner: plan.pair for plan in plans if plan.counts.executed}
    for name, pair in runners.items():
        runner = session.runner_of(pair)
        adapter = ADAPTERS.get(runner.adapter)(runner)
        for method in ("missing_program", "missing_login"):
            if (problem := _answer(adapter, method)) is not None:
                yield f"runner '{name}' cannot be started here: {problem}"
        if (problem := _answer(adapter, "hidden_folder")) is not None:
            yield f"runner '{name}': {problem}"


def _answer(adapter: Adapter, method: str) -> str | None:
    """Return what an adapter says of itself; None where it has no such method."""
    ask = getattr(adapter, method, None)
    return ask() if ask is not None else None
