"""The engine on virtual time: every plan once, no more at once than allowed, patient, and clean when stopped."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.executions.adapters import Adapter, Call
from eval_pipeline.executions.attempts import retry_delay_s
from eval_pipeline.executions.engine import Engine, Lane, SinkResult
from eval_pipeline.executions.model import Execution, Plan, RawExecution, RetryPolicy, Runner, TargetFailure
from eval_pipeline.failures import AUTHENTICATION, TIMEOUT
from eval_pipeline.parsing.tables import FieldTable
from eval_pipeline_tests.builders import NOON, a_case, a_plan, a_runner, plans
from eval_pipeline_tests.executions.simulated_provider import (
    Provider,
    Simulated,
    Sink,
    carry_out,
    failure,
    lane,
    refusal,
)

STEADY = settings(derandomize=True, deadline=None)
EXACT = RetryPolicy(jitter=0.0)


def run(behave: Any, count: int = 1, *, retries: RetryPolicy = EXACT, **fields: Any) -> tuple[Simulated, Sink]:
    """Carries out `count` plans of one runner one after the other; what the adapter saw, and what came out."""
    adapter, runner = Simulated(behave), a_runner(retries=retries, **fields)
    return adapter, carry_out(lane(runner, adapter, plans(count, runner), 1))


def once(sink: Sink) -> Execution:
    (execution,) = sink.kept
    return execution


def failing(times: int, error: Exception | None = None) -> Any:
    """Fails the first attempts, then answers after a second."""
    return lambda call: (error or failure()) if call.attempt <= times else 1.0


def test_every_plan_is_carried_out_once_in_order() -> None:
    adapter, sink = run(lambda call: 1.0, 5)

    assert [case for case, _ in adapter.begun] == ["c1", "c2", "c3", "c4", "c5"]
    assert [execution.case_id for execution in sink.kept] == ["c1", "c2", "c3", "c4", "c5"]


def test_an_execution_says_what_was_done_and_when() -> None:
    execution = once(run(lambda call: 1.5)[1])

    assert execution.completed
    assert (execution.key, execution.suite, execution.case_id) == ("suite/c1/runner/1", "suite", "c1")
    assert (execution.started_at, execution.finished_at) == (NOON, NOON + timedelta(seconds=1.5))
    assert (execution.duration_ms, execution.error) == (1500.0, None)
    assert execution.raw == RawExecution(format="replay", payload={"output": "c1"})
    assert [(attempt.started_at, attempt.duration_ms) for attempt in execution.attempts] == [(NOON, 1500.0)]
    assert execution.execution_id.startswith("suite/c1/runner/1-")


def test_a_failure_that_may_pass_is_tried_again() -> None:
    execution = once(run(failing(2))[1])

    assert execution.completed
    assert [attempt.failure_class for attempt in execution.attempts] == ["server-error", "server-error", None]
    assert [attempt.status for attempt in execution.attempts] == [500, 500, None]
    assert execution.duration_ms == 1000.0


def test_every_attempt_has_a_number_and_a_folder_of_its_own() -> None:
    seen: list[Call] = []
    run(lambda call: seen.append(call) or (failure() if call.attempt < 3 else 1.0))  # type: ignore[func-returns-value]

    assert [(call.attempt, str(call.folder)) for call in seen] == [
        (1, "nowhere/suite/c1/runner/1/attempt-1"),
        (2, "nowhere/suite/c1/runner/1/attempt-2"),
        (3, "nowhere/suite/c1/runner/1/attempt-3"),
    ]


def test_retries_wait_longer_and_longer_up_to_a_limit() -> None:
    policy = RetryPolicy(jitter=0.0, initial_delay_s=1.0, factor=3.0, max_delay_s=10.0)

    adapter, _ = run(failing(5), retries=policy)

    assert [at for _, at in adapter.begun] == [0, 1, 4, 13, 23, 33]


def test_a_failure_that_stays_is_the_executions() -> None:
    execution = once(run(failing(99), retries=RetryPolicy(jitter=0.0, max_retries=3))[1])

    assert not execution.completed
    assert (execution.failure_class, execution.error, len(execution.attempts)) == ("server-error", "as scripted", 4)


@pytest.mark.parametrize(
    ("error", "retries"),
    [
        pytest.param(failure(AUTHENTICATION, retryable=False), EXACT, id="retrying mends nothing"),
        pytest.param(failure(), RetryPolicy(max_retries=0), id="no retries wanted"),
    ],
)
def test_some_failures_are_final_at_once(error: Exception, retries: RetryPolicy) -> None:
    adapter, sink = run(failing(1, error), retries=retries)

    assert len(adapter.begun) == len(once(sink).attempts) == 1


@pytest.mark.parametrize(
    ("retry_after_s", "waited_s"),
    [pytest.param(0.1, 0.5, id="less"), pytest.param(7.0, 7.0, id="more"), pytest.param(9_999.0, 120.0, id="too much")],
)
def test_a_retry_waits_as_long_as_the_provider_asks_within_reason(retry_after_s: float, waited_s: float) -> None:
    adapter, sink = run(failing(1, refusal(retry_after_s)))

    assert [at for _, at in adapter.begun] == [0, waited_s]
    assert once(sink).attempts[0].retry_after_s == retry_after_s


@STEADY
@given(st.integers(0, 2_000), st.none() | st.floats(0, 1e6), st.integers())
def test_a_delay_lies_within_jitter_and_limits(retries_done: int, retry_after_s: float | None, seed: int) -> None:
    policy = RetryPolicy(initial_delay_s=0.5, factor=2.0, max_delay_s=30.0, jitter=0.5, max_retry_after_s=120.0)
    backoff = min(30.0, 0.5 * 2.0 ** min(retries_done, 60))
    least = min(retry_after_s or 0.0, 120.0)

    delay = retry_delay_s(policy, retries_done, retry_after_s, random.Random(seed))

    assert max(0.5 * backoff, least) <= delay <= max(1.5 * backoff, least)


def test_delays_are_spread() -> None:
    chance = random.Random(1)

    delays = [retry_delay_s(RetryPolicy(), 0, None, chance) for _ in range(100)]

    assert min(delays) < 0.3
    assert max(delays) > 0.7


def test_other_plans_go_on_while_one_waits_for_its_retry() -> None:
    def behave(call: Call) -> float | BaseException:
        return refusal(60.0) if call.plan.case.id == "c1" and call.attempt == 1 else 1.0

    adapter, sink = run(behave, 3)

    assert adapter.begun == [("c1", 0.0), ("c2", 0.0), ("c3", 1.0), ("c1", 60.0)]
    assert adapter.most_at_once == 1
    assert [execution.case_id for execution in sink.kept] == ["c2", "c3", "c1"]


def test_a_retry_that_is_due_comes_before_new_plans() -> None:
    def behave(call: Call) -> float | BaseException:
        return failure() if call.plan.case.id == "c1" and call.attempt == 1 else 1.0

    adapter, _ = run(behave, 4)

    assert [case for case, _ in adapter.begun] == ["c1", "c2", "c1", "c3", "c4"]


@pytest.mark.parametrize(
    ("case_s", "runner_s", "limit_s"),
    [
        pytest.param(2.0, 3.0, 2.0, id="the case's"),
        pytest.param(None, 3.0, 3.0, id="the runner's"),
        pytest.param(None, None, 600.0, id="the adapter's"),
    ],
)
def test_an_attempt_has_a_time_limit(case_s: float | None, runner_s: float | None, limit_s: float) -> None:
    runner = a_runner(timeout_s=runner_s, retries=RetryPolicy(max_retries=0))
    adapter = Simulated(lambda call: 10_000.0)

    execution = once(carry_out(lane(runner, adapter, [a_plan(a_case(timeout_s=case_s), runner)])))

    assert (execution.failure_class, execution.error) == ("timeout", f"no answer within {limit_s:g} s")
    assert execution.duration_ms == limit_s * 1000
    assert adapter.cancelled == ["c1"]


def test_an_attempt_is_told_its_time_limit() -> None:
    limits_s: list[float] = []
    run(lambda call: limits_s.append(call.timeout_s) or 1.0, timeout_s=7.0)  # type: ignore[func-returns-value]

    assert limits_s == [7.0]


@pytest.mark.parametrize(("retries_timeouts", "attempts"), [(True, 6), (False, 1)])
def test_whether_time_that_ran_out_is_tried_again_is_the_adapters_choice(
    retries_timeouts: bool, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Simulated, "retries_timeouts", retries_timeouts)

    adapter, sink = run(lambda call: 100.0, timeout_s=1.0)

    assert len(adapter.begun) == attempts
    assert once(sink).failure_class == "timeout"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(KeyError("x"), "adapter 'replay' failed: KeyError: 'x'", id="any error"),
        pytest.param(TimeoutError("too slow"), "adapter 'replay' failed: TimeoutError: too slow", id="its own timeout"),
        pytest.param(asyncio.CancelledError(), "adapter 'replay' failed: CancelledError", id="cancels itself"),
        pytest.param(SystemExit(3), "adapter 'replay' failed: SystemExit: 3", id="leaves"),
        pytest.param(
            StopIteration(), "adapter 'replay' failed: RuntimeError: coroutine raised StopIteration", id="ends"
        ),
        pytest.param(ExceptionGroup("both", [KeyError("x")]), "ExceptionGroup: both (1 sub-exception)", id="several"),
    ],
)
def test_an_adapter_that_breaks_is_a_row_and_the_others_go_on(error: BaseException, message: str) -> None:
    adapter, sink = run(lambda call: error if call.plan.case.id == "c1" else 1.0, 2)

    broken, fine = sink.kept
    assert broken.failure_class == "adapter"
    assert message in (broken.error or "")
    assert fine.completed
    assert adapter.closed == 1


class Stubborn(Simulated):
    """Breaks in another way when it is told that its time is over."""

    async def execute(self, call: Call) -> RawExecution:
        try:
            return await super().execute(call)
        except asyncio.CancelledError:
            raise OSError("could not clean up") from None


def test_an_adapter_that_breaks_when_its_time_is_over_ran_out_of_time() -> None:
    runner = a_runner(timeout_s=1.0, retries=RetryPolicy(max_retries=0))

    execution = once(carry_out(lane(runner, Stubborn(lambda call: 9.0), plans(1, runner))))

    assert execution.failure_class == TIMEOUT.id


def test_no_more_attempts_run_at_once_than_the_lane_allows() -> None:
    adapter = Simulated()

    carry_out(lane(a_runner(), adapter, plans(100), 7))

    assert adapter.most_at_once == 7


def test_lanes_run_at_once_each_within_its_own_limit() -> None:
    slow, fast = Simulated(lambda call: 10.0), Simulated()

    sink = carry_out(lane(a_runner("slow"), slow, plans(4), 2), lane(a_runner("fast"), fast, plans(4), 4))

    assert (slow.most_at_once, fast.most_at_once) == (2, 4)
    assert [execution.duration_ms for execution in sink.kept] == [1000.0] * 4 + [10_000.0] * 4


def test_all_lanes_together_stay_within_the_global_limit() -> None:
    provider = Provider()
    lanes = [lane(a_runner(name), Simulated(provider), plans(20, a_runner(name)), 10) for name in ("a", "b", "c")]

    sink = carry_out(*lanes, concurrency=5)

    assert provider.most_at_once == 5
    assert Counter(execution.runner for execution in sink.kept) == {"a": 20, "b": 20, "c": 20}


def test_a_lane_that_waits_for_a_retry_takes_no_global_place() -> None:
    waiting = Simulated(failing(1, refusal(100.0)))
    other = Simulated()

    carry_out(lane(a_runner("a"), waiting, plans(1), 1), lane(a_runner("b"), other, plans(50), 10), concurrency=1)

    assert waiting.begun[-1][1] == 100.0
    assert other.begun[-1][1] < 60


def test_plans_are_taken_only_when_there_is_a_place() -> None:
    taken: list[str] = []

    def one_by_one() -> Iterator[Plan]:
        for plan in plans(50):
            taken.append(plan.case.id)
            yield plan

    def behave(call: Call) -> float:
        ahead.append(len(taken) - len(sink.kept))
        return 1.0

    ahead: list[int] = []
    sink = Sink()
    carry_out(lane(a_runner(), Simulated(behave), one_by_one(), 3), sink=sink)

    assert len(ahead) == 50
    assert max(ahead) <= 4


def test_each_plan_is_announced_once_when_it_starts() -> None:
    started: list[str] = []
    adapter = Simulated(failing(2))

    carry_out(lane(a_runner(), adapter, plans(3)), on_start=lambda plan: started.append(plan.case.id))

    assert started == ["c1", "c2", "c3"]


def test_a_lane_without_plans_is_over_at_once() -> None:
    adapter = Simulated()

    assert carry_out(lane(a_runner(), adapter, [])).kept == []
    assert adapter.closed == 1


class Clinging(Simulated):
    """Cannot let go."""

    async def close(self) -> None:
        raise OSError("still in use")


def test_an_adapter_that_cannot_be_closed_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    sink = carry_out(lane(a_runner(), Clinging(), plans(3)), lane(a_runner("other"), Simulated(), plans(3)))

    assert len(sink.kept) == 6
    assert caplog.messages == ["adapter 'replay' did not close: OSError: still in use"]


def test_cancelling_stops_every_attempt_and_closes_every_adapter() -> None:
    adapters = [Simulated(lambda call: 100.0), Simulated(failing(1, refusal(100.0)))]
    lanes = [lane(a_runner(str(number)), adapter, plans(5), 3) for number, adapter in enumerate(adapters)]
    sink = Sink()

    with pytest.raises(TimeoutError):
        carry_out(*lanes, sink=sink, concurrency=5, cancel_after_s=10.0)

    assert [adapter.under_way.total() for adapter in adapters] == [0, 0]
    assert [adapter.closed for adapter in adapters] == [1, 1]
    assert sink.kept == []
    assert adapters[0].cancelled


def test_what_finished_before_the_cancellation_was_kept() -> None:
    sink = Sink()

    with pytest.raises(TimeoutError):
        carry_out(lane(a_runner(), Simulated(lambda call: 3.0), plans(9), 1), sink=sink, cancel_after_s=10.0)

    assert [execution.case_id for execution in sink.kept] == ["c1", "c2", "c3"]


def test_plans_that_cannot_be_made_stop_everything_cleanly() -> None:
    def broken() -> Iterator[Plan]:
        yield a_plan()
        raise ValueError("no more")

    adapters = [Simulated(), Simulated(lambda call: 100.0)]

    with pytest.raises(ExceptionGroup) as raised:
        carry_out(lane(a_runner(), adapters[0], broken()), lane(a_runner("other"), adapters[1], plans(3)))

    assert raised.group_contains(ValueError, match="no more")
    assert [adapter.closed for adapter in adapters] == [1, 1]
    assert [adapter.under_way.total() for adapter in adapters] == [0, 0]


@pytest.mark.parametrize("seed", range(12))
def test_no_plan_is_lost_or_doubled_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)

    def behave(call: Call) -> float | BaseException:
        errors = [failure(), refusal(2.0), refusal(None), KeyError("x"), asyncio.CancelledError()]
        return chance.choice(errors) if chance.random() < 0.5 else chance.choice([0.0, 0.5, 3.0, 50.0])

    adapters = {name: Simulated(behave) for name in ("a", "b", "c")}
    runners = {name: a_runner(name, timeout_s=10.0, retries=RetryPolicy(max_retries=4)) for name in adapters}
    work = {name: plans(chance.randint(0, 120), runner) for name, runner in runners.items()}
    lanes = [lane(runners[name], adapters[name], work[name], chance.randint(1, 40)) for name in adapters]

    sink = carry_out(*lanes, concurrency=chance.choice([None, 1, 5, 60]))

    planned = [plan.key for made in work.values() for plan in made]
    assert sorted(execution.key for execution in sink.kept) == sorted(planned)
    assert len({execution.execution_id for execution in sink.kept}) == len(planned)
    assert sum(len(adapter.begun) for adapter in adapters.values()) == sum(
        len(execution.attempts) for execution in sink.kept
    )


@dataclass(slots=True)
class SlowSink(Sink):
    """Takes a while over each execution, as graders do."""

    takes_s: float = 1.0
    busy: int = 0
    most_at_once: int = 0

    async def __call__(self, plan: Plan, execution: Execution) -> SinkResult:
        self.busy += 1
        self.most_at_once = max(self.most_at_once, self.busy)
        await asyncio.sleep(self.takes_s)
        self.busy -= 1
        self.kept.append(execution)
        return SinkResult()


class Plain:
    """An adapter with a plain function, called in a thread."""

    version: ClassVar[str] = "1"
    settings: ClassVar[FieldTable] = FieldTable("none", ())
    default_timeout_s: ClassVar[float] = 600.0
    retries_timeouts: ClassVar[bool] = False

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def content(self) -> Mapping[str, str]:
        return {}

    def execute(self, call: Call) -> RawExecution:
        return RawExecution(format="python", payload={"output": self._answer(call)})

    async def close(self) -> None:
        return None


def carry_out_plain(answer: Any, count: int = 1, **fields: Any) -> list[Execution]:
    """Carries out plans with a plain adapter, all at once, in real time."""
    runner: Runner = a_runner(**fields)
    adapter: Adapter = Plain(answer)  # type: ignore[assignment]  # either kind of `execute` will do
    sink = Sink()

    async def main() -> None:
        work = Lane(runner=runner, adapter=adapter, plans=iter(plans(count, runner)), concurrency=count)
        await Engine(sink=sink, folder_of=lambda plan: Path("nowhere")).carry_out([work])

    asyncio.run(main())
    return sink.kept


def test_plain_functions_run_at_once_as_many_as_the_limit_allows() -> None:
    together = threading.Barrier(16)  # nobody goes on before all are there

    executions = carry_out_plain(lambda call: together.wait(timeout=5) >= 0, 16)

    assert [execution.failure_class for execution in executions] == [None] * 16


def raising(error: BaseException) -> Any:
    def answer(call: Call) -> str:
        raise error

    return answer


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(KeyError("x"), "KeyError: 'x'", id="any error"),
        pytest.param(StopIteration(), "RuntimeError: coroutine raised StopIteration", id="the end of an iterator"),
        pytest.param(SystemExit(3), "SystemExit: 3", id="an exit"),
    ],
)
def test_a_plain_function_that_breaks_is_a_row(error: BaseException, message: str) -> None:
    (execution,) = carry_out_plain(raising(error))

    assert (execution.failure_class, execution.error) == ("adapter", f"adapter 'replay' failed: {message}")


def test_a_plain_function_that_never_returns_runs_out_of_time_and_holds_nothing_up() -> None:
    never, returned = threading.Event(), list[bool]()

    (execution,) = carry_out_plain(lambda call: returned.append(never.wait(20)), timeout_s=0.05)

    assert (execution.failure_class, returned) == ("timeout", [])
    never.set()


@pytest.mark.parametrize(("concurrency", "at_once"), [(1, 16), (10, 40)])
def test_a_slow_sink_holds_new_plans_back(concurrency: int, at_once: int) -> None:
    sink, started = SlowSink(takes_s=100.0), list[float]()

    carry_out(
        lane(a_runner(), Simulated(lambda call: 0.1), plans(100), concurrency),
        sink=sink,
        on_start=lambda plan: started.append(asyncio.get_running_loop().time()),
    )

    assert len(sink.kept) == 100
    assert sink.most_at_once == at_once
    assert sum(at < 100 for at in started) == at_once


def test_plans_that_wait_for_their_retry_are_begun_and_need_no_second_permission() -> None:
    adapter = Simulated(failing(1, failure(retry_after_s=100.0)))

    sink = carry_out(lane(a_runner(), adapter, plans(40), 1), sink=SlowSink(takes_s=1.0))

    assert sum(at < 100 for _, at in adapter.begun) == 16
    assert sorted(len(execution.attempts) for execution in sink.kept) == [2] * 40


@pytest.mark.parametrize(("concurrency", "at_once"), [(2, 2), (None, 6)], ids=["its own", "the lane's"])
def test_a_fallback_is_asked_no_more_at_once_than_it_allows(concurrency: int | None, at_once: int) -> None:
    runner, other = Simulated(lambda call: failure(retryable=False)), Simulated()
    work = lane(a_runner(), runner, plans(20), 6)
    work.fallbacks = [(a_runner("other", concurrency=concurrency), other)]

    sink = carry_out(work)

    assert [execution.answered_by for execution in sink.kept] == ["other"] * 20
    assert other.most_at_once == at_once


class Batching(Simulated):
    """Answers many cases at once, after a while; what it is told to break, breaks."""

    batches = True

    def __init__(self, broken: frozenset[str] = frozenset(), takes_s: float = 0.0) -> None:
        super().__init__()
        self.broken = broken
        self.takes_s = takes_s
        self.batched: list[list[str]] = []
        self.limits_seen: list[float] = []

    async def execute_batch(self, calls: Any) -> list[RawExecution | TargetFailure]:
        ids = [f"{call.plan.suite}/{call.plan.case.id}" for call in calls]
        self.batched.append(ids)
        self.limits_seen += [call.timeout_s for call in calls]
        await asyncio.sleep(self.takes_s)
        if self.broken & {call.plan.suite for call in calls}:
            raise OSError("the program is gone")
        return [
            failure(retryable=False)
            if call.plan.case.id == "c2"
            else RawExecution(format="replay", payload={"output": call.plan.case.id})
            for call in calls
        ]


def test_cases_of_a_batching_adapter_are_answered_together_suite_by_suite() -> None:
    adapter, runner = Batching(), a_runner()
    work = [a_plan(a_case(id_), runner, suite=suite) for suite in ("s", "t") for id_ in ("c1", "c2")]

    sink = carry_out(lane(runner, adapter, work))

    assert adapter.batched == [["s/c1", "s/c2"], ["t/c1", "t/c2"]]
    assert [execution.failure_class for execution in sink.kept] == [None, "server-error", None, "server-error"]
    assert adapter.begun == []


def test_when_a_batch_breaks_its_cases_are_asked_one_by_one_and_no_others() -> None:
    adapter, runner = Batching(frozenset({"s"})), a_runner()
    work = [a_plan(a_case(id_), runner, suite=suite) for suite in ("s", "t") for id_ in ("c1", "c3")]

    sink = carry_out(lane(runner, adapter, work))

    assert [case for case, _ in adapter.begun] == ["c1", "c3"]
    assert sorted(execution.suite for execution in sink.kept) == ["s", "s", "t", "t"]
    assert all(execution.completed for execution in sink.kept)


@pytest.mark.parametrize(
    ("runner_s", "limits_s"),
    [
        pytest.param(3.0, [2.0, 3.0, 3.0], id="the runner's"),
        pytest.param(None, [2.0, 600.0, 600.0], id="the adapter's"),
    ],
)
@pytest.mark.parametrize(("over_s", "one_by_one"), [(-0.5, 0), (0.5, 3)], ids=["in time", "too late"])
def test_a_batch_has_the_time_that_its_cases_have_together(
    runner_s: float | None, limits_s: list[float], over_s: float, one_by_one: int
) -> None:
    adapter, runner = Batching(takes_s=sum(limits_s) + over_s), a_runner(timeout_s=runner_s)
    cases = [a_case("c1", timeout_s=2.0), a_case("c3"), a_case("c4")]

    sink = carry_out(lane(runner, adapter, [a_plan(case, runner) for case in cases]))

    assert adapter.limits_seen == limits_s
    assert len(adapter.begun) == one_by_one
    assert [execution.completed for execution in sink.kept] == [True] * 3


class Short(Batching):
    """Leaves an answer out."""

    async def execute_batch(self, calls: Any) -> list[RawExecution | TargetFailure]:
        return (await super().execute_batch(calls))[1:]


def test_a_batch_with_too_few_answers_answers_nothing(caplog: pytest.LogCaptureFixture) -> None:
    adapter = Short()

    sink = carry_out(lane(a_runner(), adapter, plans(3)))

    assert [case for case, _ in adapter.begun] == ["c1", "c2", "c3"]
    assert all(execution.completed for execution in sink.kept)
    assert caplog.messages == ["batch of runner 'runner' failed: TargetFailure: 2 answers to 3 cases"]


def test_the_executions_of_a_batch_are_handed_on_many_at_once() -> None:
    sink = SlowSink()

    carry_out(lane(a_runner(), Batching(), plans(50), 1), sink=sink)

    assert len(sink.kept) == 50
    assert sink.most_at_once == 16
