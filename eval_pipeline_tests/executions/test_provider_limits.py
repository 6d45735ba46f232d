"""Limits of a provider that several runners call. On virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from eval_pipeline.executions.adapters import Call
from eval_pipeline.executions.attempts import AttemptEnvironment
from eval_pipeline.executions.conversations import Answer, Conversations, End, Speech
from eval_pipeline.executions.engine import Engine
from eval_pipeline.executions.exchanges import Exchange
from eval_pipeline.executions.model import Execution, RawExecution, Runner, TargetFailure
from eval_pipeline.executions.on_demand import OnDemand
from eval_pipeline.executions.pauses import NoPauses
from eval_pipeline.executions.provider_limits import NO_GATES, ProviderGates, ProviderLimit, unmatched_limits
from eval_pipeline.suites.model import Message
from eval_pipeline.suites.simulation import ConversationLimits, SimulatedUser
from eval_pipeline_tests.builders import a_case, a_plan, a_runner
from eval_pipeline_tests.executions.simulated_provider import Provider, Simulated, Sink, lane, refusal
from eval_pipeline_tests.virtual_time import run_virtually, virtual_clock

HOST = "api.example.com"


class _Shared(NoPauses):
    """What a process beside others of the same provider knows."""

    def __init__(self, processes: int) -> None:
        self._processes = processes

    def sharers(self, runner: str) -> int:
        return self._processes if runner == f"provider {HOST}" else 1


class _Paused(NoPauses):
    """Pauses of a provider that another process reported."""

    until_s = 0.0

    def until(self, provider: str) -> float:
        return self.until_s


def runner(name: str, host: str = HOST) -> Runner:
    return a_runner(name, "chat", settings={"base_url": f"https://{host}/v1"})


def put(
    provider: Provider, runners: list[Runner], limits: dict[str, ProviderLimit], *, each: int = 6, processes: int = 1
) -> list[Execution]:
    """Return the executions of `each` questions to each runner, all put at once."""
    gates = ProviderGates(limits, _Shared(processes))
    environment = AttemptEnvironment(folder_of=lambda plan: Path("nowhere"), gates=gates)
    result: list[Execution] = []

    async def main() -> None:
        called = [OnDemand(each, Simulated(provider), environment, virtual_clock()) for each in runners]
        requests = [
            on_demand.execute(a_plan(a_case(f"c{number}"), on_demand.runner))
            for on_demand in called
            for number in range(each)
        ]
        result.extend(await asyncio.gather(*requests))

    run_virtually(main())
    return result


@pytest.mark.parametrize(("processes", "most"), [(1, 5), (2, 2), (9, 1)])
def test_runners_and_processes_share_the_concurrency_of_a_provider(processes: int, most: int) -> None:
    provider = Provider()

    put(provider, [runner("a"), runner("b")], {HOST: ProviderLimit(concurrency=5)}, processes=processes)

    assert provider.most_at_once == most
    assert provider.calls == 12


@pytest.mark.parametrize(("processes", "last_at"), [(1, 11 * 2.0), (3, 11 * 6.0)])
def test_calls_of_a_provider_begin_evenly_spaced(processes: int, last_at: float) -> None:
    provider = Provider()

    limits = {HOST: ProviderLimit(calls_per_minute=30)}
    executions = put(provider, [runner("a"), runner("b")], limits, processes=processes)

    assert provider.last_call_at == pytest.approx(last_at)
    assert {execution.duration_ms for execution in executions} == {1000.0}, "waiting is no part of an answer's time"


def test_a_provider_without_an_address_goes_by_the_adapter_and_others_are_not_limited() -> None:
    provider = Provider()

    put(provider, [a_runner("a", "claude")], {"claude": ProviderLimit(concurrency=2)})
    assert provider.most_at_once == 2
    put(provider, [runner("b", "elsewhere.example.com")], {"claude": ProviderLimit(concurrency=2)})

    assert provider.most_at_once == 6


@pytest.mark.parametrize("limit", [ProviderLimit(calls_per_minute=600), ProviderLimit(concurrency=1)])
def test_calls_that_wait_for_their_turn_wait_for_a_pause_that_is_requested_meanwhile(limit: ProviderLimit) -> None:
    refused = iter([refusal(30.0)])
    adapter = Simulated(lambda call: next(refused, 1.0))
    gates = ProviderGates({HOST: limit})
    environment = AttemptEnvironment(folder_of=lambda plan: Path("nowhere"), gates=gates)

    async def main() -> None:
        called = [OnDemand(runner(name), adapter, environment, virtual_clock()) for name in ("a", "b")]
        await asyncio.gather(
            *[each.execute(a_plan(a_case(f"c{number}"), each.runner)) for each in called for number in range(4)]
        )

    run_virtually(main())

    first, *others = [at for _, at in adapter.begun]
    assert first == 0.0
    assert len(others) == 8
    assert min(others) >= 30.0
    assert len(set(others)) == 8, "after the pause the calls are spaced as before"


def test_a_pause_of_another_process_holds_back_calls_that_wait_for_their_turn() -> None:
    pauses = _Paused()

    def answer_and_pause(call: Call) -> float:
        pauses.until_s = 30.0
        return 1.0

    adapter = Simulated(answer_and_pause)
    gates = ProviderGates({HOST: ProviderLimit(calls_per_minute=600)}, pauses)
    environment = AttemptEnvironment(folder_of=lambda plan: Path("nowhere"), gates=gates)

    async def main() -> None:
        on_demand = OnDemand(runner("a"), adapter, environment, virtual_clock())
        await asyncio.gather(
            *[on_demand.execute(a_plan(a_case(f"c{number}"), on_demand.runner)) for number in range(3)]
        )

    run_virtually(main())

    assert [at for _, at in adapter.begun] == pytest.approx([0.0, 30.0, 30.1])


class _PlayedUser:
    """A user who speaks twice, each time as a simulator answers."""

    def __init__(self, simulator: OnDemand, case: str) -> None:
        self._simulator = simulator
        self._case = case

    async def next(self, so_far: Sequence[Exchange]) -> Speech | End:
        if len(so_far) == 2:
            return End("user")
        await self._simulator.execute(a_plan(a_case(f"{self._case}-{len(so_far)}"), self._simulator.runner))
        return Speech((Message(role="user", content="go on"),))


class _Batched(Simulated):
    """Answers all of its cases in one call, which takes a second."""

    batches = True

    async def execute_batch(self, calls: list[Call]) -> list[RawExecution | TargetFailure]:
        return [await self.execute(calls[0])] * len(calls)


def test_a_batch_is_one_call_of_its_provider() -> None:
    adapter, sink = _Batched(), Sink()
    limits = {HOST: ProviderLimit(calls_per_minute=6)}

    async def main() -> None:
        engine = Engine(
            sink=sink, folder_of=lambda plan: Path("nowhere"), clock=virtual_clock(), gates=ProviderGates(limits)
        )
        cases = [a_case("x"), a_case("y")]
        await engine.carry_out(
            [lane(called, adapter, [a_plan(case, called) for case in cases]) for called in (runner("a"), runner("b"))]
        )

    run_virtually(main())

    assert [at for _, at in adapter.begun] == [0.0, 10.0]
    assert [execution.duration_ms for execution in sink.kept] == [500.0] * 4, "waiting is no part of an answer's time"


@pytest.mark.parametrize("limit", [ProviderLimit(calls_per_minute=1), None], ids=["its turn", "a slot and a retry"])
def test_the_waiting_of_a_simulator_is_no_part_of_a_conversation_s_time(limit: ProviderLimit | None) -> None:
    """Four conversations whose simulator answers in a second, and waits for minutes."""
    user = SimulatedUser(limits=ConversationLimits(seconds=10))
    gates = ProviderGates({HOST: limit} if limit is not None else {})
    environment = AttemptEnvironment(folder_of=lambda plan: Path("nowhere"), gates=gates)
    refused = iter([refusal(100.0)] if limit is None else [])
    executions: list[Execution] = []

    async def main() -> None:
        simulator = OnDemand(
            runner("user"), Simulated(lambda call: next(refused, 1.0)), environment, virtual_clock(), concurrency=1
        )
        conversations = Conversations(
            speaker=lambda call: _PlayedUser(simulator, call.plan.case.id),
            answer=lambda plan, raw, runner: Answer(str(raw.payload["output"])),
        )
        spoken_with = replace(environment, gates=NO_GATES, conversations=conversations)
        agent = OnDemand(runner("agent", "elsewhere.example.com"), Simulated(), spoken_with, virtual_clock())
        plans = [a_plan(a_case(f"c{number}", user=user), agent.runner) for number in range(4)]
        executions.extend(await asyncio.gather(*map(agent.execute, plans)))

    run_virtually(main())

    assert [execution.failure_class for execution in executions] == [None] * 4
    assert [execution.duration_ms for execution in executions] == pytest.approx([4_000.0] * 4)


@pytest.mark.parametrize(
    ("limit", "guess"),
    [
        ("api.exmaple.com", "; did you mean 'api.example.com'?"),
        ("10.0.0.7", "; did you mean '10.0.0.7:8000'?"),
        ("codx", "; did you mean 'codex'?"),
        ("unlike-any", ""),
    ],
)
def test_a_limit_of_no_runner_s_provider_is_a_warning_with_the_nearest_one(limit: str, guess: str) -> None:
    runners = [runner("a"), runner("b", "10.0.0.7:8000"), a_runner("c", "codex")]

    (warning,) = unmatched_limits([HOST, limit, "10.0.0.7:8000", "codex", "chat"], runners)

    assert f"'{limit}', which is the provider of no usable runner" in warning
    assert warning.endswith(f"an adapter{guess}")
