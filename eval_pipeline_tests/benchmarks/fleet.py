"""Many workers against one provider's rate limit: simulated, and the simulation compared with real processes.

The simulator is the engine's own adaptive limit and its own delays between attempts, one of each per worker, in virtual
time; the provider is the token bucket of the stub server. It leaves out CPU: a worker has a core of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import random
import subprocess
import tempfile
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.executions.attempts import retry_delay_s
from eval_pipeline.executions.limits import NEVER_SLOWED, AdaptiveLimit
from eval_pipeline.executions.model import RetryPolicy
from eval_pipeline.warehouse.shared_limits import EVERY_S, SLOWED_S
from eval_pipeline_tests.benchmarks.rate_limit import RateLimit
from eval_pipeline_tests.virtual_time import run_virtually

RETRY_AFTER_S = 1.0
Stub = Callable[..., AbstractContextManager[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Workers that share a provider. Each makes `calls` calls, `at_once` of them at most; `begins_within_s` is how
    far apart they begin. With `shares` they have a warehouse in common, through which they hear of refusals."""

    workers: int
    calls: int
    at_once: int
    answer_s: float
    per_second: float
    retries: RetryPolicy = RetryPolicy()  # noqa: RUF009 — immutable
    begins_within_s: float = 0.0
    shares: bool = False

    @property
    def least_s(self) -> float:
        """The wall time (seconds) that nobody can be faster than: by the provider's limit, or by the answers."""
        by_limit = self.workers * self.calls / self.per_second if self.per_second else 0.0
        return max(by_limit, self.calls * self.answer_s / self.at_once)


@dataclass(slots=True)
class Outcome:
    """What came of a fleet: wall seconds from the first to the last call, attempts, refused ones, calls given up."""

    wall_s: float = 0.0
    attempts: int = 0
    refused: int = 0
    given_up: int = 0

    @property
    def refused_share(self) -> float:
        return self.refused / self.attempts if self.attempts else 0.0


def simulate(fleet: Fleet, seed: int = 0) -> Outcome:
    """Return what would come of a fleet."""
    return run_virtually(_Simulation(fleet, seed).run())


class _News:
    """The refusals that workers report to each other, each at most a second late."""

    def __init__(self) -> None:
        self._workers = 0
        self._last: deque[tuple[float, int, float]] = deque(maxlen=2)
        """When, which worker, which share; those of the last two that were refused."""

    def limit(self, at_once: int) -> AdaptiveLimit:
        """Return the limit of one more worker."""
        self._workers += 1
        worker, known, read_at = self._workers, NEVER_SLOWED, -math.inf

        def slow(share: float) -> None:
            if self._last and self._last[-1][1] == worker:
                self._last.pop()
            self._last.append((_now(), worker, share))

        def slowed() -> tuple[int, float]:
            nonlocal known, read_at
            if _now() - read_at >= EVERY_S:
                others = [(at, share) for at, who, share in self._last if who != worker and _now() - at < SLOWED_S]
                known, read_at = (1 + int(others[-1][0] * 1000), others[-1][1]) if others else NEVER_SLOWED, _now()
            return known

        return AdaptiveLimit(at_once, _now, slow=slow, slowed=slowed)


def _now() -> float:
    return asyncio.get_running_loop().time()


class _Simulation:
    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet, self._random = fleet, random.Random(seed)
        self._provider = RateLimit(fleet.per_second)
        self._outcome = Outcome()
        self._first: float | None = None
        self._news = _News()

    async def run(self) -> Outcome:
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._fleet.workers):
                workers.create_task(self._worker())
        assert self._first is not None
        self._outcome.wall_s = asyncio.get_running_loop().time() - self._first
        return self._outcome

    async def _worker(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._random.random() * self._fleet.begins_within_s)
        self._first = loop.time() if self._first is None else self._first
        at_once = self._fleet.at_once
        limit = self._news.limit(at_once) if self._fleet.shares else AdaptiveLimit(at_once, _now)
        waiting = iter(range(self._fleet.calls))
        async with asyncio.TaskGroup() as lanes:
            for _ in range(min(self._fleet.at_once, self._fleet.calls)):
                lanes.create_task(self._lane(limit, waiting))

    async def _lane(self, limit: AdaptiveLimit, waiting: Iterator[int]) -> None:
        for _ in waiting:
            await self._call(limit)

    async def _call(self, limit: AdaptiveLimit) -> None:
        retries_done = 0
        while await self._is_refused(limit):
            if retries_done >= self._fleet.retries.max_retries:
                self._outcome.given_up += 1
                return
            await asyncio.sleep(retry_delay_s(self._fleet.retries, retries_done, RETRY_AFTER_S, self._random))
            retries_done += 1

    async def _is_refused(self, limit: AdaptiveLimit) -> bool:
        await limit.acquire()
        try:
            token = limit.record_start()
            refused = self._provider.refuses(asyncio.get_running_loop().time())
            await asyncio.sleep(0.0 if refused else self._fleet.answer_s)
            limit.record_result(token, refused=refused, retry_after_s=RETRY_AFTER_S if refused else None)
        finally:
            limit.release()
        self._outcome.attempts += 1
        self._outcome.refused += refused
        return refused


def measure_fleet(stub: Stub, command: Sequence[str], make_project: Callable[..., Path], quick: bool) -> None:
    """Eight real workers and the same simulated; then what is simulated of 1,000."""
    real = Fleet(workers=8, calls=50 if quick else 250, at_once=16, answer_s=0.5, per_second=40.0)
    measured, simulated = _real(real, stub, command, make_project), simulate(real)
    for name, outcome in (("real", measured), ("simulated", simulated)):
        print(f"8 workers, 40 requests a second, {name}: {_shown(real, outcome)}", flush=True)
    workers = 100 if quick else 1_000
    for per_second, shares in itertools.product((200.0, 2_000.0), (False, True)):
        fleet = Fleet(workers=workers, calls=100, at_once=20, answer_s=5.0, per_second=per_second, shares=shares)
        name = f"{workers:,} workers simulated{', in one warehouse' if shares else ''}"
        print(f"{name}, {per_second:,.0f} requests a second: {_shown(fleet, simulate(fleet))}", flush=True)


def _shown(fleet: Fleet, outcome: Outcome) -> str:
    wall = f"wall {outcome.wall_s:.1f} s ({outcome.wall_s / fleet.least_s:.2f} × the least)"
    return f"{wall}, {outcome.attempts:,} attempts, {outcome.refused_share:.1%} refused, {outcome.given_up} given up"


def _real(fleet: Fleet, stub: Stub, command: Sequence[str], make_project: Callable[..., Path]) -> Outcome:
    """Start the workers as processes of the real command, each with a project of its own."""
    options = ("--latency-ms", str(fleet.answer_s * 1000), "--per-second", str(fleet.per_second))
    with stub(*options) as port, tempfile.TemporaryDirectory() as folder:
        roots = [make_project(Path(folder, str(number)), fleet.calls, port) for number in range(fleet.workers)]
        run = [*command, "missing", "--concurrency", str(fleet.at_once)]
        started = [subprocess.Popen(run, cwd=root, stdout=subprocess.DEVNULL) for root in roots]
        for process in started:
            process.wait()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
            seen = json.load(answer)
    refused, attempts = int(seen["refused"]), int(seen["calls"])
    given_up = fleet.workers * fleet.calls - (attempts - refused)
    return Outcome(float(seen["seconds"]), attempts, refused, given_up)
