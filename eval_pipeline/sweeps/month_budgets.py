"""What a sweep of the project file may spend in a calendar month, all its runs together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from eval_pipeline.sweeps.named_sweeps import named_sweep
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.project import Project
from eval_pipeline.warehouse.spending import spent_since
from eval_pipeline.warehouse.store import Warehouse


@dataclass(frozen=True, slots=True)
class MonthBudget:
    """The limit (USD) of a sweep's month, and what its earlier runs have spent of it."""

    sweep: str
    limit_usd: float
    spent_usd: float

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"this month of sweep '{self.sweep}'"

    @property
    def problem(self) -> str | None:
        """Why nothing may be executed any more; None while something is left."""
        if self.spent_usd < self.limit_usd:
            return None
        return f"the budget of {self.title} is spent ({self.spent_usd:g} of {self.limit_usd:g} USD)"


def month_limit(project: Project, options: SweepOptions) -> float | None:
    """Return the limit (USD) of the month of the sweep that the options name; None without one."""
    return named_sweep(project, options.sweep).month_budget_usd if options.sweep is not None else None


def month_budget(project: Project, warehouse: Warehouse, name: str) -> MonthBudget | None:
    """Return the budget of the month that a sweep is in, by its time zone; None where it has none."""
    sweep = named_sweep(project, name)
    if sweep.month_budget_usd is None:
        return None
    start = datetime.now(ZoneInfo(sweep.timezone)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return MonthBudget(name, sweep.month_budget_usd, spent_since(warehouse, name, start))
