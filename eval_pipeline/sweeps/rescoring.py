"""Stored executions of one pair → new verdicts, batch by batch, without a call of the target."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from eval_pipeline.executions.model import Execution, Plan
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.model import Score, Status
from eval_pipeline.sweeps.context import SweepContext
from eval_pipeline.sweeps.ledger import PairLedger
from eval_pipeline.sweeps.options import EVALUATE
from eval_pipeline.sweeps.recording import normalizer_of
from eval_pipeline.sweeps.scoring import PairScorer, ScoringInput
from eval_pipeline.warehouse.stored_pairs import BATCH, StoredExecution, load_stored

GRADED_AT_ONCE = 16
"""Each may hold an unpacked workspace, and run a program."""


@dataclass(frozen=True, slots=True)
class Rescore:
    """A plan whose stored execution is valid, and whose verdict was decided otherwise."""

    plan: Plan
    stored: StoredExecution


_Loaded = tuple[Rescore, Execution, SessionReport | None, Mapping[str, Score]]


@dataclass(slots=True)
class Rescorer:
    """The plans of a pair to score again. `is_spent` returns whether the budget forbids calling graders."""

    context: SweepContext
    scorer: PairScorer
    ledger: PairLedger
    is_spent: Callable[[], bool]
    pending: list[Rescore] = field(default_factory=list)

    async def run(self) -> None:
        """Score everything pending."""
        for start in range(0, len(self.pending), BATCH):
            await self._run_batch(self.pending[start : start + BATCH])

    async def _run_batch(self, batch: Sequence[Rescore]) -> None:
        """What needs nothing but the stored report is scored in a thread, so that calls under way are not delayed."""
        offline, graded = await asyncio.to_thread(self._load, batch)
        await asyncio.to_thread(self._score_offline, offline)
        places = asyncio.Semaphore(GRADED_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for loaded in graded:
                group.create_task(self._score_graded(places, loaded))

    def _load(self, batch: Sequence[Rescore]) -> tuple[list[_Loaded], list[_Loaded]]:
        """The stored values of a batch: those without and those with evaluators that need a grader client."""
        offline: list[_Loaded] = []
        graded: list[_Loaded] = []
        for loaded in load_stored(self.context.warehouse, batch, lambda rescore: rescore.stored):
            (graded if self.scorer.requires_client(loaded[0].plan.case) else offline).append(loaded)
        return offline, graded

    def _score_offline(self, batch: Sequence[_Loaded]) -> None:
        for loaded in batch:
            item = self._input(loaded)
            status = self.scorer.score_offline(item) if self._scores else None
            self.ledger.rescore(loaded[0].stored, status)

    async def _score_graded(self, places: asyncio.Semaphore, loaded: _Loaded) -> None:
        rescore = loaded[0]
        async with places:
            if self.is_spent():
                self.ledger.reuse(rescore.stored)
                return
            item = self._input(loaded)
            status: Status | None = None
            if self._scores:
                status, cost = await self.scorer.score(item)
                self.context.budget.spend(rescore.plan.suite, cost)
            self.ledger.rescore(rescore.stored, status)

    @property
    def _scores(self) -> bool:
        return EVALUATE in self.context.options.stages

    def _input(self, loaded: _Loaded) -> ScoringInput:
        """The report as today's normalizer gives it, and the scores that still hold for it."""
        rescore, execution, report, scores = loaded
        case, stored, normalizer = rescore.plan.case, rescore.stored, normalizer_of(execution)
        if report is None or stored.report_normalizer != normalizer:
            report, scores = self.scorer.report(execution, case), {}
        holds = stored.normalizer == normalizer
        return ScoringInput(
            case=case, execution=execution, report=report, sweep_id=stored.sweep_id, scores=scores if holds else {}
        )
