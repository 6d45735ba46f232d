"""One attempt at a plan: its workspace, its time limit, the boundary to adapters, and its record.

Scheduling is elsewhere: `engine.py` runs the lanes of a sweep, `on_demand.py` runs single requests.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from eval_pipeline.errors import error_text
from eval_pipeline.executions.adapters import Adapter, Call
from eval_pipeline.executions.conversations import Conversations, Talk, converse
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
from eval_pipeline.executions.pauses import NO_PAUSES, Pauses, provider_of
from eval_pipeline.executions.provider_limits import NO_GATES, ProviderGates
from eval_pipeline.executions.stopwatch import Stopwatch, waiting
from eval_pipeline.executions.threads import in_thread, is_interruption
from eval_pipeline.failures import ADAPTER, RATE_LIMITED, TARGET_CRASH, TIMEOUT, WORKSPACE
from eval_pipeline.suites.model import Case

_LOG = logging.getLogger(__name__)
NEVER_RETRIED = (401, 403)


@dataclass(frozen=True, slots=True)
class Clock:
    """Injectable clock and random source."""

    monotonic: Callable[[], float]
    now: Callable[[], datetime]
    random: random.Random

    @staticmethod
    def real() -> Clock:
        loop = asyncio.get_running_loop()
        return Clock(loop.time, lambda: datetime.now(UTC), random.Random())


class Lease(Protocol):
    """A workspace leased to one attempt."""

    @property
    def folder(self) -> Path:
        """The target's working directory."""

    async def trace(self) -> WorkspaceTrace:
        """Record the target's changes. The folder stays unchanged until `close`."""

    async def close(self, *, failed: bool, restore: bool = False) -> None:
        """Release the workspace; a failed plan's may be kept. `restore` resets it, because the attempt is retried."""


class Workspaces(Protocol):
    """Creates workspaces for plans whose case has a workspace spec."""

    async def open(self, plan: Plan) -> Lease:
        """Return a workspace that is ready for an attempt. Raises TargetFailure when it cannot be prepared."""


Ending = Callable[[Plan, RawExecution], TargetFailure | None]


@dataclass(slots=True)
class PlanState:
    """A plan in progress: its attempts so far, and the workspace of the latest.

    `talk` is its conversation with the runner `talk_with`; `progress` is how many attempts came before the one that
    got further in it last: retries count from there. `unfinished` is what each runner keeps of it for its next attempt.
    """

    plan: Plan
    attempts: list[Attempt] = field(default_factory=list)
    lease: Lease | None = None
    talk: Talk | None = None
    talk_with: str | None = None
    progress: int = 0
    unfinished: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnvironment:
    """Dependencies of attempts beside the runner: the folder of an execution's files, workspaces, conversations, and
    `ending`, which returns the failure that a target's own output reports, if any; `pauses` of providers,
    and `gates`, their limits."""

    folder_of: Callable[[Plan], Path]
    workspaces: Workspaces | None = None
    conversations: Conversations | None = None
    ending: Ending | None = None
    pauses: Pauses = NO_PAUSES
    gates: ProviderGates = NO_GATES


class Attempts:
    """Runs attempts with one runner's adapter and turns every outcome into a value."""

    def __init__(
        self, runner: Runner, adapter: Adapter, limit: AdaptiveLimit, clock: Clock, environment: AttemptEnvironment
    ) -> None:
        self._runner = runner
        self._adapter = adapter
        self._limit = limit
        self._clock = clock
        self._environment = environment
        self._execute = _awaitable(adapter)

    async def attempt(self, state: PlanState) -> RawExecution | TargetFailure:
        """Run one more attempt and record it in `state`."""
        try:
            await self._open_workspace(state)
        except TargetFailure as unprepared:
            state.attempts.append(self._record(state, self._clock.now(), 0.0, unprepared))
            return unprepared
        started_at, stopwatch = self._clock.now(), Stopwatch(self._clock.monotonic)
        started = stopwatch()
        with stopwatch.running():
            result = await self._try(state, stopwatch)
        duration_ms = (stopwatch() - started) * 1000
        failure = result if isinstance(result, TargetFailure) else None
        state.attempts.append(self._record(state, started_at, duration_ms, failure))
        return result

    def _record(
        self, state: PlanState, started_at: datetime, duration_ms: float, failure: TargetFailure | None
    ) -> Attempt:
        record = attempt_record(started_at, duration_ms, failure)
        name = self._runner.name
        return record if name == state.plan.runner.name else replace(record, runner=name)

    async def acquire_and_attempt(self, state: PlanState) -> RawExecution | TargetFailure:
        """Run one more attempt as soon as the concurrency limit allows."""
        with waiting():
            await self._limit.acquire()
        try:
            return await self.attempt(state)
        finally:
            self._limit.release()

    def delay_before_next(self, state: PlanState, result: RawExecution | TargetFailure) -> float | None:
        """Return the seconds until the next attempt, or None when the result is final."""
        if not isinstance(result, TargetFailure) or not self._is_retryable(result):
            return None
        retries_done = len(state.attempts) - 1 - state.progress
        if retries_done >= self._runner.retries.max_retries:
            return None
        return retry_delay_s(self._runner.retries, retries_done, result.retry_after_s, self._clock.random)

    def _is_retryable(self, failure: TargetFailure) -> bool:
        """Return whether to retry: by the runner's list of HTTP statuses if it has one, else by the failure itself."""
        statuses = self._runner.retries.statuses
        if statuses is None or failure.status is None:
            return failure.retryable
        return failure.status in statuses and failure.status not in NEVER_RETRIED

    def execution(self, state: PlanState, result: RawExecution | TargetFailure) -> Execution:
        """Return the execution that the last attempt completes."""
        return build_execution(state, result, self._clock.now())

    @staticmethod
    async def release(state: PlanState, *, failed: bool = False, restore: bool = False) -> None:
        """Release the workspace, if any."""
        if state.lease is not None:
            lease, state.lease = state.lease, None
            await lease.close(failed=failed, restore=restore)

    async def end_talk(self, state: PlanState) -> None:
        """Let the adapter release what it holds for a conversation that ended."""
        end = getattr(self._adapter, "end_talk", None)
        if end is not None and state.talk is not None:
            await end(state.plan.key)

    async def close(self) -> None:
        """Close the adapter. An error is logged only, because finished executions remain valid."""
        try:
            await self._adapter.close()
        except Exception as error:  # noqa: BLE001 — the boundary to adapters; see the docstring
            _LOG.warning("adapter '%s' did not close: %s: %s", self._runner.adapter, type(error).__name__, error)

    async def _open_workspace(self, state: PlanState) -> None:
        if state.plan.case.workspace is None or self._environment.workspaces is None:
            return
        await self.release(state, restore=True)
        try:
            state.lease = await self._environment.workspaces.open(state.plan)
        except OSError as error:
            raise TargetFailure(WORKSPACE, f"the workspace cannot be created: {error}") from error

    async def _try(self, state: PlanState, stopwatch: Stopwatch) -> RawExecution | TargetFailure:
        case, number = state.plan.case, len(state.attempts) + 1
        call = Call(
            plan=state.plan,
            attempt=number,
            timeout_s=time_limit_s(case, self._runner, self._adapter),
            files=lambda: self._environment.folder_of(state.plan),
            workspace=state.lease.folder if state.lease is not None else None,
            unfinished=state.unfinished.setdefault(self._runner.name, {}) if case.workspace is None else {},
            seed=state.plan.seed,
        )
        if not case.is_conversation or self._environment.conversations is None:
            return await self._call(call)
        return await self._converse(call, state, self._environment.conversations, stopwatch)

    async def _converse(
        self, call: Call, state: PlanState, conversations: Conversations, stopwatch: Stopwatch
    ) -> RawExecution | TargetFailure:
        """Hold the conversation, or go on with the one that an earlier attempt began.

        Another runner, or a workspace that was reset in between, begins anew.
        """
        if state.talk is None or state.talk_with != self._runner.name or state.plan.case.workspace is not None:
            before, state.talk_with = state.talk, self._runner.name
            stateful = state.plan.case.workspace is not None or bool(getattr(self._adapter, "keeps_state", False))
            name = self._runner.name
            state.talk = Talk.open(call, conversations, name, keeps_state=stateful, before=before)
        had = len(state.talk.so_far)
        try:
            return await converse(call, self._call, conversations, stopwatch, state.talk)
        finally:
            if len(state.talk.so_far) > had:
                state.progress = len(state.attempts)

    async def _call(self, call: Call) -> RawExecution | TargetFailure:
        """Call the target when its provider's turn comes, and count whether it refused. Each turn of a conversation is
        a call that counts."""
        async with AsyncExitStack() as stack:
            with waiting():
                await stack.enter_async_context(self._environment.gates.turn(self._runner))
            token = self._limit.record_start()
            result = await self._execute_timed(call)
        failure = result if isinstance(result, TargetFailure) else None
        refused = failure is not None and failure.failure is RATE_LIMITED
        requested_s = (failure.retry_after_s if failure is not None else None) or 0.0
        pause_s = min(requested_s, self._runner.retries.max_retry_after_s)
        self._limit.record_result(token, refused=refused, retry_after_s=pause_s)
        if refused and pause_s:
            self._environment.pauses.report(provider_of(self._runner), pause_s)
            self._environment.gates.report(self._runner, pause_s)
        return result

    async def _execute_timed(self, call: Call) -> RawExecution | TargetFailure:
        keeps_time = getattr(self._adapter, "keeps_time", False)
        limit = asyncio.timeout(None if keeps_time else call.timeout_s)
        try:
            async with limit:
                raw = await self._execute(call)
            return await self._reported(call, raw)
        except TargetFailure as failure:
            return await self._ended(call, failure)
        # The one boundary to adapters: every exception becomes a row, even an exit or a cancellation raised inside one.
        except BaseException as error:
            if is_interruption(error):
                raise
            if limit.expired():
                retryable = self._adapter.retries_timeouts
                return TargetFailure(TIMEOUT, f"no answer within {call.timeout_s:g} s", retryable=retryable)
            return TargetFailure(ADAPTER, f"adapter '{self._runner.adapter}' failed: {error_text(error)}")

    async def _reported(self, call: Call, raw: RawExecution) -> RawExecution | TargetFailure:
        """Return the failure that the output of a process reports although it ended well, else what it returned."""
        ending = self._environment.ending
        if ending is None or raw.exit_code is None:
            return raw
        return await in_thread(ending, call.plan, raw) or raw

    async def _ended(self, call: Call, failure: TargetFailure) -> TargetFailure:
        """Return the failure that the target's own output reports in place of its exit code, where it does."""
        ending = self._environment.ending
        if ending is None or failure.failure is not TARGET_CRASH or failure.raw is None:
            return failure
        return await in_thread(ending, call.plan, failure.raw) or failure


def time_limit_s(case: Case, runner: Runner, adapter: Adapter) -> float:
    """Return the time limit of an attempt in seconds: the case's, else the runner's, else the adapter's default."""
    return case.timeout_s or runner.timeout_s or adapter.default_timeout_s


def retry_delay_s(policy: RetryPolicy, retries_done: int, retry_after_s: float | None, rng: random.Random) -> float:
    """Return the seconds to wait before the next attempt (see RetryPolicy)."""
    try:
        backoff = min(policy.max_delay_s, policy.initial_delay_s * policy.factor**retries_done)
    except OverflowError:
        backoff = policy.max_delay_s
    spread = backoff * (1 + policy.jitter * (2 * rng.random() - 1))
    requested_s = min(retry_after_s or 0.0, policy.max_retry_after_s)
    return max(spread, requested_s)


def attempt_record(started_at: datetime, duration_ms: float, failure: TargetFailure | None) -> Attempt:
    """Return the record of one attempt."""
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


def build_execution(state: PlanState, result: RawExecution | TargetFailure, now: datetime) -> Execution:
    """Return the execution that a result completes. Without attempts, the target was never called."""
    failure = result if isinstance(result, TargetFailure) else None
    last = state.attempts[-1] if state.attempts else None
    return Execution(
        execution_id=execution_id(state.plan, last.started_at if last is not None else now),
        key=state.plan.key,
        suite=state.plan.suite,
        case_id=state.plan.case.id,
        runner=state.plan.runner.name,
        repetition=state.plan.repetition,
        started_at=state.attempts[0].started_at if state.attempts else now,
        finished_at=now,
        duration_ms=last.duration_ms if last is not None else 0.0,
        attempts=tuple(state.attempts),
        raw=result.raw if isinstance(result, TargetFailure) else result,
        failure_class=failure.failure.id if failure is not None else None,
        error=str(failure) if failure is not None else None,
        workspace=failure.workspace if failure is not None else None,
    )


def execution_id(plan: Plan, started_at: datetime) -> str:
    """Return the id of an execution: the plan's key and the start time in microseconds."""
    return f"{plan.key[:24]}-{int(started_at.timestamp() * 1_000_000):x}"


def _awaitable(adapter: Adapter) -> Callable[[Call], Awaitable[RawExecution]]:
    """Return the adapter's `execute`; a plain function runs in a thread."""
    if inspect.iscoroutinefunction(adapter.execute):
        return adapter.execute
    plain: Callable[[Call], Any] = adapter.execute

    async def execute(call: Call) -> RawExecution:
        answer: RawExecution = await in_thread(plain, call)
        return answer

    return execute
