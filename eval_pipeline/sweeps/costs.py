"""What calls cost, and whether the cost of a runner can be known: what budgets are kept by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.model import Execution, Runner
from eval_pipeline.reports.model import SessionReport, Usage
from eval_pipeline.suites.case_list import traits_of
from eval_pipeline.sweeps.budget import NO_SPENDING, Budget, Limits, Spending
from eval_pipeline.sweeps.month_budgets import MonthBudget
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.pairs import Pair
from eval_pipeline.warehouse.expectations import mean_executions
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.store import Warehouse


def open_budget(
    pairs: Sequence[Pair],
    options: SweepOptions,
    earlier: Callable[[PairKey], float | None] = lambda pair: None,
    month: MonthBudget | None = None,
    before: Spending = NO_SPENDING,
) -> Budget:
    """Return the budgets of a sweep: its own, those of its suites and cases, and that of its month. All of them
    hold."""
    limits = limits_of(options)
    by_suite = {pair.ready.suite.name: pair.ready.suite.settings.budget_usd for pair in pairs}
    in_cases = any(traits_of(pair.ready.suite.cases).has_budgets for pair in pairs)
    is_limited = in_cases or any(limits) or any(by_suite.values()) or month is not None
    return Budget(limits, by_suite.get, earlier, month=month, before=before, is_limited=is_limited)


def earlier_costs(pairs: Sequence[Pair], warehouse: Warehouse) -> Callable[[PairKey], float | None]:
    """Return what an execution of each pair cost on average so far (USD, grading included; None: unknown): looked up
    for all runners of the pairs together, at the first call."""
    means = cache(lambda: mean_executions(warehouse, {pair.runner.name for pair in pairs}))
    return lambda pair: means().of(pair).cost_usd


def limits_of(options: SweepOptions) -> Limits:
    """Return the limits of a sweep: each as set for it, else the project's."""
    names = ("budget_usd", "budget_calls", "budget_tokens")
    given = [getattr(options, name) for name in names]
    usual = [getattr(options.defaults, name) for name in names]
    return Limits(*(usual[index] if value is None else value for index, value in enumerate(given)))


def reports_cost(runner: Runner) -> bool | None:
    """Return whether the cost of every call is known: by prices, or because the target reports it or is free. None:
    that turns out when it answers."""
    if runner.prices:
        return True
    mark = getattr(ADAPTERS.find(runner.adapter), "reports_cost", None)
    reports: bool | None = mark(runner) if callable(mark) else mark
    return reports


def is_free(runner: Runner) -> bool:
    """Return whether a call costs nothing unless its target reports a cost."""
    return not runner.prices and bool(reports_cost(runner))


def of_execution(execution: Execution, report: SessionReport | None, runner: Runner) -> Spending:
    """Return what an execution cost; no reported cost is 0 where the target is free or reports every cost."""
    if not execution.calls:
        return Spending(usd=0.0, tokens=0)
    if report is None:
        return Spending(0.0 if execution.completed and is_free(runner) else None, execution.calls)
    usd = report.cost_usd
    if usd is None:  # what is known of retries counts
        usd = report.retries_cost_usd or (0.0 if execution.completed and is_free(runner) else None)
    given_up = [Usage(**used["usage"]) for used in report.given_up if "usage" in used]
    further_turns = max(0, len(report.turn_starts) - 1) + len(given_up)
    tokens = [known for usage in (report.usage, *given_up) if (known := _tokens(usage)) is not None]
    return Spending(usd, execution.calls + further_turns, sum(tokens) if tokens else None)


def of_failed_attempts(runner: Runner, attempts: int) -> Spending:
    """Return what is known to be spent on attempts without an answer."""
    return Spending(runner.prices.get("per_call", 0.0) * attempts, attempts)


def of_reply(usage: Usage) -> Spending:
    """Return what a grader's reply cost."""
    return Spending(usage.cost_usd, 1, _tokens(usage))


def together(first: Spending, second: Spending) -> Spending:
    """Return the sum; an unknown cost counts as nothing beside a known one."""
    usd = None if first.usd is None and second.usd is None else (first.usd or 0.0) + (second.usd or 0.0)
    tokens = None if first.tokens is None and second.tokens is None else (first.tokens or 0) + (second.tokens or 0)
    return Spending(usd, first.calls + second.calls, tokens)


def _tokens(usage: Usage) -> int | None:
    if usage.input_tokens is None and usage.output_tokens is None:
        return None
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)
