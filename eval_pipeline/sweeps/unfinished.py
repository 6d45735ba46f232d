"""Sweeps that were to execute everything anew (`--refresh all`) and were interrupted: the next sweep executes what they
did not reach, unless it abandons them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eval_pipeline.executions.model import Plan
from eval_pipeline.executions.planning import ACTIVE, CaseFilter
from eval_pipeline.executions.sampling import CaseSample
from eval_pipeline.sweeps.options import EXECUTE, SweepOptions
from eval_pipeline.warehouse import queries
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.store import Warehouse


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedRefresh:
    """An interrupted sweep that was to execute its plans anew: which pairs and plans it covers."""

    sweep_id: str
    suites: frozenset[str]
    runners: frozenset[str]
    cases: CaseFilter
    repetitions: int | None

    def covers_pair(self, pair: PairKey) -> bool:
        """Return whether a pair belongs to the sweep."""
        return pair.suite in self.suites and pair.runner in self.runners

    def covers(self, plan: Plan) -> bool:
        """Return whether a plan of such a pair belongs to the sweep."""
        return self.cases(plan.case) and (self.repetitions is None or plan.repetition <= self.repetitions)


def unfinished_refreshes(
    warehouse: Warehouse, options: SweepOptions, sweep_id: str | None = None
) -> list[UnfinishedRefresh]:
    """Return the sweeps whose rest is still to be executed; `sweep_id` is the sweep under way.

    None under `abandon_refresh`. Without a sweep under way, one that is marked as running counts as well: it either
    executes the rest itself, or was killed.
    """
    if options.abandon_refresh or not warehouse.exists():
        return []
    stored = queries.refreshes(warehouse, ("interrupted",) if sweep_id is not None else ("interrupted", "running"))
    return [_refresh(id_, selection) for id_, selection in stored if EXECUTE in selection.get("stages", (EXECUTE,))]


def _refresh(sweep_id: str, selection: Mapping[str, Any]) -> UnfinishedRefresh:
    return UnfinishedRefresh(
        sweep_id=sweep_id,
        suites=frozenset(selection.get("suites") or ()),
        runners=frozenset(selection.get("runners") or ()),
        cases=_case_filter(selection),
        repetitions=selection.get("repetitions"),
    )


def _case_filter(selection: Mapping[str, Any]) -> CaseFilter:
    """Return the filter of a stored selection; older ones had only ids and tags."""
    ids, tags, difficulties = (frozenset(selection.get(name) or ()) for name in ("cases", "tags", "difficulties"))
    statuses = frozenset(selection.get("statuses") or ACTIVE)
    size = selection.get("sample")
    mix = tuple((selection.get("mix") or {}).items())
    return CaseFilter(
        ids=ids,
        tags=tags,
        difficulties=difficulties,
        statuses=statuses,
        all_tags=frozenset(selection.get("all_tags") or ()),
        names=frozenset(selection.get("names") or ()),
        sample=CaseSample(size=size, mix=mix, seed=selection.get("seed") or 0) if size else None,
    )
