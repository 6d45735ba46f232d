"""Executes plans of one runner on request, outside a lane: the way a grader is called.

Attempts, time limits, retries and adaptive concurrency are the same as in a sweep.
"""

from __future__ import annotations

import asyncio

from eval_pipeline.executions.adapters import Adapter
from eval_pipeline.executions.attempts import AttemptEnvironment, Attempts, Clock, PlanState
from eval_pipeline.executions.model import DEFAULT_CONCURRENCY, Execution, Plan, Runner
from eval_pipeline.executions.pauses import limit_of
from eval_pipeline.executions.stopwatch import waiting


class OnDemand:
    """Executes plans of one runner; at most `runner.concurrency` attempts at once, else `concurrency`, else as many as
    is usual for its adapter."""

    def __init__(
        self,
        runner: Runner,
        adapter: Adapter,
        environment: AttemptEnvironment,
        clock: Clock | None = None,
        *,
        concurrency: int | None = None,
    ) -> None:
        self.runner = runner
        clock = clock or Clock.real()
        usual = getattr(adapter, "usual_concurrency", DEFAULT_CONCURRENCY)
        most = runner.concurrency or concurrency or usual
        limit = limit_of(runner, most, clock.monotonic, environment.pauses)
        self._attempts = Attempts(runner, adapter, limit, clock, environment)

    async def execute(self, plan: Plan) -> Execution:
        """Return the execution of a plan, after as many attempts as the runner's retry policy allows."""
        state = PlanState(plan)
        while True:
            result = await self._attempts.acquire_and_attempt(state)
            delay_s = self._attempts.delay_before_next(state, result)
            if delay_s is None:
                return self._attempts.execution(state, result)
            with waiting():
                await asyncio.sleep(delay_s)

    async def close(self) -> None:
        """Close the adapter."""
        await self._attempts.close()
