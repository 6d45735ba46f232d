"""Plans → Executions: scheduling of attempts. Concurrency, retries, budget, fallbacks and cancellation.

One lane per runner; all lanes run concurrently under a global limit. A lane starts an attempt whenever its limit has a
free slot; a retry waits for its delay outside the slot. Each finished execution goes to the sink immediately, also
outside the slot; the sink returns its cost. The number of plans started but not finished is bounded separately, so that
a fast target with a slow sink does not accumulate executions and workspaces. This module does not depend on tables or
scores.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from eval_pipeline.executions.adapters import Adapter, Call
from eval_pipeline.executions.attempts import (
    AttemptEnvironment,
    Attempts,
    Clock,
    Ending,
    PlanState,
    Workspaces,
    attempt_record,
    build_execution,
    time_limit_s,
)
from eval_pipeline.executions.conversations import Conversations
from eval_pipeline.executions.limits import AdaptiveLimit
from eval_pipeline.executions.model import DEFAULT_CONCURRENCY, Execution, Plan, RawExecution, Runner, TargetFailure
from eval_pipeline.executions.pauses import NO_PAUSES, Pauses, limit_of
from eval_pipeline.executions.provider_limits import NO_GATES, ProviderGates
from eval_pipeline.failures import ADAPTER, STOPPED, TIMEOUT
from eval_pipeline.parsing.redacted_files import redact_files
from eval_pipeline.parsing.redaction import redact

_LOG = logging.getLogger(__name__)
STARTED_PER_SLOT = 4
MIN_STARTED = 16
ExecuteBatch = Callable[[Sequence[Call]], Awaitable[list[RawExecution | TargetFailure]]]


class SinkResult(NamedTuple):
    """The sink's result for an execution: whether its plan passed."""

    passed: bool = True


class Sink(Protocol):
    """Takes each finished execution and makes it durable. The workspace is released afterwards."""

    async def __call__(self, plan: Plan, execution: Execution) -> SinkResult: ...


@dataclass(slots=True, kw_only=True)
class Lane:
    """The work of one runner: its adapter, its plans in order, and its concurrency.

    An exhausted `plans` is polled again after every finished execution, because dependent plans are added later.
    `fallbacks` are tried in order, once each, after the runner's own attempts failed; their concurrency is their
    runner's, else the lane's.
    """

    runner: Runner
    adapter: Adapter
    plans: Iterator[Plan]
    concurrency: int = DEFAULT_CONCURRENCY
    fallbacks: Sequence[tuple[Runner, Adapter]] = ()


class Engine:
    """Executes lanes. `folder_of(plan)` returns the folder for an execution's files.

    `refuse(plan, attempts)` returns the reason why a plan must no longer be executed, after so many attempts at it, or
    None. `falls_back(plan)` returns whether fallbacks are called when the runner failed. `hold(plan)` returns what to
    wait for before a plan begins (it is then called again), None when it may begin. `ending(plan, raw)` returns the
    failure that a target's output reports, where its exit code does not show it.
    `pauses` are those that providers asked of anyone, `gates` the limits that are set for providers.
    Without `batches` even a target that takes batches gets its cases one by one.
    """

    def __init__(
        self,
        *,
        sink: Sink,
        folder_of: Callable[[Plan], Path],
        concurrency: int | None = None,
        clock: Clock | None = None,
        on_start: Callable[[Plan], None] = lambda plan: None,
        refuse: Callable[[Plan, int], TargetFailure | None] = lambda plan, attempts: None,
        falls_back: Callable[[Plan], bool] = lambda plan: True,
        hold: Callable[[Plan], Awaitable[None] | None] = lambda plan: None,
        batches: bool = True,
        workspaces: Workspaces | None = None,
        conversations: Conversations | None = None,
        ending: Ending | None = None,
        pauses: Pauses = NO_PAUSES,
        gates: ProviderGates = NO_GATES,
    ) -> None:
        self._sink = sink
        self._slots = asyncio.Semaphore(concurrency) if concurrency else None
        self.refusal = refuse
        self.falls_back = falls_back
        self.hold = hold
        self.batches = batches
        self.environment = AttemptEnvironment(
            folder_of=folder_of,
            workspaces=workspaces,
            conversations=conversations,
            ending=ending,
            pauses=pauses,
            gates=gates,
        )
        self.clock = clock or Clock.real()
        self.started = on_start

    async def carry_out(self, lanes: list[Lane]) -> None:
        """Execute every plan of every lane. Cancellation stops all attempts and leaves no child process."""
        async with asyncio.TaskGroup() as group:
            for lane in lanes:
                group.create_task(_LaneRun(self, lane).run(), name=f"lane {lane.runner.name}")

    async def acquire(self) -> None:
        if self._slots is not None:
            await self._slots.acquire()

    def release(self) -> None:
        if self._slots is not None:
            self._slots.release()

    async def finish(self, state: PlanState, execution: Execution) -> None:
        """Pass an execution to the sink, then release its workspace."""
        passed = False
        try:
            if state.lease is not None:
                execution = replace(execution, workspace=await state.lease.trace())
            sink_result = await self._sink(state.plan, execution)
            passed = sink_result.passed
        finally:
            await Attempts.release(state, failed=not passed)


class _LaneRun:
    """A running lane: its pending retries and running attempts."""

    def __init__(self, engine: Engine, lane: Lane) -> None:
        self._engine = engine
        self._lane = lane
        self._clock = engine.clock
        self._limit = _limit_of(engine, lane.runner, lane.concurrency)
        self._attempts = Attempts(lane.runner, lane.adapter, self._limit, engine.clock, engine.environment)
        self._fallbacks = [(runner, self._attempts_of(runner, adapter)) for runner, adapter in lane.fallbacks]
        self._max_started = max(STARTED_PER_SLOT * lane.concurrency, MIN_STARTED)
        self._retries: list[tuple[float, int, PlanState]] = []
        self._retry_number = 0
        self._running = 0
        self._changed = asyncio.Event()
        self._first_alone = getattr(lane.adapter, "first_alone", False)
        self._closed: TargetFailure | None = None

    async def run(self) -> None:
        try:
            await self._run_batches()
            async with asyncio.TaskGroup() as group:
                while True:
                    await self._acquire()
                    state = self._next_plan()
                    if state is not None:
                        self._running += 1
                        group.create_task(self._attempt(state))
                        continue
                    self._release()
                    if not self._running and not self._retries:
                        return
                    await self._wait_for_change()
        finally:
            for attempts in (self._attempts, *(attempts for _, attempts in self._fallbacks)):
                await attempts.close()

    def _attempts_of(self, runner: Runner, adapter: Adapter) -> Attempts:
        limit = _limit_of(self._engine, runner, runner.concurrency or self._lane.concurrency)
        return Attempts(runner, adapter, limit, self._clock, self._engine.environment)

    async def _acquire(self) -> None:
        # The lane's slot comes first: a throttled lane must not hold a global slot while it waits.
        await self._limit.acquire()
        try:
            await self._engine.acquire()
        except asyncio.CancelledError:
            self._limit.release()
            raise

    def _release(self) -> None:
        self._engine.release()
        self._limit.release()

    def _next_plan(self) -> PlanState | None:
        """Return a due retry, else a new plan, unless too many started plans are unfinished."""
        if self._retries and self._retries[0][0] <= self._clock.monotonic():
            return heapq.heappop(self._retries)[2]
        if self._running + len(self._retries) >= (1 if self._first_alone else self._max_started):
            return None
        plan = next(self._lane.plans, None)
        return PlanState(plan) if plan is not None else None

    async def _wait_for_change(self) -> None:
        """Wait until an attempt ends or the next retry is due."""
        self._changed.clear()
        due_in = self._retries[0][0] - self._clock.monotonic() if self._retries else None
        if due_in is not None and due_in <= 0:
            return
        try:
            async with asyncio.timeout(due_in):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _attempt(self, state: PlanState) -> None:
        try:
            await self._wait_to_begin(state)
            try:
                outcome = await self._attempt_once(state)
            finally:
                self._release()
            if outcome is not None:
                await self._engine.finish(state, outcome)
                await self._attempts.end_talk(state)
        finally:
            await Attempts.release(state, failed=True)
            self._running -= 1
            self._changed.set()

    async def _wait_to_begin(self, state: PlanState) -> None:
        """Wait until the plan may begin, without a slot: those that it waits for need it."""
        while not state.attempts and (wait := self._engine.hold(state.plan)) is not None:
            self._release()
            await wait
            await self._acquire()

    async def _attempt_once(self, state: PlanState) -> Execution | None:
        """Return the finished execution, or None when a retry is scheduled."""
        closed = self._closed if not state.attempts else None
        refusal = closed or self._engine.refusal(state.plan, len(state.attempts))
        if refusal is not None:
            return build_execution(state, refusal, self._clock.now())
        if not state.attempts:
            self._engine.started(state.plan)
        result = await self._attempts.attempt(state)
        self._note_end(result)
        delay_s = self._attempts.delay_before_next(state, result)
        if delay_s is not None:
            await Attempts.release(state, restore=True)  # other plans may use it during the delay
            self._schedule_retry(state, delay_s)
            return None
        if isinstance(result, TargetFailure) and self._fallbacks and self._engine.falls_back(state.plan):
            return await self._fall_back(state, result)
        return self._attempts.execution(state, result)

    def _note_end(self, result: RawExecution | TargetFailure) -> None:
        """Close the lane after a failure that all its plans would share; else let others run beside the first."""
        if isinstance(result, TargetFailure) and result.closes_runner and self._closed is None:
            name = self._lane.runner.name
            self._closed = TargetFailure(STOPPED, f"not executed: an earlier session of '{name}' failed: {result}")
        self._first_alone = False
        self._changed.set()

    def _schedule_retry(self, state: PlanState, delay_s: float) -> None:
        self._retry_number += 1  # breaks ties in the heap: a PlanState is not comparable
        heapq.heappush(self._retries, (self._clock.monotonic() + delay_s, self._retry_number, state))

    async def _fall_back(self, state: PlanState, result: RawExecution | TargetFailure) -> Execution:
        """Return the first successful fallback's execution, or the last failure."""
        answered_by = None
        for runner, attempts in self._fallbacks:
            result, answered_by = await attempts.acquire_and_attempt(state), runner.name
            if not isinstance(result, TargetFailure):
                break
        return replace(self._attempts.execution(state, result), answered_by=answered_by)

    async def _run_batches(self) -> None:
        """Run all plans of an adapter that supports batches. Plans of a failed batch run one by one afterwards."""
        execute_batch = getattr(self._lane.adapter, "execute_batch", None)
        if execute_batch is None or not (self._engine.batches and getattr(self._lane.adapter, "batches", False)):
            return
        plans = list(self._lane.plans)
        remaining = [plan for plan in plans if not _is_batchable(plan)]
        for batch in _batches(plan for plan in plans if _is_batchable(plan)):
            states = await self._start_all(batch)
            results = await self._batch(execute_batch, states) if states else []
            if results is None:
                remaining += [state.plan for state in states]
                continue
            await self._finish_all(states, results)
        self._lane.plans = _PlanQueue(remaining, self._lane.plans)

    async def _batch(
        self, execute_batch: ExecuteBatch, states: list[PlanState]
    ) -> list[RawExecution | TargetFailure] | None:
        """Return one result per plan, or None when the whole batch failed."""
        calls = [self._call(state) for state in states]
        await self._engine.acquire()
        try:
            async with self._engine.environment.gates.turn(self._lane.runner):
                started_at, started = self._clock.now(), self._clock.monotonic()
                results = await _execute_timed(execute_batch, calls)
        except Exception as error:  # noqa: BLE001 — the boundary to adapters; the cases then run one by one
            message = redact(f"{type(error).__name__}: {error}", self._lane.runner.secrets)
            _LOG.warning("batch of runner '%s' failed: %s", self._lane.runner.name, message)
            return None
        finally:
            self._engine.release()
            await self._clean(calls)
        share_ms = (self._clock.monotonic() - started) * 1000 / len(states)
        for state, result in zip(states, results, strict=True):
            failure = result if isinstance(result, TargetFailure) else None
            state.attempts.append(attempt_record(started_at, share_ms, failure))
        return results

    def _call(self, state: PlanState) -> Call:
        timeout_s = time_limit_s(state.plan.case, self._lane.runner, self._lane.adapter)
        return Call(plan=state.plan, attempt=1, timeout_s=timeout_s, files=_files(self._engine, state))

    async def _clean(self, calls: Sequence[Call]) -> None:
        """Redact secrets in the files of a batch, which are in the folder of its first case."""
        await asyncio.to_thread(redact_files, calls[0].files(), self._lane.runner.secrets)

    async def _finish_all(self, states: Sequence[PlanState], results: Sequence[RawExecution | TargetFailure]) -> None:
        """Pass the executions of a batch to the sink concurrently, because each may wait for its grades."""
        slots = asyncio.Semaphore(self._max_started)
        async with asyncio.TaskGroup() as group:
            for state, result in zip(states, results, strict=True):
                await slots.acquire()
                execution = build_execution(state, result, self._clock.now())
                task = group.create_task(self._engine.finish(state, execution))
                task.add_done_callback(lambda _: slots.release())

    async def _start_all(self, plans: Sequence[Plan]) -> list[PlanState]:
        states = []
        for plan in plans:
            state = PlanState(plan)
            refusal = self._engine.refusal(plan, 0)
            if refusal is not None:
                await self._engine.finish(state, build_execution(state, refusal, self._clock.now()))
                continue
            self._engine.started(plan)
            states.append(state)
        return states


async def _execute_timed(execute_batch: ExecuteBatch, calls: Sequence[Call]) -> list[RawExecution | TargetFailure]:
    """Execute a batch within the sum of its calls' time limits."""
    limit = asyncio.timeout(sum(call.timeout_s for call in calls))
    try:
        async with limit:
            answers = await execute_batch(calls)
    except TimeoutError as error:
        if limit.expired():
            raise TargetFailure(TIMEOUT, "no answers within the time that its cases have together") from error
        raise
    if len(answers) != len(calls):
        raise TargetFailure(ADAPTER, f"{len(answers)} answers to {len(calls)} cases")
    return answers


def _files(engine: Engine, state: PlanState) -> Callable[[], Path]:
    return lambda: engine.environment.folder_of(state.plan)


def _is_batchable(plan: Plan) -> bool:
    return plan.case.workspace is None and not plan.case.is_conversation


def _batches(plans: Iterable[Plan]) -> Iterable[list[Plan]]:
    """Group plans by suite and repetition, because within one group a case id is unique."""
    groups: dict[tuple[str, int], list[Plan]] = {}
    for plan in plans:
        groups.setdefault((plan.suite, plan.repetition), []).append(plan)
    return groups.values()


class _PlanQueue:
    """An iterator of some plans before the others. Unlike a generator, it can continue after it was exhausted."""

    def __init__(self, plans: Sequence[Plan], then: Iterator[Plan]) -> None:
        self._plans = deque(plans)
        self._then = then

    def __iter__(self) -> Iterator[Plan]:
        return self

    def __next__(self) -> Plan:
        return self._plans.popleft() if self._plans else next(self._then)


def _limit_of(engine: Engine, runner: Runner, ceiling: int) -> AdaptiveLimit:
    """Return the limit of a runner's attempts, which a pause of its provider holds back as well."""
    return limit_of(runner, ceiling, engine.clock.monotonic, engine.environment.pauses)
