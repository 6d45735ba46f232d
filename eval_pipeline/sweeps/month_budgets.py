"""What a sweep of the project file may spend in a calendar month, all its runs together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

from eval_pipeline.leaderboards.show import counted
from eval_pipeline.sweeps.named_sweeps import named_sweep
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.project import Project
from eval_pipeline.warehouse.shared_limits import month_account
from eval_pipeline.warehouse.spending import spent_since
from eval_pipeline.warehouse.store import Warehouse


@dataclass(frozen=True, slots=True)
class MonthBudget:
    """The limit (USD) of a sweep's month, and what its earlier runs have spent of it: at least so much where the costs
    of some executions (agent, simulated user, reviewer) and gradings are `unknown` (how many)."""

    sweep: str
    limit_usd: float
    spent_usd: float
    unknown: int = 0
    month: str = ""
    by_sweep: Mapping[str, float] = field(default_factory=dict)
    """What the runs have spent of it, by their id."""

    @property
    def account(self) -> str:
        """The name of what all runs of the month have in common, where several processes share limits."""
        return month_account(self.sweep, self.month)

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"this month of sweep '{self.sweep}'"

    @property
    def problem(self) -> str | None:
        """Why nothing may be executed any more; None while something is left."""
        if self.spent_usd < self.limit_usd:
            return None
        least = "at least " if self.unknown else ""
        return f"the budget of {self.title} is spent ({least}{self.spent_usd:g} of {self.limit_usd:g} USD)"

    @property
    def doubt(self) -> str | None:
        """What nobody can say of the rest; None where every cost is known."""
        if not self.unknown:
            return None
        what = counted(self.unknown, "execution or grading", "executions and gradings")
        return (
            f"{self.title} has spent at least {self.spent_usd:g} of {self.limit_usd:g} USD, the cost of {what} is not "
            "known; give their runners `prices` (`per_call: 0` where one is free)"
        )


def month_limit(project: Project, options: SweepOptions) -> float | None:
    """Return the limit (USD) of the month of the sweep that the options name; None without one."""
    return named_sweep(project, options.sweep).month_budget_usd if options.sweep is not None else None


def counted_this_month(project: Project, warehouse: Warehouse) -> frozenset[str]:
    """Return the ids of the sweeps whose cost counts in the budget of a present month."""
    if not warehouse.exists():
        return frozenset()
    budgets = (month_budget(project, warehouse, name) for name in project.sweeps)
    return frozenset(sweep_id for budget in budgets if budget is not None for sweep_id in budget.by_sweep)


def month_budget(project: Project, warehouse: Warehouse, name: str) -> MonthBudget | None:
    """Return the budget of the month that a sweep is in, by its time zone; None where it has none."""
    sweep = named_sweep(project, name)
    if sweep.month_budget_usd is None:
        return None
    start = datetime.now(ZoneInfo(sweep.timezone)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    spent = spent_since(warehouse, name, start)
    return MonthBudget(name, sweep.month_budget_usd, spent.usd, spent.unknown, f"{start:%Y-%m}", spent.by_sweep)
