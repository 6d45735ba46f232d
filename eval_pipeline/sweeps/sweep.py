"""Cells → rows: carrying out suites × runners from plan to verdict. No Dagster here, so that the command line, a
Dagster step and a test call the same code.

Per cell: what is known from earlier sweeps is compared with what is wanted now; what is missing is executed, what was
judged by other evaluators is scored anew from stored reports, and everything is folded into the warehouse in one
transaction when the cell is done.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import SimpleQueue

from eval_pipeline.errors import InputError, UnknownName
from eval_pipeline.executions.adapters import ADAPTERS, Adapter
from eval_pipeline.executions.engine import Engine, Lane, SinkResult
from eval_pipeline.executions.model import DEFAULT_CONCURRENCY, Execution, Plan, RawExecution, Runner
from eval_pipeline.executions.workspaces.manager import Workspaces
from eval_pipeline.sweeps.grading import Graders
from eval_pipeline.sweeps.outcomes import PairOutcome, SweepObserver
from eval_pipeline.sweeps.pair_execution import Budget, PairExecution, SweepContext
from eval_pipeline.sweeps.pairs import Pair, SweepOptions
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.replies import Replies
from eval_pipeline.warehouse.store import Warehouse


def carry_out(
    pairs: Sequence[Pair],
    options: SweepOptions,
    *,
    warehouse: Warehouse,
    sweep_id: str,
    observer: SweepObserver | None = None,
    runner_named: Callable[[str], Runner] | None = None,
) -> list[PairOutcome]:
    """Carries out cells and returns what became of them, in the order they finished.

    The sweep runs in a thread of its own: what the caller does with a finished cell holds no call up. A target that
    fails is a row. A cell that we fail to store has an outcome with `error`; the others go on. `runner_named` finds
    graders and fallbacks.
    """
    observer = observer or SweepObserver()
    by_name = {pair.runner.name: pair.runner for pair in pairs}
    context = SweepContext(
        options=options,
        warehouse=warehouse,
        sweep_id=sweep_id,
        observer=observer,
        graders=make_graders(options, warehouse, runner_named or (lambda name: _among(by_name, name))),
        runner_named=runner_named or (lambda name: _among(by_name, name)),
        budget=Budget(options.budget_usd if options.budget_usd is not None else options.defaults.budget_usd),
    )
    for runner in _in_play(pairs, options, context.runner_named):
        context.graders.secrets.update(runner.secrets)
    finished: SimpleQueue[PairOutcome | None] = SimpleQueue()
    running = _InThread(lambda: _Sweep(pairs, context, finished.put).run(), lambda: finished.put(None))
    outcomes: list[PairOutcome] = []
    try:
        while (outcome := finished.get()) is not None:
            outcomes.append(outcome)
            observer.pair_finished(outcome)
    except BaseException:
        running.cancel()
        raise
    running.end()
    return outcomes


def make_graders(options: SweepOptions, warehouse: Warehouse, runner_named: Callable[[str], Runner]) -> Graders:
    """The graders of a sweep."""
    return Graders(
        named=runner_named,
        replies=Replies(warehouse.storage.grader_replies),
        folder=warehouse.storage.grading,
        forced=options.grader,
        default=options.defaults.grader,
    )


def _in_play(pairs: Sequence[Pair], options: SweepOptions, runner_named: Callable[[str], Runner]) -> Iterator[Runner]:
    """Every runner that a sweep may start: those of its cells, and whom they name to help out or to grade."""
    helpers = {options.grader, options.defaults.grader}
    for runner in {pair.runner.name: pair.runner for pair in pairs}.values():
        yield runner
        helpers |= {runner.grader, *runner.fallbacks}
    for name in helpers - {None}:
        with suppress(InputError):  # one that is not there is said where it is needed
            yield runner_named(str(name))


def _among(runners: dict[str, Runner], name: str) -> Runner:
    if name not in runners:
        raise UnknownName("runner", name, runners)
    return runners[name]


class _InThread:
    """A coroutine on an event loop in a thread of its own; `ended` is called there at the end, however it comes."""

    def __init__(self, main: Callable[[], object], ended: Callable[[], None]) -> None:
        self._main = main
        self._ended = ended
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweep", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Waits for the end; raises what the coroutine raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        """Cancels the coroutine and waits until it has let everything go."""
        self._begun.wait()
        if self._loop is not None and self._task is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._carry_out())
        except BaseExceptionGroup as group:
            self._error = _first_of(group)
        except BaseException as error:  # noqa: BLE001 — raised again where it is waited for
            self._error = error
        finally:
            self._begun.set()
            self._ended()

    async def _carry_out(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._begun.set()
        await self._main()  # type: ignore[misc]


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended a sweep: its tasks are ours, so the first one tells it all."""
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, BaseExceptionGroup) else first


class _Sweep:
    """One sweep while it runs: a lane per runner, and cells being stored as they finish."""

    def __init__(self, pairs: Sequence[Pair], context: SweepContext, told: Callable[[PairOutcome], None]) -> None:
        self._context = context
        self._options = context.options
        self._told = told
        self._runs = [PairExecution(pair, context) for pair in pairs]
        self._by_name = {run.pair.name: run for run in self._runs}
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
            await self._context.graders.close()
            for run in self._runs:
                run.close()

    async def _carry_out(self, engine: Engine) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._store_finished())
            group.create_task(engine.carry_out(self._lanes()))

    def _engine(self, workspaces: Workspaces) -> Engine:
        return Engine(
            sink=self._sink,
            folder_of=lambda plan: self._run_of(plan).folder_of(plan),
            concurrency=self._options.concurrency,
            on_start=self._context.observer.plan_started,
            refuse=lambda plan: self._run_of(plan).refuse(plan),
            workspaces=workspaces,
            conversations=self,
        )

    def answer(self, plan: Plan, raw: RawExecution) -> str:
        """See executions.conversations."""
        return self._run_of(plan).answer(plan, raw)

    async def should_continue(self, plan: Plan, so_far: RawExecution) -> bool:
        """See executions.conversations."""
        return await self._run_of(plan).should_continue(plan, so_far)

    def _run_of(self, plan: Plan) -> PairExecution:
        return self._by_name[PairKey(plan.suite, plan.runner.name)]

    def _lanes(self) -> list[Lane]:
        by_runner: dict[str, list[PairExecution]] = {}
        for run in self._runs:
            by_runner.setdefault(run.pair.runner.name, []).append(run)
        return [self._lane(runs) for runs in by_runner.values()]

    def _lane(self, runs: list[PairExecution]) -> Lane:
        runner = runs[0].pair.runner
        asked = [run.pair.ready.suite.settings.concurrency for run in runs]
        by_suites = min((limit for limit in asked if limit is not None), default=None)
        said = (runner.concurrency, self._options.concurrency, by_suites, self._options.defaults.concurrency)
        return Lane(
            runner=runner,
            adapter=_adapter(runner),
            plans=_LanePlans(runs, self._finish_if_over),
            concurrency=next((limit for limit in said if limit), DEFAULT_CONCURRENCY),
            fallbacks=[(other, _adapter(other)) for other in map(self._context.runner_named, runner.fallbacks)],
        )

    async def _sink(self, plan: Plan, execution: Execution) -> SinkResult:
        run = self._run_of(plan)
        taken = SinkResult(None, passed=False)
        try:
            taken = await run.take(plan, execution)
        except Exception as error:  # noqa: BLE001 — a cell that cannot be written must not take the others along
            run.fault = run.fault or error
        finally:
            run.under_way -= 1
            self._finish_if_over(run)
        return taken

    def _finish_if_over(self, run: PairExecution) -> None:
        if run.over and run.pair.name not in self._finished:
            self._finished.add(run.pair.name)
            self._done.put_nowait(run)

    async def _store_finished(self) -> None:
        """Stores each cell as it finishes."""
        for _ in self._runs:
            run = await self._done.get()
            self._told(await run.finish())


class _LanePlans:
    """The plans of a lane that need the target, cell after cell. It may run out and have more later: plans that wait
    for others begin when those are settled."""

    def __init__(self, runs: list[PairExecution], looked_at: Callable[[PairExecution], None]) -> None:
        self._open = list(runs)
        self._looked_at = looked_at

    def __iter__(self) -> Iterator[Plan]:
        return self

    def __next__(self) -> Plan:
        for run in list(self._open):
            plan = self._next_of(run)
            if plan is not None:
                run.under_way += 1
                return plan
            self._looked_at(run)
            if run.over:
                self._open.remove(run)
        raise StopIteration

    @staticmethod
    def _next_of(run: PairExecution) -> Plan | None:
        try:
            return run.next_plan()
        except Exception as error:  # noqa: BLE001 — a cell whose past cannot be read must not take the others along
            run.fault = run.fault or error
            return None


def _adapter(runner: Runner) -> Adapter:
    return ADAPTERS.get(runner.adapter)(runner)
