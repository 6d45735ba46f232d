"""What a sweep would do: the same comparison that a sweep makes, without carrying anything out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from eval_pipeline.scores.evaluate import EVALUATORS, Panel
from eval_pipeline.scores.model import Status
from eval_pipeline.sweeps.outcomes import Tally
from eval_pipeline.sweeps.pairs import (
    Cell,
    SweepOptions,
    ends_early,
    is_open,
    is_stale,
    needs_execution,
    planned_cells,
    threshold_of,
    wanted_decision,
)
from eval_pipeline.sweeps.project_session import Workbench
from eval_pipeline.sweeps.sweep import make_graders
from eval_pipeline.warehouse.journal import CellName, recover
from eval_pipeline.warehouse.stored_pairs import known_cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """What a sweep would do with one suite × runner; the cost is None when nothing tells."""

    cell: CellName
    tally: Tally
    estimated_cost_usd: float | None


def foresee(workbench: Workbench, names: Iterable[CellName], options: SweepOptions) -> Iterator[Foreseen]:
    """The plan of each cell: reused, to execute (`executed`), to score again (`rescored`).

    A case that may end early is taken to need all its repetitions until one that is stored has settled it.
    """
    for cell in workbench.cells(names):
        tally = _tally(workbench, cell, options)
        cost = _mean_cost(workbench, cell.name) if tally.executed else _cost_of_scoring(cell, tally)
        estimated = cost * tally.executed if cost is not None else None
        yield Foreseen(cell=cell.name, tally=tally, estimated_cost_usd=estimated)


def _cost_of_scoring(cell: Cell, tally: Tally) -> float | None:
    """What it costs when no target is called: nothing, unless a model may be asked again."""
    kinds = {spec.type for case in cell.ready.suite.cases for spec in case.evaluators} if tally.rescored else set()
    return None if any(hasattr(EVALUATORS.find(kind), "grade") for kind in kinds) else 0.0


def _tally(workbench: Workbench, cell: Cell, options: SweepOptions) -> Tally:
    recover(workbench.warehouse.folder, workbench.warehouse, cell.name, except_sweep="")
    known_by_key = known_cells(workbench.warehouse, cell.name)
    threshold = threshold_of(cell, options)
    graders = make_graders(options, workbench.warehouse, workbench.runner)
    panel = Panel(cell.ready.suite, partial(graders.revision, cell.runner))
    tally = Tally()
    passed: set[str] = set()
    for plan in planned_cells(cell, options):
        known = known_by_key.get(plan.key)
        if plan.case.id in passed and known is None and ends_early(cell, plan.case):
            continue
        tally.planned += 1
        if known is not None and known.valid and known.status is not None and Status(known.status).as_expected:
            passed.add(plan.case.id)
        if known is None or needs_execution(known, cell, plan.case, options, panel):
            tally.executed += 1
        elif is_stale(known, wanted_decision(plan.case, panel, threshold)) or is_open(known, plan.case, panel):
            tally.rescored += 1
        else:
            tally.reused += 1
    return tally


def _mean_cost(workbench: Workbench, cell: CellName) -> float | None:
    """What an execution of this runner cost on average: on this suite, else anywhere."""
    if not workbench.warehouse.path.exists():
        return None
    frame = workbench.warehouse.frame(
        """SELECT coalesce(avg(cost_usd) FILTER (suite = $1), avg(cost_usd)) AS cost
           FROM session_reports WHERE runner = $2""",
        [cell.suite, cell.runner],
    )
    cost = frame["cost"][0]
    return float(cost) if cost is not None else None
