"""Stored executions → new verdicts, pair by pair and batch by batch, without a call of the target."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from eval_pipeline.executions.model import Execution, Plan
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.model import Score, Status
from eval_pipeline.sweeps.context import SweepContext
from eval_pipeline.sweeps.ledger import PairLedger
from eval_pipeline.sweeps.options import EVALUATE
from eval_pipeline.sweeps.recording import normalizer_of
from eval_pipeline.sweeps.scoring import PairScorer, ScoringInput
from eval_pipeline.warehouse.store import Warehouse
from eval_pipeline.warehouse.stored_pairs import BATCH, StoredExecution, load_stored

GRADED_AT_ONCE = 16
"""Each may hold an unpacked workspace, and run a program."""


@dataclass(frozen=True, slots=True)
class Rescore:
    """A plan whose stored execution is valid, and whose verdict was decided otherwise; `updates`: its scores hold, only
    weights, gates, the threshold or its cost are new; `is_earlier`: a later answer to the plan counts beside it, and is
    the current one; `reads_output`: more than the stored report may be looked at."""

    plan: Plan
    stored: StoredExecution
    updates: bool = False
    is_earlier: bool = False
    reads_output: bool = True


_Loaded = tuple[Rescore, Execution, SessionReport | None, Mapping[str, Score]]


class StoredSessions:
    """The stored values of what is scored again, read for several pairs at a time: opening the warehouse costs more
    than reading a small pair.

    `batches` are taken in their order, each at most BATCH long.
    """

    def __init__(self, warehouse: Warehouse, batches: Iterable[Sequence[Rescore]]) -> None:
        self._warehouse = warehouse
        self._ahead = deque(batches)
        self._read: dict[str, _Loaded] = {}

    def take(self, batch: Sequence[Rescore]) -> list[_Loaded]:
        """Return the stored values of a batch. Raises what makes them unreadable, for this batch only."""
        if any(rescore.stored.execution_id not in self._read for rescore in batch):
            self._read_ahead(batch)
        ids = [rescore.stored.execution_id for rescore in batch]
        return [self._read.pop(id_) for id_ in ids if id_ in self._read]

    def _read_ahead(self, first: Sequence[Rescore]) -> None:
        """Read a batch, and as many after it as are small together."""
        if self._ahead and self._ahead[0][0] is first[0]:
            self._ahead.popleft()
        chosen = list(first)
        while self._ahead and len(chosen) + len(self._ahead[0]) <= BATCH:
            chosen += self._ahead.popleft()
        try:
            self._load(chosen)
        except Exception:  # another batch may be unreadable: that raises when it is taken itself
            if len(chosen) == len(first):
                raise
            self._load(first)

    def _load(self, rescores: Sequence[Rescore]) -> None:
        for outputs in (True, False):
            if chosen := [rescore for rescore in rescores if rescore.reads_output is outputs]:
                loaded = load_stored(self._warehouse, chosen, lambda rescore: rescore.stored, outputs=outputs)
                self._read.update((values[0].stored.execution_id, values) for values in loaded)


@dataclass(slots=True)
class Rescorer:
    """The plans of a pair to score again; with a spent budget, those that need no grader."""

    context: SweepContext
    scorer: PairScorer
    ledger: PairLedger
    pending: list[Rescore] = field(default_factory=list)

    def batches(self) -> list[Sequence[Rescore]]:
        """Return what is pending in batches that fit into memory."""
        return [self.pending[start : start + BATCH] for start in range(0, len(self.pending), BATCH)]

    async def run(self, sessions: StoredSessions) -> None:
        """Score everything pending."""
        for batch in self.batches():
            await self._run_batch(batch, sessions)

    async def _run_batch(self, batch: Sequence[Rescore], sessions: StoredSessions) -> None:
        """What needs nothing but the stored report is scored in a thread, so that calls under way are not delayed."""
        offline, graded = self._split(await asyncio.to_thread(sessions.take, batch))
        await asyncio.to_thread(self._score_offline, offline)
        places = asyncio.Semaphore(GRADED_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for loaded in graded:
                group.create_task(self._score_graded(places, loaded))

    def _split(self, batch: Sequence[_Loaded]) -> tuple[list[_Loaded], list[_Loaded]]:
        """The stored values of a batch: those without and those with evaluators that need a grader client."""
        offline: list[_Loaded] = []
        graded: list[_Loaded] = []
        for loaded in batch:
            (graded if self.scorer.requires_client(loaded[0].plan.case) else offline).append(loaded)
        return offline, graded

    def _score_offline(self, batch: Sequence[_Loaded]) -> None:
        for loaded in batch:
            item = self._input(loaded)
            status = self.scorer.score_offline(item) if self._scores else None
            self._count(loaded[0], status)

    async def _score_graded(self, places: asyncio.Semaphore, loaded: _Loaded) -> None:
        rescore = loaded[0]
        async with places:
            if not rescore.updates and self.context.budget.grading_refusal(rescore.plan.suite) is not None:
                if not rescore.is_earlier:
                    self.ledger.reuse(rescore.plan, rescore.stored)
                return
            item = self._input(loaded)
            status: Status | None = None
            if self._scores:
                status, spent = await self.scorer.score(item)
                self.context.budget.spend(rescore.plan, spent)
            self._count(rescore, status)

    def _count(self, rescore: Rescore, status: Status | None) -> None:
        if rescore.is_earlier:
            self.ledger.counts.earlier += 1
        else:
            self.ledger.rescore(rescore.stored, status, updated=rescore.updates)

    @property
    def _scores(self) -> bool:
        return EVALUATE in self.context.options.stages

    def _input(self, loaded: _Loaded) -> ScoringInput:
        """The report as today's normalizer gives it, and the scores that still hold for it."""
        rescore, execution, report, scores = loaded
        if execution.key != rescore.plan.key:  # stored by an older version
            execution = replace(execution, key=rescore.plan.key)
        case, stored, normalizer = rescore.plan.case, rescore.stored, normalizer_of(execution)
        if report is None or (stored.report_normalizer != normalizer and _has_files(execution)):
            report, scores = self.scorer.report(execution, case), {}
        elif self._scores and self.scorer.has_other_prices(stored):
            report = self.scorer.reprice(report, execution)
            scores = self.scorer.unpriced(case, scores)
        holds = stored.normalizer == normalizer
        return ScoringInput(
            case=case, execution=execution, report=report, sweep_id=stored.sweep_id, scores=scores if holds else {}
        )


def _has_files(execution: Execution) -> bool:
    """Return whether the files that an execution names still exist; without them, its stored report is all there is."""
    return execution.raw is None or all(path.exists() for path in execution.raw.files.values())
