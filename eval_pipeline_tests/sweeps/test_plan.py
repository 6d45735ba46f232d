"""What a plan foresees is what the run then does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eval_pipeline.executions.planning import CaseFilter
from eval_pipeline.sweeps.estimates import wall_seconds
from eval_pipeline.sweeps.options import STAGES, SweepOptions
from eval_pipeline.sweeps.outcomes import SweepCounts
from eval_pipeline.sweeps.plan import SweepPlan, plan_sweep
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, contains

Change = Callable[[ProjectFolder], object]
CELL = PairKey("sums", "echo")


def foreseen(folder: ProjectFolder, **options: Any) -> SweepPlan:
    (one,) = plan_sweep(folder.session(), [CELL], SweepOptions(**options))
    return one


def counted(counts: SweepCounts) -> dict[str, int]:
    return {name: getattr(counts, name) for name in ("planned", "reused", "executed", "rescored")}


def says(planned: int, reused: int, executed: int, rescored: int) -> dict[str, int]:
    return {"planned": planned, "reused": reused, "executed": executed, "rescored": rescored}


def nothing(folder: ProjectFolder) -> None:
    """Leaves everything as it is."""


EARLY = {"trials": {"count": 3, "strategy": "pass_at_k", "early_exit": True}}
# Before: `a` passes, `b` fails, `c` crashes.
CASES = (a_test("a", tags=["t"]), a_test("b", contains("9")), a_test("c"))
SITUATIONS: dict[str, tuple[Change, dict[str, Any], dict[str, int]]] = {
    "unchanged": (nothing, {}, says(3, 2, 1, 0)),
    "failed-again": (nothing, {"refresh": "failed"}, says(3, 1, 2, 0)),
    "all-again": (nothing, {"refresh": "all"}, says(3, 0, 3, 0)),
    "one-case-asked-for": (nothing, {"cases": CaseFilter(ids=frozenset({"a"}))}, says(1, 1, 0, 0)),
    "one-tag-asked-for": (nothing, {"cases": CaseFilter(tags=frozenset({"t"}))}, says(1, 1, 0, 0)),
    "more-repetitions": (nothing, {"repetitions": 2}, says(6, 2, 4, 0)),
    "another-threshold": (nothing, {"threshold": 0.1}, says(3, 0, 1, 0)),
    "edited-evaluator": (
        lambda folder: folder.write_suite(a_test("a", contains("apples"), tags=["t"]), *CASES[1:]),
        {}, says(3, 1, 1, 1),
    ),
    "edited-case": (
        lambda folder: folder.write_suite(a_test("a", text="2 pears", tags=["t"]), *CASES[1:]),
        {}, says(3, 1, 2, 0),
    ),
    "new-case": (lambda folder: folder.write_suite(*CASES, a_test("d")), {}, says(4, 2, 2, 0)),
    "removed-case": (lambda folder: folder.write_suite(*CASES[:2]), {}, says(2, 2, 0, 0)),
    "edited-runner": (lambda folder: folder.write_runners(a_runner_entry(model="m")), {}, says(3, 0, 3, 0)),
    "suite-for-another-runner": (
        lambda folder: folder.write_suite(*CASES, execution={"target": "other"}), {}, says(0, 0, 0, 0),
    ),
    "runner-chosen-by-name": (
        lambda folder: folder.write_suite(*CASES, execution={"target": "other"}),
        {"any_runner": True}, says(3, 2, 1, 0),
    ),
    "scores-only": (nothing, {"stages": STAGES[1:], "threshold": 0.1}, says(3, 0, 0, 0)),
    "executions-only": (nothing, {"stages": STAGES[:1], "threshold": 0.1}, says(3, 2, 1, 0)),
    "case-without-cache": (
        lambda folder: folder.write_suite(a_test("a", tags=["t"], execution={"cache": False}), *CASES[1:]),
        {}, says(3, 1, 2, 0),
    ),
    "a-pass-settles-the-case": (
        lambda folder: folder.write_suite(*CASES[:1], execution=EARLY), {}, says(1, 1, 0, 0),
    ),
    "a-stored-pass-settles-nothing-when-all-is-anew": (
        lambda folder: folder.write_suite(CASES[1], execution=EARLY),
        {"refresh": "all"}, says(3, 0, 3, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "options", "expected"), SITUATIONS.values(), ids=SITUATIONS)
def test_a_run_does_what_its_plan_said(
    folder: ProjectFolder, change: Change, options: dict[str, Any], expected: dict[str, int]
) -> None:
    folder.write_suite(*CASES)
    folder.write_answers(c="crash")
    folder.sweep_once()
    folder.take_calls()
    change(folder)

    planned = foreseen(folder, **options)

    assert folder.take_calls() == []
    assert counted(planned.counts) == expected
    assert counted(folder.sweep(**options)) == expected
    assert len(folder.take_calls()) == expected["executed"]


def test_before_the_first_run_everything_is_to_be_executed(folder: ProjectFolder) -> None:
    assert counted(foreseen(folder).counts) == says(2, 0, 2, 0)


def test_a_plan_writes_nothing(folder: ProjectFolder) -> None:
    for file in folder.data.iterdir():
        file.unlink()
    folder.data.rmdir()

    foreseen(folder)

    assert not folder.data.exists()


def test_a_plan_counts_what_a_killed_sweep_had_executed(folder: ProjectFolder) -> None:
    folder.sweep_once()
    left_over(folder)

    planned = foreseen(folder)

    assert counted(planned.counts) == counted(folder.sweep())


def left_over(folder: ProjectFolder) -> None:
    """Makes the stored executions a journal again, as a sweep leaves it that is killed before it stores a cell."""
    journal = folder.data / "journals" / "20200101T000000.000000-dead" / "echo" / "sums"
    journal.mkdir(parents=True)
    with folder.session().warehouse.transaction() as connection:
        connection.execute(f"COPY target_executions TO '{journal}/target_executions.jsonl' (FORMAT json)")
        for table in ("target_executions", "session_reports", "evaluator_scores", "verdicts"):
            connection.execute(f"DELETE FROM {table}")


# Cost


def test_the_cost_is_estimated_from_what_executions_of_the_runner_cost(folder: ProjectFolder) -> None:
    folder.write_answers(a={"output": "2", "cost_usd": 0.2}, b={"output": "2", "cost_usd": 0.4})
    folder.sweep_once()

    assert foreseen(folder, refresh="all").estimate.cost_usd == pytest.approx(0.6)
    assert foreseen(folder).estimate.cost_usd == 0.0


def test_the_cost_on_a_new_suite_is_estimated_from_the_others(folder: ProjectFolder) -> None:
    folder.write_answers(a={"output": "2", "cost_usd": 0.2}, b={"output": "2", "cost_usd": 0.4})
    folder.sweep_once()
    folder.write_suite(a_test("x"), name="new")

    (one,) = plan_sweep(folder.session(), [PairKey("new", "echo")], SweepOptions())

    assert one.estimate.cost_usd == pytest.approx(0.3)


def test_a_cost_that_nobody_ever_reported_is_unknown_and_not_zero(folder: ProjectFolder) -> None:
    folder.sweep_once()

    assert foreseen(folder, refresh="all").estimate.cost_usd is None


# What it takes, and what it can show


def test_time_calls_and_tokens_are_estimated_from_earlier_executions(folder: ProjectFolder) -> None:
    folder.write_suite(*(a_test(name) for name in "abcdefgh"))
    folder.write_runners(a_runner_entry(concurrency=2))
    before = foreseen(folder)
    folder.sweep_once()

    after = foreseen(folder, refresh="all", repetitions=2)

    assert (before.estimate.calls, before.estimate.seconds) == (None, None)
    assert after.estimate.calls == 16
    assert after.estimate.seconds is not None
    session = folder.session()
    wall = wall_seconds([after], session.runner, SweepOptions())
    assert wall == pytest.approx(after.estimate.seconds / 2)
    assert wall_seconds([after], session.runner, SweepOptions(concurrency=1)) == pytest.approx(after.estimate.seconds)
    assert wall_seconds([before], session.runner, SweepOptions()) is None


def test_what_differences_can_be_shown_follows_from_earlier_results(folder: ProjectFolder) -> None:
    folder.write_suite(*(a_test(name) for name in "abcdefgh"))
    unknown = foreseen(folder)
    folder.write_runners(a_runner_entry(), a_runner_entry("other"))
    folder.sweep_cells([CELL])
    folder.write_answers(a="no")
    folder.sweep_cells([PairKey("sums", "other")])

    assert unknown.detectable == pytest.approx(0.70, abs=0.01)
    assert foreseen(folder, repetitions=2).detectable == pytest.approx(2.802 * (0.125 / 8) ** 0.5, abs=0.001)
