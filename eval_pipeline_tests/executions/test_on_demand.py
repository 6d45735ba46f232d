"""A runner asked as questions come up: the same attempts, patience and limits as in a sweep. On virtual time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from eval_pipeline.executions.attempts import AttemptEnvironment
from eval_pipeline.executions.model import Execution, RetryPolicy
from eval_pipeline.executions.on_demand import OnDemand
from eval_pipeline_tests.builders import a_case, a_plan, a_runner
from eval_pipeline_tests.executions.simulated_provider import Simulated, failure
from eval_pipeline_tests.virtual_time import run_virtually, virtual_clock

PATIENT = RetryPolicy(max_retries=2, jitter=0.0)
NOWHERE = AttemptEnvironment(folder_of=lambda plan: Path("nowhere"))


def ask_all(adapter: Simulated, count: int, concurrency: int | None, of_sweep: int | None = None) -> list[Execution]:
    """The executions of `count` questions put at once."""
    runner = a_runner(retries=PATIENT, concurrency=concurrency)
    result: list[Execution] = []

    async def main() -> None:
        on_demand = OnDemand(runner, adapter, NOWHERE, virtual_clock(), concurrency=of_sweep)
        requests = (on_demand.execute(a_plan(a_case(f"c{number}"), runner)) for number in range(count))
        result.extend(await asyncio.gather(*requests))
        await on_demand.close()

    run_virtually(main())
    return result


def test_a_question_is_asked_again_until_it_is_answered() -> None:
    (execution,) = ask_all(Simulated(lambda call: failure() if call.attempt < 3 else 1.0), 1, 1)

    assert execution.completed
    assert len(execution.attempts) == 3


def test_patience_ends() -> None:
    (execution,) = ask_all(Simulated(lambda call: failure()), 1, 1)

    assert execution.failure_class == "server-error"
    assert len(execution.attempts) == 3


def test_no_more_questions_are_under_way_than_the_runner_allows() -> None:
    adapter = Simulated(lambda call: 1.0)

    executions = ask_all(adapter, 6, 2)

    started = sorted(execution.started_at for execution in executions)
    assert [(moment - started[0]).total_seconds() for moment in started] == [0, 0, 1, 1, 2, 2]
    assert adapter.closed == 1


@pytest.mark.parametrize(("own", "most"), [(None, 14), (3, 3)], ids=["that of the sweep", "its own"])
def test_the_concurrency_of_the_sweep_holds_for_a_runner_without_its_own(own: int | None, most: int) -> None:
    adapter = Simulated(lambda call: 1.0)

    ask_all(adapter, 20, own, of_sweep=14)

    assert adapter.most_at_once == most
