"""How many attempts run at once against a simulated provider, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eval_pipeline.executions.attempts import AttemptEnvironment
from eval_pipeline.executions.conversations import Answer, Conversations, ScriptedSpeaker
from eval_pipeline.executions.limits import AdaptiveLimit, StartToken
from eval_pipeline.executions.model import RawExecution, RetryPolicy
from eval_pipeline.executions.on_demand import OnDemand
from eval_pipeline.suites.model import Conversation, Message
from eval_pipeline_tests.builders import a_case, a_plan, a_runner, plans
from eval_pipeline_tests.executions.simulated_provider import Provider, Simulated, carry_out, lane
from eval_pipeline_tests.virtual_time import run_virtually, virtual_clock

CEILING = 400
CALLS = 1_000


class FixedLimit(AdaptiveLimit):
    """What a sweep without adaptive concurrency has: as many at once as were asked for, whatever comes back."""

    def __init__(self, size: int, clock: Callable[[], float]) -> None:
        super().__init__(size, clock, start=size)

    def record_result(self, ticket: StartToken, *, refused: bool, retry_after_s: float | None = None) -> None:
        """Learns nothing."""


@dataclass
class Run:
    """What came of sending calls through a limit: when it was over, and the limit at every answer."""

    seconds: float = 0.0
    limits: list[tuple[float, float]] = field(default_factory=list)

    def reached(self, limit: float) -> float:
        """When the limit first was this wide."""
        return next(at for at, width in self.limits if width >= limit)


def send(provider: Provider, make: Callable[[int, Callable[[], float]], AdaptiveLimit], size: int = CEILING) -> Run:
    """Sends calls through a limit until each was answered, refused ones again after `Retry-After`."""
    run = Run()

    async def call(limit: AdaptiveLimit) -> None:
        refused = True
        while refused:
            await limit.acquire()
            ticket = limit.record_start()
            refused = not await provider.accepts()
            limit.record_result(ticket, refused=refused, retry_after_s=provider.retry_after_s)
            limit.release()
            run.limits.append((asyncio.get_running_loop().time(), limit.limit))
            await asyncio.sleep(provider.retry_after_s or 0.0 if refused else 0.0)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        limit = make(size, loop.time)
        async with asyncio.TaskGroup() as group:
            for _ in range(CALLS):
                group.create_task(call(limit))
        run.seconds = loop.time()

    run_virtually(main())
    return run


@pytest.mark.parametrize("refusal_s", [0.05, 1.0], ids=["fast refusals", "slow refusals"])
@pytest.mark.parametrize("capacity", [50, 100, 200])
def test_a_high_ceiling_beats_a_cautious_limit_and_annoys_far_less_than_the_ceiling(
    capacity: int, refusal_s: float
) -> None:
    adaptive, at_ceiling = (Provider(capacity=capacity, refusal_s=refusal_s) for _ in range(2))

    run = send(adaptive, AdaptiveLimit)
    cautious = send(Provider(capacity=capacity), FixedLimit, size=10)
    send(at_ceiling, FixedLimit)

    assert run.seconds < 0.4 * cautious.seconds
    assert adaptive.refused < at_ceiling.refused / 5
    assert adaptive.refused < CALLS / 5


@pytest.mark.parametrize("capacity", [20, 50, 100, 300])
def test_it_takes_little_longer_than_a_limit_that_knows_the_capacity(capacity: int) -> None:
    run = send(Provider(capacity=capacity), AdaptiveLimit)
    best = send(Provider(capacity=capacity), FixedLimit, size=capacity)

    assert run.seconds < 1.25 * best.seconds + 5


@pytest.mark.parametrize(("capacity", "round_trips"), [(20, 1), (50, 2), (100, 3), (300, 5)])
def test_the_capacity_is_reached_within_a_few_round_trips(capacity: int, round_trips: int) -> None:
    assert send(Provider(capacity=capacity), AdaptiveLimit).reached(0.8 * capacity) <= round_trips


def test_without_refusals_the_ceiling_is_reached_and_never_passed() -> None:
    provider = Provider()
    run = send(provider, AdaptiveLimit)

    assert run.reached(CEILING) <= 5
    assert provider.most_at_once == CEILING


@pytest.mark.parametrize("refusal_s", [0.05, 1.0], ids=["fast refusals", "slow refusals"])
def test_random_refusals_of_5_percent_throttle_nothing(refusal_s: float) -> None:
    provider = Provider(noise=0.05, refusal_s=refusal_s)

    run = send(provider, AdaptiveLimit)

    assert provider.refused > 50
    assert run.reached(CEILING) <= 6
    assert min(width for at, width in run.limits if at >= 6) == CEILING


def test_when_the_capacity_shrinks_the_limit_follows() -> None:
    provider = Provider(capacity=200)

    async def shrink() -> None:
        await asyncio.sleep(6)
        provider.capacity = 20

    async def main() -> AdaptiveLimit:
        limit = AdaptiveLimit(CEILING, asyncio.get_running_loop().time)
        later = asyncio.create_task(shrink())

        async def caller() -> None:
            while asyncio.get_running_loop().time() < 30:
                await limit.acquire()
                ticket = limit.record_start()
                refused = not await provider.accepts()
                limit.record_result(ticket, refused=refused, retry_after_s=1.0)
                limit.release()

        async with asyncio.TaskGroup() as group:
            for _ in range(CEILING):
                group.create_task(caller())
        await later
        return limit

    assert 10 <= run_virtually(main()).limit <= 40


def test_a_provider_that_refuses_everything_is_asked_less_and_less() -> None:
    provider = Provider(capacity=0, retry_after_s=10.0)
    runner = a_runner(retries=RetryPolicy(max_retries=3))

    carry_out(lane(runner, Simulated(provider), plans(200), CEILING))

    assert provider.calls == 800
    assert provider.last_call_at > 100


def test_new_attempts_wait_for_the_providers_retry_after() -> None:
    provider = Provider(capacity=0, retry_after_s=30.0)
    adapter = Simulated(provider)

    carry_out(lane(a_runner(retries=RetryPolicy(max_retries=0)), adapter, plans(40)))

    record_start = sorted({round(at) for _, at in adapter.begun})
    assert record_start[:3] == [0, 30, 60]


def test_no_provider_holds_a_lane_up_for_longer_than_the_policy_allows() -> None:
    provider = Provider(capacity=0, retry_after_s=86_400.0)
    adapter = Simulated(provider)

    carry_out(lane(a_runner(retries=RetryPolicy(max_retries=0, max_retry_after_s=60)), adapter, plans(20)))

    assert max(at for _, at in adapter.begun) < 600


def test_an_attempt_begun_before_the_limit_changed_says_nothing_about_it() -> None:
    limit = AdaptiveLimit(100, lambda: 0.0)
    old = [limit.record_start() for _ in range(40)]
    for ticket in old[:20]:
        limit.record_result(ticket, refused=True)
    shrunk = limit.limit
    for ticket in old[20:]:
        limit.record_result(ticket, refused=True)

    assert shrunk < 16
    assert limit.limit == shrunk


def test_the_limit_never_falls_below_one() -> None:
    limit = AdaptiveLimit(100, lambda: 0.0)
    for _ in range(1_000):
        limit.record_result(limit.record_start(), refused=True)

    assert limit.limit == 1


@pytest.mark.parametrize("ceiling", [1, 3, 15])
def test_a_ceiling_below_the_start_is_where_it_starts(ceiling: int) -> None:
    limit = AdaptiveLimit(ceiling, lambda: 0.0)
    for _ in range(1_000):
        limit.record_result(limit.record_start(), refused=False)

    assert limit.limit == ceiling


async def waiting(limit: AdaptiveLimit, count: int) -> list[asyncio.Task[None]]:
    """Tasks that wait for a place, all of them at it."""
    tasks = [asyncio.create_task(limit.acquire()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


def test_places_are_given_in_the_order_they_were_asked_for() -> None:
    async def main() -> list[bool]:
        limit = AdaptiveLimit(1, asyncio.get_running_loop().time)
        await limit.acquire()
        tasks = await waiting(limit, 3)
        limit.release()
        await asyncio.sleep(1)
        got = [task.done() for task in tasks]
        for task in tasks:
            task.cancel()
        return got

    assert run_virtually(main()) == [True, False, False]


@pytest.mark.parametrize("released_first", [True, False], ids=["woken already", "still waiting"])
def test_a_place_is_not_lost_when_the_one_who_waits_for_it_is_cancelled(released_first: bool) -> None:
    async def main() -> bool:
        limit = AdaptiveLimit(1, asyncio.get_running_loop().time)
        await limit.acquire()
        first, second = await waiting(limit, 2)
        if released_first:
            limit.release()
            first.cancel()
        else:
            first.cancel()
            limit.release()
        async with asyncio.timeout(1):
            await second
        return first.cancelled()

    assert run_virtually(main())


def test_turns_of_conversations_widen_the_limit_as_calls_do() -> None:
    turns = tuple((Message(role="user", content=f"turn {number}"),) for number in range(10))
    cases = [a_case(f"c{number}", conversation=Conversation(turns=turns)) for number in range(64)]
    conversations = Conversations(
        speaker=lambda call: ScriptedSpeaker(Conversation(turns=turns), passed=always),
        answer=lambda plan, raw, runner: Answer(""),
    )
    seconds = 0.0

    async def main() -> None:
        nonlocal seconds
        runner = a_runner()
        environment = AttemptEnvironment(folder_of=lambda plan: Path("nowhere"), conversations=conversations)
        on_demand = OnDemand(runner, Simulated(), environment, virtual_clock(), concurrency=64)
        await asyncio.gather(*(on_demand.execute(a_plan(case, runner)) for case in cases))
        seconds = asyncio.get_running_loop().time()

    run_virtually(main())

    assert seconds <= 13  # the last begins after three turns of the first; 30 s where only whole conversations count


def test_refusals_of_another_process_shrink_a_limit_once_unless_it_has_its_own() -> None:
    news, now = [(0, 0.0)], [0.0]
    told: list[float] = []
    limit = AdaptiveLimit(64, lambda: now[0], start=16, slow=told.append, slowed=lambda: news[0])

    async def after_a_call(refused: int = 0) -> float:
        await limit.acquire()
        for _ in range(refused):
            limit.record_result(limit.record_start(), refused=True)
        limit.release()
        return limit.limit

    assert asyncio.run(after_a_call()) == 16
    news[0] = (1, 0.9)
    assert [asyncio.run(after_a_call()) for _ in range(2)] == [12, 12]
    assert told == [], "what others report is not reported again"
    now[0] = 10.0
    assert asyncio.run(after_a_call(refused=5)) == 1
    assert told == [1.0]
    now[0], news[0] = 11.0, (2, 0.9)
    assert asyncio.run(after_a_call()) == 1


async def always(so_far: RawExecution) -> bool:
    return True


@pytest.mark.parametrize(("sharers", "part"), [(1, 8), (3, 2), (20, 1)])
def test_processes_that_share_a_ceiling_have_an_equal_part_and_at_least_one_each(sharers: int, part: int) -> None:
    limit = AdaptiveLimit(8, lambda: 0.0, sharers=lambda: sharers)

    async def taken() -> int:
        waiting = [asyncio.create_task(limit.acquire()) for _ in range(10)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        count = sum(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        return count

    assert asyncio.run(taken()) == part
