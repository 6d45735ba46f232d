"""One attempt at a plan: its workspace, its time limit, the boundary to adapters, and what is written down of it.

Who decides when an attempt is made stands elsewhere: lanes of a sweep in `engine.py`, single questions in
`on_demand.py`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from eval_pipeline.executions.adapters import Adapter, Call
from eval_pipeline.executions.conversations import Conversations, converse
from eval_pipeline.executions.limits import AdaptiveLimit
from eval_pipeline.executions.model import (
    Attempt,
    Execution,
    Plan,
    RawExecution,
    RetryPolicy,
    Runner,
    TargetFailure,
    WorkspaceTrace,
)
from eval_pipeline.executions.threads import in_thread
from eval_pipeline.failures import ADAPTER, RATE_LIMITED, TIMEOUT, WORKSPACE
from eval_pipeline.suites.model import Case

_LOG = logging.getLogger(__name__)
NEVER_RETRIED = (401, 403)


@dataclass(frozen=True, slots=True)
class Clock:
    """Where attempts take time and chance from."""

    monotonic: Callable[[], float]
    now: Callable[[], datetime]
    random: random.Random

    @staticmethod
    def real() -> Clock:
        loop = asyncio.get_running_loop()
        return Clock(loop.time, lambda: datetime.now(UTC), random.Random())


class Lease(Protocol):
    """A workspace that one attempt may use."""

    @property
    def folder(self) -> Path:
        """Where the target works."""

    async def trace(self) -> WorkspaceTrace:
        """The target is done: what it changed. The folder stays as it left it until `close`."""

    async def close(self, *, failed: bool, restore: bool = False) -> None:
        """Nobody looks at it any more; a failed cell's workspace may be kept. `restore`: the attempt is repeated."""


class Workspaces(Protocol):
    """Makes workspaces for the plans whose case asks for one."""

    async def open(self, plan: Plan) -> Lease:
        """A workspace ready for an attempt. Raises TargetFailure when it cannot be prepared."""


@dataclass(slots=True)
class PlanState:
    """A plan on its way: the attempts so far, and the workspace of the latest."""

    plan: Plan
    attempts: list[Attempt] = field(default_factory=list)
    lease: Lease | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnvironment:
    """What attempts need beside the runner: the folder of an execution's files, workspaces, and how a conversation
    goes on."""

    folder_of: Callable[[Plan], Path]
    workspaces: Workspaces | None = None
    conversations: Conversations | None = None


class Attempts:
    """Makes attempts with one runner's adapter; whatever happens in one becomes a value."""

    def __init__(
        self, runner: Runner, adapter: Adapter, limit: AdaptiveLimit, clock: Clock, environment: AttemptEnvironment
    ) -> None:
        self._runner = runner
        self._adapter = adapter
        self._limit = limit
        self._clock = clock
        self._around = environment
        self._execute = _awaitable(adapter)

    async def make(self, job: PlanState) -> RawExecution | TargetFailure:
        """One more attempt of a job, written down in it."""
        try:
            await self._open_workspace(job)
        except TargetFailure as unprepared:
            job.attempts.append(attempt_record(self._clock.now(), 0.0, unprepared))
            return unprepared
        ticket, started_at, record_start = self._limit.record_start(), self._clock.now(), self._clock.monotonic()
        result = await self._try(job)
        duration_ms = (self._clock.monotonic() - record_start) * 1000
        failure = result if isinstance(result, TargetFailure) else None
        refused = failure is not None and failure.failure is RATE_LIMITED
        asked = (failure.retry_after_s if failure is not None else None) or 0.0
        pause_s = min(asked, self._runner.retries.max_retry_after_s)
        self._limit.record_result(ticket, refused=refused, retry_after_s=pause_s)
        job.attempts.append(attempt_record(started_at, duration_ms, failure))
        return result

    async def make_in_place(self, job: PlanState) -> RawExecution | TargetFailure:
        """One more attempt of a job, as soon as the limit has a place for it."""
        await self._limit.acquire()
        try:
            return await self.make(job)
        finally:
            self._limit.release()

    def delay_before_next(self, job: PlanState, result: RawExecution | TargetFailure) -> float | None:
        """Seconds until the job is to be tried again; None when the result stands."""
        if not isinstance(result, TargetFailure) or not self._is_retryable(result):
            return None
        retries_done = len(job.attempts) - 1
        if retries_done >= self._runner.retries.max_retries:
            return None
        return retry_delay_s(self._runner.retries, retries_done, result.retry_after_s, self._clock.random)

    def _is_retryable(self, failure: TargetFailure) -> bool:
        """As the failure says itself, unless the runner names the statuses that are worth another attempt."""
        statuses = self._runner.retries.statuses
        if statuses is None or failure.status is None:
            return failure.retryable
        return failure.status in statuses and failure.status not in NEVER_RETRIED

    def execution(self, job: PlanState, result: RawExecution | TargetFailure) -> Execution:
        """The execution that a job's last attempt ended."""
        return executed(job, result, self._clock.now())

    @staticmethod
    async def release(job: PlanState, *, failed: bool = False, restore: bool = False) -> None:
        """Lets the workspace of a job go, if it has one."""
        if job.lease is not None:
            lease, job.lease = job.lease, None
            await lease.close(failed=failed, restore=restore)

    async def close(self) -> None:
        """Lets the adapter go. What was executed stays, even if one cannot let go: the boundary's other end."""
        try:
            await self._adapter.close()
        except Exception as error:  # noqa: BLE001 — see above
            _LOG.warning("adapter '%s' did not close: %s: %s", self._runner.adapter, type(error).__name__, error)

    async def _open_workspace(self, job: PlanState) -> None:
        if job.plan.case.workspace is None or self._around.workspaces is None:
            return
        await self.release(job, restore=True)
        try:
            job.lease = await self._around.workspaces.open(job.plan)
        except OSError as error:
            raise TargetFailure(WORKSPACE, f"the workspace cannot be made: {error}") from error

    async def _try(self, job: PlanState) -> RawExecution | TargetFailure:
        case, number = job.plan.case, len(job.attempts) + 1
        call = Call(
            plan=job.plan,
            attempt=number,
            timeout_s=time_limit_s(case, self._runner, self._adapter),
            files=lambda: self._around.folder_of(job.plan),
            workspace=job.lease.folder if job.lease is not None else None,
        )
        if case.conversation is None or self._around.conversations is None:
            return await self._within_limit(call)
        return await converse(call, self._within_limit, self._around.conversations)

    async def _within_limit(self, call: Call) -> RawExecution | TargetFailure:
        limit = asyncio.timeout(call.timeout_s)
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
                retryable = self._adapter.retries_timeouts
                return TargetFailure(TIMEOUT, f"no answer within {call.timeout_s:g} s", retryable=retryable)
            return TargetFailure(ADAPTER, f"adapter '{self._runner.adapter}' failed: {type(error).__name__}: {error}")


def time_limit_s(case: Case, runner: Runner, adapter: Adapter) -> float:
    """Seconds that an attempt at a case may take: the case's own limit, else the runner's, else the adapter's."""
    return case.timeout_s or runner.timeout_s or adapter.default_timeout_s


def retry_delay_s(policy: RetryPolicy, retries_done: int, retry_after_s: float | None, chance: random.Random) -> float:
    """Seconds to wait before the next attempt (see RetryPolicy)."""
    try:
        backoff = min(policy.max_delay_s, policy.initial_delay_s * policy.factor**retries_done)
    except OverflowError:
        backoff = policy.max_delay_s
    spread = backoff * (1 + policy.jitter * (2 * chance.random() - 1))
    asked = min(retry_after_s or 0.0, policy.max_retry_after_s)
    return max(spread, asked)


def attempt_record(started_at: datetime, duration_ms: float, failure: TargetFailure | None) -> Attempt:
    """What is written down of an attempt."""
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


def executed(job: PlanState, result: RawExecution | TargetFailure, now: datetime) -> Execution:
    """The execution of a job that a result ends; one without any attempt never reached the target."""
    failure = result if isinstance(result, TargetFailure) else None
    last = job.attempts[-1] if job.attempts else None
    return Execution(
        execution_id=execution_id(job.plan, last.started_at if last is not None else now),
        key=job.plan.key,
        suite=job.plan.suite,
        case_id=job.plan.case.id,
        runner=job.plan.runner.name,
        repetition=job.plan.repetition,
        started_at=job.attempts[0].started_at if job.attempts else now,
        finished_at=now,
        duration_ms=last.duration_ms if last is not None else 0.0,
        attempts=tuple(job.attempts),
        raw=result.raw if isinstance(result, TargetFailure) else result,
        failure_class=failure.failure.id if failure is not None else None,
        error=str(failure) if failure is not None else None,
    )


def execution_id(plan: Plan, started_at: datetime) -> str:
    """A name for one execution: the cell's key and the microsecond it began at."""
    return f"{plan.key[:24]}-{int(started_at.timestamp() * 1_000_000):x}"


def _awaitable(adapter: Adapter) -> Callable[[Call], Awaitable[RawExecution]]:
    """The adapter's `execute`; a plain function runs in a thread."""
    if inspect.iscoroutinefunction(adapter.execute):
        return adapter.execute
    plain: Callable[[Call], Any] = adapter.execute

    async def execute(call: Call) -> RawExecution:
        answer: RawExecution = await in_thread(plain, call)
        return answer

    return execute


def _is_cancelled() -> bool:
    """Whether somebody cancelled this task: a CancelledError may also come from inside an adapter."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
