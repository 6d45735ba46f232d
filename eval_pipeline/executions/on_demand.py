"""Plans of one runner executed as they come up, rather than in a lane: how a grader is asked.

The same attempts, time limits, retries and adaptive concurrency as in a sweep.
"""

from __future__ import annotations

import asyncio

from eval_pipeline.executions.adapters import Adapter
from eval_pipeline.executions.attempts import AttemptEnvironment, Attempts, Clock, PlanState
from eval_pipeline.executions.limits import AdaptiveLimit
from eval_pipeline.executions.model import DEFAULT_CONCURRENCY, Execution, Plan, Runner


class OnDemand:
    """One runner, ready to be asked; at most `runner.concurrency` attempts at once."""

    def __init__(
        self, runner: Runner, adapter: Adapter, environment: AttemptEnvironment, clock: Clock | None = None
    ) -> None:
        self.runner = runner
        clock = clock or Clock.real()
        limit = AdaptiveLimit(runner.concurrency or DEFAULT_CONCURRENCY, clock.monotonic)
        self._attempts = Attempts(runner, adapter, limit, clock, environment)

    async def execute(self, plan: Plan) -> Execution:
        """The execution of a plan, after as many attempts as the runner's retry policy allows."""
        job = PlanState(plan)
        while True:
            result = await self._attempts.make_in_place(job)
            delay_s = self._attempts.delay_before_next(job, result)
            if delay_s is None:
                return self._attempts.execution(job, result)
            await asyncio.sleep(delay_s)

    async def close(self) -> None:
        """Lets the adapter go."""
        await self._attempts.close()
