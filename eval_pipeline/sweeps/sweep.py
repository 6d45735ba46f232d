"""Pairs → rows: carrying out suites × runners from plan to verdict. No Dagster here, so that the command line, a
Dagster step and a test call the same code.

For each plan of a pair: what earlier sweeps stored decides whether it is reused, executed, or scored again from its
stored report. Finished pairs are stored in the warehouse, several in one transaction when several are done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

from eval_pipeline.errors import InputError, UnknownName
from eval_pipeline.executions.adapters import ADAPTERS, Adapter
from eval_pipeline.executions.attempts import Clock
from eval_pipeline.executions.conversations import Conversations
from eval_pipeline.executions.engine import Engine, Lane, SinkResult
from eval_pipeline.executions.model import Execution, Plan, Runner, RunnerNamed
from eval_pipeline.executions.pauses import NO_PAUSES
from eval_pipeline.executions.provider_limits import ProviderGates
from eval_pipeline.executions.workers import workers_in_use
from eval_pipeline.executions.workspaces.manager import Workspaces
from eval_pipeline.reports.session_ends import session_end
from eval_pipeline.stopping import StopRequest
from eval_pipeline.sweeps.background_loop import BackgroundLoop
from eval_pipeline.sweeps.budget import NO_SPENDING, Budget, Spending
from eval_pipeline.sweeps.claimed_pairs import in_claimed_groups
from eval_pipeline.sweeps.concurrency import most_at_once
from eval_pipeline.sweeps.context import SweepContext
from eval_pipeline.sweeps.costs import earlier_costs, open_budget
from eval_pipeline.sweeps.grading import Graders
from eval_pipeline.sweeps.history import StoredHistory
from eval_pipeline.sweeps.lane_plans import LanePlans
from eval_pipeline.sweeps.live_progress import live_progress
from eval_pipeline.sweeps.month_budgets import MonthBudget, month_budget
from eval_pipeline.sweeps.old_verdicts import deciding, pairs_to_decide
from eval_pipeline.sweeps.options import EVALUATE, SweepOptions
from eval_pipeline.sweeps.order import OrderClock
from eval_pipeline.sweeps.outcomes import PairOutcome, SweepObserver
from eval_pipeline.sweeps.pair_execution import PairExecution
from eval_pipeline.sweeps.pairs import Pair, executes, incomplete_rules
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.rescoring import StoredSessions
from eval_pipeline.sweeps.snapshot_checks import NO_SNAPSHOTS, SnapshotChecks, snapshot_settings
from eval_pipeline.sweeps.storing import FinishedPair, failed_outcome, store_pairs
from eval_pipeline.sweeps.storing_pace import StoringPace
from eval_pipeline.sweeps.unfinished import unfinished_refreshes
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.journal_lines import UnwritableJournal
from eval_pipeline.warehouse.queries import pairs_with_answers_before
from eval_pipeline.warehouse.replies import Replies
from eval_pipeline.warehouse.spending import spent_by
from eval_pipeline.warehouse.store import Warehouse, kept_open
from eval_pipeline.warehouse.stored_pairs import retried_answers

_LOG = logging.getLogger(__name__)


def carry_out(
    pairs: Sequence[Pair],
    options: SweepOptions,
    *,
    warehouse: Warehouse,
    sweep_id: str,
    observer: SweepObserver | None = None,
    runner_named: RunnerNamed | None = None,
    clock: OrderClock | None = None,
    stop: StopRequest | None = None,
    month: MonthBudget | None = None,
    before: Spending = NO_SPENDING,
    snapshots: SnapshotChecks = NO_SNAPSHOTS,
) -> list[PairOutcome]:
    """Carry out pairs and return what became of them, in the order they finished. Raises Stopped after `stop`.

    The sweep runs in a thread of its own: what the caller does with finished pairs delays no call. A target that fails
    is a row. A pair that we fail to store has an outcome with `error`; the others go on. `runner_named` finds graders
    and fallbacks; `clock` orders what is stored; `month` is the budget of the sweep's month,
    `before` what the sweep spent in other processes; `snapshots` compares tokens with baselines.
    """
    observer, stop = observer or SweepObserver(), stop or StopRequest()
    with kept_open(warehouse):
        if clock is None:
            clock = OrderClock()
            clock.follow(warehouse)
        stop.check()
        budget = open_budget(pairs, options, earlier_costs(pairs, warehouse), month, before)
        own = None if warehouse.leases is None else warehouse.leases.of(sweep_id)
        if own is not None and budget.is_limited:
            own.spending.share(budget.totals, budget.see, {} if month is None else {month.account: month.by_sweep})
        context = _open_context(pairs, options, warehouse, sweep_id, observer, runner_named, clock, budget)
        context = replace(context, snapshots=snapshots, pace=StoringPace(is_shared=own is not None))
        finished: SimpleQueue[list[PairOutcome] | None] = SimpleQueue()
        running = BackgroundLoop(lambda: _run(pairs, context, finished.put), lambda: finished.put(None))
        outcomes: list[PairOutcome] = []
        try:
            with workers_in_use(options.defaults.max_memory_mb), stop.calling(lambda: finished.put(None)):
                for group in _as_they_finish(finished):
                    outcomes += group
                    observer.pairs_finished(group)
                    if taken := [each for outcome in group for each in outcome.snapshots]:
                        observer.snapshots_taken(taken)
            stop.check()
        except BaseException:
            running.cancel()
            raise
        running.end()
        return outcomes


def run_recorded(
    session: ProjectSession,
    pairs: Sequence[Pair],
    options: SweepOptions,
    dagster_run_id: str | None,
    observer: SweepObserver,
    joined: str | None = None,
) -> list[PairOutcome]:
    """Carry out pairs as a sweep that is recorded from begin to end; what it stored is published at its end.

    `joined` is a sweep that another process began and will end: these pairs are a part of it. Raises
    InputError before anything runs for token snapshots that cannot be compared.
    """
    snapshots = SnapshotChecks(snapshot_settings((pair.ready.suite for pair in pairs), session.project))
    month = month_budget(session.project, session.warehouse, options.sweep) if options.sweep is not None else None
    if joined is None and month is not None and month.doubt is not None:
        _LOG.warning("%s", month.doubt)
    store, before = session.store, _spent_before(session, joined)
    with store.recorded(pairs, options, dagster_run_id) if joined is None else store.joined(joined) as sweep_id:
        observer.sweep_started(sweep_id)
        with live_progress(session.warehouse.storage.progress, sweep_id, len(pairs), observer) as live:
            return carry_out(
                pairs,
                options,
                warehouse=session.warehouse,
                sweep_id=sweep_id,
                observer=live,
                runner_named=session.runner,
                clock=session.clock,
                stop=session.stop,
                month=month,
                before=before,
                snapshots=snapshots,
            )


def _spent_before(session: ProjectSession, joined: str | None) -> Spending:
    """Return what other processes of a sweep have spent; where they share limits, those say it."""
    if joined is None or session.warehouse.leases is not None:
        return NO_SPENDING
    spent = spent_by(session.warehouse, joined)
    return Spending(spent.usd, spent.attempts, spent.tokens)


def _open_context(
    pairs: Sequence[Pair],
    options: SweepOptions,
    warehouse: Warehouse,
    sweep_id: str,
    observer: SweepObserver,
    runner_named: RunnerNamed | None,
    clock: OrderClock,
    budget: Budget,
) -> SweepContext:
    by_name = {pair.runner.name: pair.runner for pair in pairs}
    find = runner_named or (lambda name, place: _among(by_name, name))
    context = SweepContext(
        options=options,
        warehouse=warehouse,
        sweep_id=sweep_id,
        observer=observer,
        graders=make_graders(options, warehouse, find),
        runner_named=find,
        unfinished=unfinished_refreshes(warehouse, options, sweep_id),
        budget=budget,
        clock=clock,
    )
    _report_unfinished(context, pairs)
    for runner in _in_play(pairs, options, find):
        context.graders.secrets.update(runner.secrets)
    return context


def _report_unfinished(context: SweepContext, pairs: Sequence[Pair]) -> None:
    """Warn before money is spent on what an interrupted refresh left."""
    if not executes(context.options) or context.options.refresh == "all":
        return
    for refresh in context.unfinished:
        covered = [pair.name for pair in pairs if refresh.covers_pair(pair.name)]
        if pairs_with_answers_before(context.warehouse, refresh.sweep_id, covered):
            _LOG.warning(
                "executing what the interrupted --refresh all %s did not reach; --abandon-refresh keeps older answers",
                refresh.sweep_id,
            )


def _as_they_finish(finished: SimpleQueue[list[PairOutcome] | None]) -> Iterator[list[PairOutcome]]:
    """Everything that finished since the last time, until the end of the sweep."""
    ended = False
    while not ended:
        groups = [finished.get()]
        while not finished.empty():
            groups.append(finished.get())
        ended = groups[-1] is None
        outcomes = [outcome for group in groups if group is not None for outcome in group]
        if outcomes:
            yield outcomes


def make_graders(options: SweepOptions, warehouse: Warehouse, runner_named: RunnerNamed) -> Graders:
    """Return the graders of a sweep."""
    pauses = NO_PAUSES if warehouse.leases is None else warehouse.leases.pauses
    return Graders(
        named=runner_named,
        replies=Replies(warehouse.storage.grader_replies, warehouse.shared_files),
        folder=warehouse.storage.grading,
        forced=options.grader,
        default=options.defaults.grader,
        pauses=pauses,
        gates=ProviderGates(options.defaults.providers, pauses),
        concurrency=options.concurrency or options.defaults.concurrency,
    )


def _in_play(pairs: Sequence[Pair], options: SweepOptions, runner_named: RunnerNamed) -> Iterator[Runner]:
    """Every runner that a sweep may start: those of its pairs, their fallbacks and their graders."""
    for runner in {(pair.runner.name, pair.runner.place): pair.runner for pair in pairs}.values():
        yield runner
        helpers = {
            options.grader,
            options.defaults.grader,
            options.simulator,
            options.defaults.simulator,
            runner.grader,
        }
        for name in {*helpers, *runner.fallbacks} - {None}:
            with suppress(InputError):  # an unknown one is reported where it is needed
                yield runner_named(str(name), runner.place)


def _among(runners: dict[str, Runner], name: str) -> Runner:
    if name not in runners:
        raise UnknownName("runner", name, runners)
    return runners[name]


async def _run(pairs: Sequence[Pair], context: SweepContext, report: Callable[[list[PairOutcome]], None]) -> None:
    """Carry out a sweep: all pairs at once, in a shared warehouse those that no other machine carries out."""
    leases = context.warehouse.leases
    own = None if leases is None else leases.of(context.sweep_id)
    if own is None:
        await _run_pairs(pairs, context, report)
        return
    reuses = context.options.refresh == "missing"
    await in_claimed_groups(own, pairs, lambda group, note: _run_pairs(group, context, note), report, reuses=reuses)


async def _run_pairs(pairs: Sequence[Pair], context: SweepContext, report: Callable[[list[PairOutcome]], None]) -> None:
    """Carry out pairs, after verdicts of evaluators that are others now where they tell what it executes."""
    old = await asyncio.to_thread(pairs_to_decide, pairs, context)
    decided: list[PairOutcome] = []
    if old:
        await _Sweep(old, deciding(context), decided.extend).run()
    failed = [outcome for outcome in decided if outcome.error is not None]
    if failed:  # old verdicts would tell what is executed
        report(failed)
    without = {outcome.pair.name for outcome in failed}
    await _Sweep([pair for pair in pairs if pair.name not in without], context, report).run()


class _Sweep:
    """One sweep while it runs: a lane per runner, and pairs that are stored as they finish."""

    def __init__(
        self, pairs: Sequence[Pair], context: SweepContext, report: Callable[[list[PairOutcome]], None]
    ) -> None:
        self._context = context
        self._options = context.options
        self._report = report
        lanes = _by_runner(pairs)
        history = StoredHistory(
            context.warehouse, (pair for lane in lanes for pair in lane), context.sweep_id, context.clock
        )
        self._lanes = [[PairExecution(pair, context, history) for pair in lane] for lane in lanes]
        self._by_name = {execution.pair.name: execution for lane in self._lanes for execution in lane}
        self._finished: set[PairKey] = set()
        self._done: asyncio.Queue[PairExecution] = asyncio.Queue()

    async def run(self) -> None:
        defaults = self._options.defaults
        folder = self._context.warehouse.storage.workspaces
        try:
            async with Workspaces(
                folder, self._context.sweep_id, keep=defaults.keep_workspaces, pool_slots=defaults.pool_slots
            ) as workspaces:
                await self._carry_out(self._engine(workspaces))
        finally:
            for execution in self._by_name.values():
                if execution.pair.contents is not None:
                    await asyncio.to_thread(execution.pair.contents.end)
            await self._context.graders.close()
            for execution in self._by_name.values():
                execution.recorder.journal.close()

    async def _carry_out(self, engine: Engine) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._store_finished())
            group.create_task(engine.carry_out([self._lane(executions) for executions in self._lanes]))

    def _engine(self, workspaces: Workspaces) -> Engine:
        return Engine(
            sink=self._sink,
            folder_of=lambda plan: self._execution_of(plan).recorder.folder_of(plan),
            clock=replace(Clock.real(), now=self._context.clock.wall),
            concurrency=self._options.concurrency or self._options.defaults.concurrency,
            on_start=self._start,
            falls_back=lambda plan: self._execution_of(plan).falls_back(plan),
            refuse=lambda plan, attempts: self._execution_of(plan).refuse(plan, attempts),
            hold=self._context.budget.hold,
            batches=not self._context.budget.is_limited,
            workspaces=workspaces,
            ending=session_end,
            pauses=self._context.graders.pauses,
            gates=self._context.graders.gates,
            conversations=Conversations(
                speaker=lambda call: self._execution_of(call.plan).speaker(call),
                answer=lambda plan, raw, runner: self._execution_of(plan).turns.answer(plan, raw, runner),
                log=lambda call: self._execution_of(call.plan).log(call),
                turn_started=self._context.observer.turn_started,
            ),
        )

    def _start(self, plan: Plan) -> None:
        """Report that a plan begins; a static folder that its target works in is recorded first."""
        contents, workspace = self._execution_of(plan).pair.contents, plan.case.workspace
        if contents is not None and workspace is not None:
            contents.begin(workspace)
        self._context.observer.plan_started(plan)

    def _execution_of(self, plan: Plan) -> PairExecution:
        return self._by_name[PairKey(plan.suite, plan.runner.name)]

    def _lane(self, executions: list[PairExecution]) -> Lane:
        runner = executions[0].pair.runner
        adapter = _adapter(runner)
        usual = most_at_once(runner, adapter, self._options)
        by_suite = [execution.pair.ready.suite.settings.concurrency or usual for execution in executions]
        if not getattr(adapter, "batches", False):  # a batch is one call of the target
            for execution, most in zip(executions, by_suite, strict=True):
                execution.most_under_way = most
        return Lane(
            runner=runner,
            adapter=adapter,
            plans=LanePlans(executions, self._finish_if_over),
            concurrency=runner.concurrency or self._options.concurrency or max(by_suite),
            fallbacks=[(other, _adapter(other)) for other in self._fallbacks(runner)],
        )

    def _fallbacks(self, runner: Runner) -> Iterator[Runner]:
        return (self._context.runner_named(name, runner.place) for name in runner.fallbacks)

    async def _sink(self, plan: Plan, execution: Execution) -> SinkResult:
        pair = self._execution_of(plan)
        result = SinkResult(passed=False)
        try:
            result = await pair.take(plan, execution)
        except Exception as error:  # noqa: BLE001 — a pair that cannot be written must not stop the others
            pair.fault = pair.fault or error
            if isinstance(error, UnwritableJournal):
                self._stop(error)
        finally:
            self._context.budget.release(plan)
            pair.under_way -= 1
            self._finish_if_over(pair)
        return result

    def _stop(self, error: UnwritableJournal) -> None:
        """Execute nothing more in any pair: answers that cannot be written cost money for nothing."""
        for execution in self._by_name.values():
            if execution.pair.name not in self._finished:
                execution.fault = execution.fault or error
                self._finish_if_over(execution)

    def _finish_if_over(self, execution: PairExecution) -> None:
        if execution.over and execution.pair.name not in self._finished:
            self._finished.add(execution.pair.name)
            self._done.put_nowait(execution)

    async def _store_finished(self) -> None:
        """Store pairs as they finish; those that finish while others are being stored go together."""
        stored, pace = 0, self._context.pace
        while stored < len(self._by_name):
            done = await pace.finished_together(self._done, len(self._by_name) - stored)
            stored += len(done)
            await asyncio.to_thread(self._find_earlier, done)
            with pace.storing():
                await self._store([execution for execution in done if not execution.rescorer.pending])
            await self._store([execution for execution in done if execution.rescorer.pending])

    def _find_earlier(self, executions: Sequence[PairExecution]) -> None:
        """Find the earlier answers to retried plans: boards count them, so they need a verdict of today."""
        retried = [execution for execution in executions if execution.retried and execution.fault is None]
        if not retried or EVALUATE not in self._options.stages:
            return
        firsts = [first for execution in retried for first in execution.retried]
        try:
            rules = incomplete_rules(execution.pair for execution in retried)
            answers = retried_answers(self._context.warehouse, rules, firsts)
            for execution in retried:
                execution.rescore_earlier(answers[execution.pair.name])
        except Exception as error:  # noqa: BLE001 — the rest of the sweep is stored all the same
            for execution in retried:
                execution.fault = error

    async def _store(self, executions: list[PairExecution]) -> None:
        batches = [batch for execution in executions for batch in execution.rescorer.batches()]
        sessions = StoredSessions(self._context.warehouse, batches)
        for execution in executions:
            await execution.rescore(sessions)
        failed = [
            failed_outcome(execution.rules, execution.ledger, execution.fault)
            for execution in executions
            if execution.fault is not None
        ]
        if failed:
            self._report(failed)
        usable = [
            FinishedPair(rules=execution.rules, ledger=execution.ledger, journal=execution.recorder.journal)
            for execution in executions
            if execution.fault is None
        ]
        context = self._context
        groups = store_pairs(context.warehouse, context.sweep_id, usable, context.clock, context.snapshots)
        while (group := await asyncio.to_thread(next, groups, None)) is not None:
            self._report(group)


def _by_runner(pairs: Sequence[Pair]) -> list[list[Pair]]:
    lanes: dict[tuple[str, Path], list[Pair]] = {}
    for pair in pairs:
        lanes.setdefault((pair.runner.name, pair.runner.folder), []).append(pair)
    return list(lanes.values())


def _adapter(runner: Runner) -> Adapter:
    return ADAPTERS.get(runner.adapter)(runner)
