"""Plans → Executions: which attempt is made when. Concurrency, retries, budget, fallbacks and cancellation.

One lane per runner, all lanes at once under a global limit. A lane starts an attempt whenever its limit has a place;
an attempt that may be repeated waits for its delay outside that place. Each finished execution goes to the sink at
once, outside that place too; the sink says what it cost. How many plans are begun and not finished has a bound of its
own, so that a fast target with a slow sink does not pile up executions and workspaces. Nothing here knows a table or a
score.
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
    PlanState,
    Workspaces,
    attempt_record,
    executed,
    time_limit_s,
)
from eval_pipeline.executions.conversations import Conversations
from eval_pipeline.executions.limits import AdaptiveLimit
from eval_pipeline.executions.model import DEFAULT_CONCURRENCY, Execution, Plan, RawExecution, Runner, TargetFailure
from eval_pipeline.executions.redaction import clean_files, redact
from eval_pipeline.failures import ADAPTER, BUDGET_EXCEEDED, TIMEOUT

_LOG = logging.getLogger(__name__)
BEGUN_PER_PLACE = 4
LEAST_BEGUN = 16
ExecuteBatch = Callable[[Sequence[Call]], Awaitable[list[RawExecution | TargetFailure]]]


class SinkResult(NamedTuple):
    """What the sink says of an execution: its cost in USD (None: not known), and whether its cell passed."""

    cost_usd: float | None = None
    passed: bool = True


class Sink(Protocol):
    """Takes each finished execution and makes it durable. Its workspace is let go afterwards."""

    async def __call__(self, plan: Plan, execution: Execution) -> SinkResult: ...


@dataclass(slots=True, kw_only=True)
class Lane:
    """The work of one runner: its adapter, its plans in order, and how many attempts may run at once.

    `plans` that ran out is asked again after every finished execution: what depends on others comes later.
    `fallbacks` are asked in turn, once each, when the runner's own attempts failed; as many at once as their own
    runner says, else as the lane.
    """

    runner: Runner
    adapter: Adapter
    plans: Iterator[Plan]
    concurrency: int = DEFAULT_CONCURRENCY
    fallbacks: Sequence[tuple[Runner, Adapter]] = ()


class Engine:
    """Carries out lanes. `folder_of(plan)` names the folder an execution may keep files in; `refuse(plan)` says why a
    plan is not to be executed any more, None when it is."""

    def __init__(
        self,
        *,
        sink: Sink,
        folder_of: Callable[[Plan], Path],
        concurrency: int | None = None,
        budget_usd: float | None = None,
        clock: Clock | None = None,
        on_start: Callable[[Plan], None] = lambda plan: None,
        refuse: Callable[[Plan], TargetFailure | None] = lambda plan: None,
        workspaces: Workspaces | None = None,
        conversations: Conversations | None = None,
    ) -> None:
        self._sink = sink
        self._places = asyncio.Semaphore(concurrency) if concurrency else None
        self._budget_usd = budget_usd
        self._refuse = refuse
        self.environment = AttemptEnvironment(folder_of=folder_of, workspaces=workspaces, conversations=conversations)
        self.clock = clock or Clock.real()
        self.started = on_start
        self.spent_usd = 0.0

    async def carry_out(self, lanes: list[Lane]) -> None:
        """Carries out every plan of every lane. Cancelling it stops all attempts and leaves no child process."""
        async with asyncio.TaskGroup() as group:
            for lane in lanes:
                group.create_task(_LaneRun(self, lane).run(), name=f"lane {lane.runner.name}")

    def refusal(self, plan: Plan) -> TargetFailure | None:
        """Why a plan is not to be executed any more."""
        if self._budget_usd is not None and self.spent_usd >= self._budget_usd:
            return TargetFailure(BUDGET_EXCEEDED, "not executed: the budget is spent")
        return self._refuse(plan)

    async def acquire(self) -> None:
        if self._places is not None:
            await self._places.acquire()

    def release(self) -> None:
        if self._places is not None:
            self._places.release()

    async def finish(self, job: PlanState, execution: Execution) -> None:
        """Hands an execution on, and lets its workspace go when it has been looked at."""
        passed = False
        try:
            if job.lease is not None:
                execution = replace(execution, workspace=await job.lease.trace())
            taken = await self._sink(job.plan, execution)
            self.spent_usd += taken.cost_usd or 0.0
            passed = taken.passed
        finally:
            await Attempts.release(job, failed=not passed)


class _LaneRun:
    """One lane while it runs: who waits for a retry, who is under way."""

    def __init__(self, engine: Engine, lane: Lane) -> None:
        self._engine = engine
        self._lane = lane
        self._clock = engine.clock
        self._limit = AdaptiveLimit(lane.concurrency, engine.clock.monotonic)
        self._attempts = Attempts(lane.runner, lane.adapter, self._limit, engine.clock, engine.environment)
        self._fallbacks = [(runner, self._attempts_of(runner, adapter)) for runner, adapter in lane.fallbacks]
        self._most_begun = max(BEGUN_PER_PLACE * lane.concurrency, LEAST_BEGUN)
        self._retries: list[tuple[float, int, PlanState]] = []
        self._retry_number = 0
        self._under_way = 0
        self._changed = asyncio.Event()

    async def run(self) -> None:
        try:
            await self._run_batches()
            async with asyncio.TaskGroup() as group:
                while True:
                    await self._acquire()
                    job = self._next_job()
                    if job is not None:
                        self._under_way += 1
                        group.create_task(self._attempt(job))
                        continue
                    self._release()
                    if not self._under_way and not self._retries:
                        return
                    await self._wait_for_change()
        finally:
            for attempts in (self._attempts, *(attempts for _, attempts in self._fallbacks)):
                await attempts.close()

    def _attempts_of(self, runner: Runner, adapter: Adapter) -> Attempts:
        limit = AdaptiveLimit(runner.concurrency or self._lane.concurrency, self._clock.monotonic)
        return Attempts(runner, adapter, limit, self._clock, self._engine.environment)

    async def _acquire(self) -> None:
        await self._limit.acquire()
        try:
            await self._engine.acquire()
        except asyncio.CancelledError:
            self._limit.release()
            raise

    def _release(self) -> None:
        self._engine.release()
        self._limit.release()

    def _next_job(self) -> PlanState | None:
        """A retry that is due, else a new plan unless too many that were begun are not finished."""
        if self._retries and self._retries[0][0] <= self._clock.monotonic():
            return heapq.heappop(self._retries)[2]
        if self._under_way + len(self._retries) >= self._most_begun:
            return None
        plan = next(self._lane.plans, None)
        return PlanState(plan) if plan is not None else None

    async def _wait_for_change(self) -> None:
        """Until an attempt ends, or the next retry is due."""
        self._changed.clear()
        due_in = self._retries[0][0] - self._clock.monotonic() if self._retries else None
        if due_in is not None and due_in <= 0:
            return
        try:
            async with asyncio.timeout(due_in):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _attempt(self, job: PlanState) -> None:
        try:
            try:
                outcome = await self._one_attempt(job)
            finally:
                self._release()
            if outcome is not None:
                await self._engine.finish(job, outcome)
        finally:
            await Attempts.release(job, failed=True)
            self._under_way -= 1
            self._changed.set()

    async def _one_attempt(self, job: PlanState) -> Execution | None:
        """The finished execution, or None when the job was put back to be tried again."""
        refusal = self._engine.refusal(job.plan) if not job.attempts else None
        if refusal is not None:
            return executed(job, refusal, self._clock.now())
        if not job.attempts:
            self._engine.started(job.plan)
        result = await self._attempts.make(job)
        delay_s = self._attempts.delay_before_next(job, result)
        if delay_s is not None:
            await Attempts.release(job, restore=True)  # others may work in it while this one waits
            self._put_back(job, delay_s)
            return None
        if isinstance(result, TargetFailure) and self._fallbacks:
            return await self._fall_back(job, result)
        return self._attempts.execution(job, result)

    def _put_back(self, job: PlanState, delay_s: float) -> None:
        self._retry_number += 1
        heapq.heappush(self._retries, (self._clock.monotonic() + delay_s, self._retry_number, job))

    async def _fall_back(self, job: PlanState, result: RawExecution | TargetFailure) -> Execution:
        """The first fallback's answer; when they all fail, the failure of the last."""
        by = None
        for runner, attempts in self._fallbacks:
            result, by = await attempts.make_in_place(job), runner.name
            if not isinstance(result, TargetFailure):
                break
        return replace(self._attempts.execution(job, result), answered_by=by)

    async def _run_batches(self) -> None:
        """All plans of an adapter that answers many cases at once; when that breaks they go one by one."""
        execute_batch = getattr(self._lane.adapter, "execute_batch", None)
        if execute_batch is None or not getattr(self._lane.adapter, "batches", False):
            return
        plans = list(self._lane.plans)
        alone = [plan for plan in plans if not _fits_a_batch(plan)]
        for together in _batches(plan for plan in plans if _fits_a_batch(plan)):
            jobs = await self._unrefused(together)
            results = await self._batch(execute_batch, jobs) if jobs else []
            if results is None:
                alone += [job.plan for job in jobs]
                continue
            await self._finish_all(jobs, results)
        self._lane.plans = _First(alone, self._lane.plans)

    async def _batch(
        self, execute_batch: ExecuteBatch, jobs: list[PlanState]
    ) -> list[RawExecution | TargetFailure] | None:
        """What one call brought for each job; None when it brought nothing for any."""
        calls = [self._call(job) for job in jobs]
        await self._engine.acquire()
        started_at, record_start = self._clock.now(), self._clock.monotonic()
        try:
            results = await _within_limits(execute_batch, calls)
        except Exception as error:  # noqa: BLE001 — the boundary to adapters; the cases are then asked one by one
            said = redact(f"{type(error).__name__}: {error}", self._lane.runner.secrets)
            _LOG.warning("batch of runner '%s' failed: %s", self._lane.runner.name, said)
            return None
        finally:
            self._engine.release()
            await self._clean(calls)
        share_ms = (self._clock.monotonic() - record_start) * 1000 / len(jobs)
        for job, result in zip(jobs, results, strict=True):
            failure = result if isinstance(result, TargetFailure) else None
            job.attempts.append(attempt_record(started_at, share_ms, failure))
        return results

    def _call(self, job: PlanState) -> Call:
        timeout_s = time_limit_s(job.plan.case, self._lane.runner, self._lane.adapter)
        return Call(plan=job.plan, attempt=1, timeout_s=timeout_s, files=_files(self._engine, job))

    async def _clean(self, calls: Sequence[Call]) -> None:
        """Takes secrets out of what a batch left, which is in the folder of its first case."""
        if self._lane.runner.secrets:
            await asyncio.to_thread(clean_files, calls[0].files(), self._lane.runner.secrets)

    async def _finish_all(self, jobs: Sequence[PlanState], results: Sequence[RawExecution | TargetFailure]) -> None:
        """Hands the executions of a batch on, many at once: each may wait for its grades."""
        places = asyncio.Semaphore(self._most_begun)
        async with asyncio.TaskGroup() as group:
            for job, result in zip(jobs, results, strict=True):
                await places.acquire()
                finishing = group.create_task(self._engine.finish(job, executed(job, result, self._clock.now())))
                finishing.add_done_callback(lambda _: places.release())

    async def _unrefused(self, plans: Sequence[Plan]) -> list[PlanState]:
        jobs = []
        for plan in plans:
            job = PlanState(plan)
            refusal = self._engine.refusal(plan)
            if refusal is not None:
                await self._engine.finish(job, executed(job, refusal, self._clock.now()))
                continue
            self._engine.started(plan)
            jobs.append(job)
        return jobs


async def _within_limits(execute_batch: ExecuteBatch, calls: Sequence[Call]) -> list[RawExecution | TargetFailure]:
    """The answers to a batch, which may take as long as its calls together."""
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


def _files(engine: Engine, job: PlanState) -> Callable[[], Path]:
    return lambda: engine.environment.folder_of(job.plan)


def _fits_a_batch(plan: Plan) -> bool:
    return plan.case.workspace is None and plan.case.conversation is None


def _batches(plans: Iterable[Plan]) -> Iterable[list[Plan]]:
    """One batch for each suite and repetition: within one, a case's id names it."""
    groups: dict[tuple[str, int], list[Plan]] = {}
    for plan in plans:
        groups.setdefault((plan.suite, plan.repetition), []).append(plan)
    return groups.values()


class _First:
    """Some plans before the others; the others may run out and later have more, which a generator cannot."""

    def __init__(self, plans: Sequence[Plan], then: Iterator[Plan]) -> None:
        self._plans = deque(plans)
        self._then = then

    def __iter__(self) -> Iterator[Plan]:
        return self

    def __next__(self) -> Plan:
        return self._plans.popleft() if self._plans else next(self._then)
