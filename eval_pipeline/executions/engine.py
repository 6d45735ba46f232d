"""Plans → Executions: concurrency, retries, time limits, budget and cancellation.

One lane per runner, all lanes at once under a global limit. A lane starts an attempt whenever its limit has a place;
an attempt that may be repeated waits for its delay outside that place. Each finished execution goes to the sink at
once; the sink says what it cost. Nothing here knows a file, a table or a score.
"""

from __future__ import annotations

import asyncio
import heapq
import inspect
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from eval_pipeline.executions.adapters import Adapter, Call
from eval_pipeline.executions.limits import AdaptiveLimit
from eval_pipeline.executions.model import (
    DEFAULT_CONCURRENCY,
    Attempt,
    Execution,
    Plan,
    RawExecution,
    RetryPolicy,
    Runner,
    TargetFailure,
)
from eval_pipeline.executions.threads import in_thread
from eval_pipeline.failures import ADAPTER, BUDGET_EXCEEDED, RATE_LIMITED, TIMEOUT

_LOG = logging.getLogger(__name__)


class Sink(Protocol):
    """Takes each finished execution, makes it durable, and returns its cost in USD (None: not known)."""

    async def __call__(self, plan: Plan, execution: Execution) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Clock:
    """Where the engine takes time and chance from."""

    monotonic: Callable[[], float]
    now: Callable[[], datetime]
    random: random.Random

    @staticmethod
    def real() -> Clock:
        loop = asyncio.get_running_loop()
        return Clock(loop.time, lambda: datetime.now(UTC), random.Random())


@dataclass(slots=True, kw_only=True)
class Lane:
    """The work of one runner: its adapter, its plans in order, and how many attempts may run at once."""

    runner: Runner
    adapter: Adapter
    plans: Iterator[Plan]
    concurrency: int = DEFAULT_CONCURRENCY


@dataclass(slots=True)
class Job:
    """A plan on its way: the attempts so far."""

    plan: Plan
    attempts: list[Attempt] = field(default_factory=list)


class Engine:
    """Carries out lanes. `folder_of(plan)` names the folder an execution may keep files in."""

    def __init__(
        self,
        *,
        sink: Sink,
        folder_of: Callable[[Plan], Path],
        concurrency: int | None = None,
        budget_usd: float | None = None,
        clock: Clock | None = None,
        on_start: Callable[[Plan], None] = lambda plan: None,
    ) -> None:
        self._sink = sink
        self._folder_of = folder_of
        self._places = asyncio.Semaphore(concurrency) if concurrency else None
        self._budget_usd = budget_usd
        self._clock = clock or Clock.real()
        self._on_start = on_start
        self.spent_usd = 0.0

    async def carry_out(self, lanes: list[Lane]) -> None:
        """Carries out every plan of every lane. Cancelling it stops all attempts and leaves no child process."""
        async with asyncio.TaskGroup() as group:
            for lane in lanes:
                group.create_task(_LaneRun(self, lane, self._clock).run(), name=f"lane {lane.runner.name}")

    @property
    def over_budget(self) -> bool:
        return self._budget_usd is not None and self.spent_usd >= self._budget_usd

    async def take_place(self) -> None:
        if self._places is not None:
            await self._places.acquire()

    def give_place(self) -> None:
        if self._places is not None:
            self._places.release()

    def started(self, plan: Plan) -> None:
        self._on_start(plan)

    def folder_of(self, plan: Plan) -> Path:
        return self._folder_of(plan)

    async def finish(self, plan: Plan, execution: Execution) -> None:
        cost = await self._sink(plan, execution)
        self.spent_usd += cost or 0.0


class _LaneRun:
    """One lane while it runs: who waits for a retry, who is under way."""

    def __init__(self, engine: Engine, lane: Lane, clock: Clock) -> None:
        self._engine = engine
        self._lane = lane
        self._clock = clock
        self._limit = AdaptiveLimit(lane.concurrency, clock.monotonic)
        self._retries: list[tuple[float, int, Job]] = []
        self._retry_number = 0
        self._under_way = 0
        self._changed = asyncio.Event()
        self._execute = _awaitable(lane.adapter)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await self._take_place()
                    job = self._next_job()
                    if job is not None:
                        self._under_way += 1
                        group.create_task(self._attempt(job))
                        continue
                    self._give_place()
                    if not self._under_way and not self._retries:
                        return
                    await self._wait_for_change()
        finally:
            await self._close_adapter()

    async def _close_adapter(self) -> None:
        # The other end of the boundary to adapters: what was executed stays, even if one cannot let go.
        try:
            await self._lane.adapter.close()
        except Exception as error:  # noqa: BLE001 — see above
            _LOG.warning("adapter '%s' did not close: %s: %s", self._lane.runner.adapter, type(error).__name__, error)

    async def _take_place(self) -> None:
        await self._limit.acquire()
        try:
            await self._engine.take_place()
        except asyncio.CancelledError:
            self._limit.release()
            raise

    def _give_place(self) -> None:
        self._engine.give_place()
        self._limit.release()

    def _next_job(self) -> Job | None:
        if self._retries and self._retries[0][0] <= self._clock.monotonic():
            return heapq.heappop(self._retries)[2]
        plan = next(self._lane.plans, None)
        return Job(plan) if plan is not None else None

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

    async def _attempt(self, job: Job) -> None:
        try:
            outcome = await self._one_attempt(job)
        finally:
            self._give_place()
        try:
            if outcome is not None:
                await self._engine.finish(job.plan, outcome)
        finally:
            self._under_way -= 1
            self._changed.set()

    async def _one_attempt(self, job: Job) -> Execution | None:
        """The finished execution, or None when the job was put back to be tried again."""
        if self._engine.over_budget and not job.attempts:
            return _unexecuted(job.plan, self._clock.now())
        if not job.attempts:
            self._engine.started(job.plan)
        ticket, started_at, begun = self._limit.begun(), self._clock.now(), self._clock.monotonic()
        result = await self._try(job)
        duration_ms = (self._clock.monotonic() - begun) * 1000
        failure = result if isinstance(result, TargetFailure) else None
        refused = failure is not None and failure.failure is RATE_LIMITED
        asked = (failure.retry_after_s if failure is not None else None) or 0.0
        pause_s = min(asked, self._lane.runner.retries.max_retry_after_s)
        self._limit.answered(ticket, refused=refused, retry_after_s=pause_s)
        job.attempts.append(_attempt_record(started_at, duration_ms, failure))
        if failure is not None and failure.retryable and self._put_back(job, failure):
            return None
        return _execution(job, result, started_at, self._clock.now(), duration_ms)

    async def _try(self, job: Job) -> RawExecution | TargetFailure:
        runner, number = self._lane.runner, len(job.attempts) + 1
        timeout_s = job.plan.case.timeout_s or runner.timeout_s or self._lane.adapter.default_timeout_s
        call = Call(plan=job.plan, attempt=number, timeout_s=timeout_s, files=lambda: self._engine.folder_of(job.plan))
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit:
                return await self._execute(call)
        except TargetFailure as failure:
            return failure
        # The one boundary to adapters: whatever they raise becomes a row, even an exit or a cancellation of their own.
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if _is_cancelled():
                raise
            if limit.expired():
                retryable = self._lane.adapter.retries_timeouts
                return TargetFailure(TIMEOUT, f"no answer within {timeout_s:g} s", retryable=retryable)
            return TargetFailure(ADAPTER, f"adapter '{runner.adapter}' failed: {type(error).__name__}: {error}")

    def _put_back(self, job: Job, failure: TargetFailure) -> bool:
        policy = self._lane.runner.retries
        retries_done = len(job.attempts) - 1
        if retries_done >= policy.max_retries:
            return False
        delay_s = retry_delay_s(policy, retries_done, failure.retry_after_s, self._clock.random)
        self._retry_number += 1
        heapq.heappush(self._retries, (self._clock.monotonic() + delay_s, self._retry_number, job))
        return True


def retry_delay_s(policy: RetryPolicy, retries_done: int, retry_after_s: float | None, chance: random.Random) -> float:
    """Seconds to wait before the next attempt (see RetryPolicy)."""
    try:
        backoff = min(policy.max_delay_s, policy.initial_delay_s * policy.factor**retries_done)
    except OverflowError:
        backoff = policy.max_delay_s
    spread = backoff * (1 + policy.jitter * (2 * chance.random() - 1))
    return max(spread, min(retry_after_s or 0.0, policy.max_retry_after_s))


def _awaitable(adapter: Adapter) -> Callable[[Call], Awaitable[RawExecution]]:
    """The adapter's `execute` as a coroutine function: a plain function runs in a thread."""
    execute: Any = adapter.execute
    if inspect.iscoroutinefunction(execute):
        return execute  # type: ignore[no-any-return]

    async def execute_in_thread(call: Call) -> RawExecution:
        return await in_thread(execute, call)

    return execute_in_thread


def _is_cancelled() -> bool:
    """Whether somebody cancelled the task that asks."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _attempt_record(started_at: datetime, duration_ms: float, failure: TargetFailure | None) -> Attempt:
    if failure is None:
        return Attempt(started_at=started_at, duration_ms=duration_ms)
    return Attempt(
        started_at=started_at,
        duration_ms=duration_ms,
        failure_class=failure.failure.id,
        error=str(failure),
        status=failure.status,
        retry_after_s=failure.retry_after_s,
    )


def _execution(
    job: Job, result: RawExecution | TargetFailure, started_at: datetime, finished_at: datetime, duration_ms: float
) -> Execution:
    failure = result if isinstance(result, TargetFailure) else None
    return Execution(
        execution_id=execution_id(job.plan, started_at),
        key=job.plan.key,
        suite=job.plan.suite,
        case_id=job.plan.case.id,
        runner=job.plan.runner.name,
        repetition=job.plan.repetition,
        started_at=job.attempts[0].started_at if job.attempts else started_at,
        finished_at=finished_at,
        duration_ms=duration_ms,
        attempts=tuple(job.attempts),
        raw=failure.raw if failure is not None else result,  # type: ignore[arg-type]
        failure_class=failure.failure.id if failure is not None else None,
        error=str(failure) if failure is not None else None,
    )


def _unexecuted(plan: Plan, now: datetime) -> Execution:
    failure = TargetFailure(BUDGET_EXCEEDED, "not executed: the budget is spent")
    return _execution(Job(plan), failure, now, now, 0.0)


def execution_id(plan: Plan, started_at: datetime) -> str:
    """A name for one execution: the cell's key and the microsecond it began at."""
    return f"{plan.key[:24]}-{int(started_at.timestamp() * 1_000_000):x}"
