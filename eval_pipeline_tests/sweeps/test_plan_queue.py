"""In which order plans begin: dependencies first, and no repetition that nobody needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from eval_pipeline.executions.model import Plan
from eval_pipeline.sweeps.plan_queue import PlanOutcome, PlanQueue
from eval_pipeline_tests.builders import a_case, a_plan

PASSED, FAILED = (
    PlanOutcome(completed=True, passed=True, cost_usd=1.0),
    PlanOutcome(completed=True, passed=False, cost_usd=1.0),
)
BROKEN = PlanOutcome(completed=False, passed=False)


def plan(case: str, repetition: int = 1, after: Sequence[str] = ()) -> Plan:
    made = a_plan(a_case(case), repetition=repetition)
    return replace(made, key=f"{case}/{repetition}", after=tuple(f"{other}/{repetition}" for other in after))


def queue(plans: Iterable[Plan], known: dict[str, PlanOutcome] | None = None, **options: object) -> PlanQueue:
    return PlanQueue(plans=iter(plans), reuse=lambda plan: (known or {}).get(plan.key), **options)  # type: ignore[arg-type]


def keys(waiting: PlanQueue) -> list[str]:
    """What may begin now."""
    actual = []
    while (plan := waiting.next()) is not None:
        actual.append(plan.key)
    return actual


def test_plans_begin_in_their_order() -> None:
    waiting = queue([plan("a"), plan("b")])

    assert keys(waiting) == ["a/1", "b/1"]
    assert waiting.over


def test_what_is_known_is_not_begun() -> None:
    waiting = queue([plan("a"), plan("b")], {"a/1": PASSED})

    assert keys(waiting) == ["b/1"]


def test_a_case_begins_when_all_it_depends_on_is_settled() -> None:
    plans = [plan("last", after=["first", "second"]), plan("first"), plan("second")]
    waiting = queue(plans, dependent=True)

    assert keys(waiting) == ["first/1", "second/1"]
    waiting.settle(plans[1], PASSED)
    assert keys(waiting) == []
    assert not waiting.over
    waiting.settle(plans[2], BROKEN)
    assert keys(waiting) == ["last/1"]
    assert waiting.lacks(plans[0])
    assert waiting.over


def test_a_known_case_lets_those_begin_that_depend_on_it() -> None:
    waiting = queue([plan("last", after=["first"]), plan("first")], {"first/1": PASSED}, dependent=True)

    assert keys(waiting) == ["last/1"]
    assert not waiting.lacks(plan("last", after=["first"]))


def test_repetitions_of_a_case_follow_each_other_while_other_cases_go_on() -> None:
    plans = [plan("a", 1), plan("a", 2), plan("a", 3), plan("b", 1), plan("b", 2)]
    waiting = queue(plans, one_by_one=True)

    assert keys(waiting) == ["a/1", "b/1"]
    waiting.settle(plans[0], FAILED)
    assert keys(waiting) == ["a/2"]


def test_what_a_settled_case_does_not_need_is_left_out() -> None:
    plans = [plan("a", number) for number in (1, 2, 3, 4)]
    left_out: list[str] = []
    waiting = queue(
        plans,
        one_by_one=True,
        is_enough=lambda plan, settled: any(one.passed for one in settled),
        skip=lambda plan: left_out.append(plan.key),
    )

    assert keys(waiting) == ["a/1"]
    waiting.settle(plans[0], FAILED)
    assert keys(waiting) == ["a/2"]
    waiting.settle(plans[1], PASSED)
    assert keys(waiting) == []
    assert left_out == ["a/3", "a/4"]
    assert waiting.over
