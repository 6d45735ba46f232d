"""A provider on virtual time: answers after a while, refuses what is beyond its capacity, remembers everything.

One seam, the adapter's: what the engine and the limits do with it is the real thing.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from eval_pipeline.executions.adapters import Adapter, Call
from eval_pipeline.executions.engine import Engine, Lane, SinkResult
from eval_pipeline.executions.model import Execution, Plan, RawExecution, Runner, TargetFailure
from eval_pipeline.failures import RATE_LIMITED, SERVER_ERROR, FailureClass
from eval_pipeline.parsing.tables import FieldTable
from eval_pipeline_tests.virtual_time import run_virtually, virtual_clock

Script = Callable[[Call], float | BaseException]


@dataclass(slots=True)
class Provider:
    """Answers each call after `latency_s`; beyond `capacity` calls at once it answers 429 and says when to come back.

    A refusal takes `refusal_s`. `noise` is the share of calls it refuses at random all the same.
    """

    latency_s: float = 1.0
    refusal_s: float = 0.05
    capacity: int = 1_000_000
    retry_after_s: float | None = 1.0
    noise: float = 0.0
    calls: int = 0
    refused: int = 0
    busy: int = 0
    most_at_once: int = 0
    last_call_at: float = 0.0
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    async def accepts(self) -> bool:
        """One call; whether it was answered."""
        self.calls += 1
        self.last_call_at = asyncio.get_running_loop().time()
        if self.busy >= self.capacity or self.chance.random() < self.noise:
            self.refused += 1
            await asyncio.sleep(self.refusal_s)
            return False
        self.busy += 1
        self.most_at_once = max(self.most_at_once, self.busy)
        try:
            await asyncio.sleep(self.latency_s)
        finally:
            self.busy -= 1
        return True


class Simulated:
    """An adapter that does with each call what `behave` says: seconds to answer after, or an error to raise."""

    version: ClassVar[str] = "1"
    settings: ClassVar[FieldTable] = FieldTable("none", ())
    default_timeout_s: ClassVar[float] = 600.0
    retries_timeouts: ClassVar[bool] = True

    def __init__(self, behave: Script | Provider = lambda call: 1.0) -> None:
        self._behave = behave
        self.begun: list[tuple[str, float]] = []
        self.under_way: Counter[str] = Counter()
        self.most_at_once = 0
        self.cancelled: list[str] = []
        self.closed = 0

    def content(self) -> Mapping[str, str]:
        return {}

    async def execute(self, call: Call) -> RawExecution:
        case = call.plan.case.id
        self.begun.append((case, asyncio.get_running_loop().time()))
        self.under_way[case] += 1
        self.most_at_once = max(self.most_at_once, self.under_way.total())
        try:
            await self._answer(call)
        except asyncio.CancelledError:
            self.cancelled.append(case)
            raise
        finally:
            self.under_way[case] -= 1
        return RawExecution(format="replay", payload={"output": case})

    async def close(self) -> None:
        self.closed += 1

    async def _answer(self, call: Call) -> None:
        if isinstance(self._behave, Provider):
            if not await self._behave.accepts():
                raise refusal(self._behave.retry_after_s)
            return
        todo = self._behave(call)
        if isinstance(todo, BaseException):
            raise todo
        await asyncio.sleep(todo)


def refusal(retry_after_s: float | None = None) -> TargetFailure:
    """A 429."""
    return failure(RATE_LIMITED, status=429, retry_after_s=retry_after_s)


def failure(
    class_: FailureClass = SERVER_ERROR,
    *,
    retryable: bool = True,
    status: int | None = 500,
    retry_after_s: float | None = None,
) -> TargetFailure:
    """A failure that another attempt may mend."""
    return TargetFailure(class_, "as scripted", retryable=retryable, status=status, retry_after_s=retry_after_s)


@dataclass(slots=True)
class Sink:
    """Keeps executions in the order they finish."""

    kept: list[Execution] = field(default_factory=list)

    async def __call__(self, plan: Plan, execution: Execution) -> SinkResult:
        self.kept.append(execution)
        return SinkResult()

    def by_case(self) -> dict[str, Execution]:
        return {execution.case_id: execution for execution in self.kept}


def lane(runner: Runner, adapter: Adapter, plans: Iterable[Plan], concurrency: int = 10) -> Lane:
    return Lane(runner=runner, adapter=adapter, plans=iter(plans), concurrency=concurrency)


def carry_out(
    *lanes: Lane,
    sink: Sink | None = None,
    concurrency: int | None = None,
    on_start: Callable[[Plan], None] = lambda plan: None,
    cancel_after_s: float | None = None,
) -> Sink:
    """Carries lanes out on virtual time and gives the sink that took their executions."""
    sink = sink or Sink()

    async def run() -> None:
        engine = Engine(
            sink=sink,
            folder_of=lambda plan: Path("nowhere") / plan.key,
            concurrency=concurrency,
            clock=virtual_clock(),
            on_start=on_start,
        )
        async with asyncio.timeout(cancel_after_s):
            await engine.carry_out(list(lanes))

    run_virtually(run())
    return sink
