"""What a sweep is to be expected to take, from what executions of its runners took so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.model import Runner
from eval_pipeline.sweeps.concurrency import most_at_once
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.warehouse.expectations import MeanExecution

if TYPE_CHECKING:
    from eval_pipeline.sweeps.plan import SweepPlan


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the executions of a pair take; None of a measure: unknown. `seconds` are one after another."""

    cost_usd: float | None = 0.0
    calls: float | None = 0.0
    tokens: float | None = 0.0
    seconds: float | None = 0.0


NOTHING = Estimate()


def estimate(executions: int, mean: MeanExecution) -> Estimate:
    """Return what so many executions take."""
    if not executions:
        return NOTHING
    means = (mean.cost_usd, mean.attempts, mean.tokens, mean.seconds)
    return Estimate(*(each * executions if each is not None else None for each in means))


def total(plans: Iterable[SweepPlan], measure: Callable[[Estimate], float | None]) -> float | None:
    """Return the sum of a measure over plans; None as soon as one is unknown."""
    amounts = [measure(plan.estimate) for plan in plans]
    return None if None in amounts else sum(amount for amount in amounts if amount is not None)


def wall_seconds(plans: Iterable[SweepPlan], runners: Callable[[str], Runner], options: SweepOptions) -> float | None:
    """Return how long a sweep takes when runners work beside each other, each as many executions at once as it may;
    None when the time of a runner is unknown. Grading and our own work are not counted."""
    by_runner: dict[str, list[SweepPlan]] = {}
    for plan in plans:
        if plan.counts.executed:
            by_runner.setdefault(plan.pair.runner, []).append(plan)
    times: list[float] = []
    most = options.concurrency or options.defaults.concurrency
    for name, own in by_runner.items():
        seconds = total(own, lambda each: each.seconds)
        if seconds is None:
            return None
        executions = sum(plan.counts.executed for plan in own)
        times.append(seconds / min(executions, at_once(runners(name), options)))
    everything = total((plan for own in by_runner.values() for plan in own), lambda each: each.seconds) or 0.0
    return max([*times, everything / most if most else 0.0], default=0.0)


def at_once(runner: Runner, options: SweepOptions) -> int:
    """Return how many executions of a runner may be under way at once."""
    return most_at_once(runner, ADAPTERS.get(runner.adapter)(runner), options)
