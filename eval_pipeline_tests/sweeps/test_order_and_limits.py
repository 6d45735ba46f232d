"""Cases that depend on others, repetitions that end early, suites that stop, budgets of suites, and runners that stand
in for others: through a whole sweep, with a target that remembers its calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.sweeps.sample_project import (
    ProjectFolder,
    a_runner_entry,
    a_test,
    contains,
    make_project,
)

STATUSES = "SELECT case_id, status, failure_class FROM current_verdicts ORDER BY case_id, repetition"


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return make_project(tmp_path / "project")


def calls_in_order(folder: ProjectFolder) -> list[str]:
    return (folder.root / "calls.txt").read_text().split()


def test_a_case_comes_after_those_it_depends_on(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a", depends_on=["b", "c"]), a_test("b"), a_test("c", depends_on=["b"]))

    folder.sweep_once()

    assert calls_in_order(folder) == ["echo/b", "echo/c", "echo/a"]


AFTER_A_CRASH: dict[str, tuple[dict[str, Any], list[str], tuple[str, str, str | None]]] = {
    "skipped": ({}, ["echo/a"], ("b", "error", "dependency-failed")),
    "failed": ({"on_dependency_failure": "fail"}, ["echo/a"], ("b", "failed", "dependency")),
    "carried out": ({"on_dependency_failure": "run"}, ["echo/a", "echo/b"], ("b", "passed", None)),
}


@pytest.mark.parametrize(("fields", "called", "verdict"), AFTER_A_CRASH.values(), ids=AFTER_A_CRASH)
def test_a_case_whose_dependency_was_not_carried_out_is(
    folder: ProjectFolder, fields: dict[str, Any], called: list[str], verdict: tuple[str, str, str | None]
) -> None:
    folder.write_suite(a_test("a"), a_test("b", depends_on=["a"], **fields))
    folder.write_answers(a="crash")

    folder.sweep_once()

    assert folder.take_calls() == called
    assert folder.ask(STATUSES)[1] == verdict


def test_a_wrong_answer_is_no_reason_to_leave_out_what_depends_on_it(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a", contains("nowhere")), a_test("b", depends_on=["a"]))

    folder.sweep_once()

    assert folder.ask(STATUSES) == [("a", "failed", "assertion"), ("b", "passed", None)]


def test_what_was_executed_before_need_not_be_waited_for(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a"))
    folder.sweep_once()
    folder.take_calls()
    folder.write_suite(a_test("a"), a_test("b", depends_on=["a"]))

    folder.sweep()

    assert folder.take_calls() == ["echo/b"]


def test_repetitions_end_with_the_first_that_passes_where_the_suite_says_so(folder: ProjectFolder) -> None:
    trials = {"count": 3, "strategy": "pass_at_k", "early_exit": True}
    folder.write_suite(a_test("a"), a_test("b", contains("nowhere")), execution={"trials": trials})

    counts = folder.sweep()

    assert (counts.planned, counts.skipped, counts.passed, counts.failed) == (4, 2, 1, 3)
    assert folder.take_calls() == ["echo/a", "echo/b", "echo/b", "echo/b"]
    assert folder.ask("SELECT suite_plans, planned, skipped FROM sweep_pairs") == [(4, 4, 2)]
    assert folder.sweep().executed == 0


def test_what_a_case_says_of_its_repetitions_stands_in_place_of_the_suites(folder: ProjectFolder) -> None:
    settings = {"trials": {"count": 3, "strategy": "pass_all"}}
    trials = {"count": 2, "strategy": "pass_at_k", "early_exit": True}
    folder.write_suite(a_test("a", execution=settings), a_test("b"), execution={"trials": trials})

    counts = folder.sweep()

    assert folder.take_calls() == ["echo/a", "echo/a", "echo/a", "echo/b"]
    assert (counts.planned, counts.skipped) == (4, 1)
    assert folder.sweep(repetitions=1).planned == 2


def test_repetitions_end_when_they_have_cost_enough(folder: ProjectFolder) -> None:
    priced = {"output": "2", "cost_usd": 0.4}
    folder.write_suite(a_test("a"), execution={"trials": {"count": 5, "cost_limit_usd": 0.8}})
    folder.write_answers(a=priced)

    counts = folder.sweep()

    assert (counts.executed, counts.skipped) == (2, 3)


STRATEGIES = {
    "pass_at_k": ("passed", 1.0),
    "pass_all": ("failed", 0.0),
    "mean": ("failed", 0.5),
    "confidence_interval": ("failed", 0.0),
}


@pytest.mark.parametrize(("strategy", "result"), STRATEGIES.items(), ids=STRATEGIES)
def test_a_cases_repetitions_become_one_answer_by_the_strategy(
    folder: ProjectFolder, strategy: str, result: tuple[str, float]
) -> None:
    folder.write_suite(a_test("a"), execution={"trials": {"count": 2, "strategy": strategy}})
    folder.sweep_once(repetitions=1)
    folder.write_answers(a="nothing")
    folder.sweep()

    assert folder.ask("SELECT status, score FROM case_results") == [result]
    assert folder.ask("SELECT strategy, repetitions FROM sweep_pairs ORDER BY finished_at") == [
        (strategy, 1),
        (strategy, 2),
    ]


@pytest.mark.parametrize(
    ("suite", "case", "executed"),
    [
        pytest.param({}, {"fail_on_error": True}, 1, id="only this case stops"),
        pytest.param({"fail_on_error": True}, {"fail_on_error": False}, 3, id="all but this case stop"),
        pytest.param({"fail_on_error": True}, {"threshold": 0.5}, 1, id="the case inherits it"),
    ],
)
def test_a_case_stops_its_suite_or_keeps_it_going(
    folder: ProjectFolder, suite: dict[str, bool], case: dict[str, bool], executed: int
) -> None:
    folder.write_runners(a_runner_entry(concurrency=1))
    folder.write_suite(a_test("a", execution=case), a_test("b"), a_test("c"), execution=suite)
    folder.write_answers(a="crash")

    folder.sweep_once()

    assert len(folder.take_calls()) == executed


def test_a_suite_stops_at_its_first_error_where_it_says_so(folder: ProjectFolder) -> None:
    folder.write_runners(a_runner_entry(concurrency=1))
    folder.write_suite(a_test("a"), a_test("b"), a_test("c"), execution={"fail_on_error": True})
    folder.write_answers(a="crash")

    folder.sweep_once()

    assert folder.take_calls() == ["echo/a"]
    assert folder.ask(STATUSES) == [
        ("a", "error", "target-crash"),
        ("b", "error", "stopped"),
        ("c", "error", "stopped"),
    ]


def test_a_suites_budget_ends_that_suite_and_no_other(folder: ProjectFolder) -> None:
    folder.write_runners(a_runner_entry(concurrency=1))
    priced = {"output": "2", "cost_usd": 0.6}
    folder.write_answers(**dict.fromkeys("abcd", priced))
    folder.write_suite(a_test("a"), a_test("b"), a_test("c"), execution={"total_budget_usd": 1.0})
    folder.write_suite(a_test("d"), name="other")

    folder.sweep_cells([PairKey("sums", "echo"), PairKey("other", "echo")])

    assert folder.take_calls() == ["echo/a", "echo/b", "echo/d"]
    assert ("c", "error", "budget-exceeded") in folder.ask(STATUSES)


def test_a_fallback_answers_when_a_runner_cannot_and_the_row_says_who(folder: ProjectFolder) -> None:
    broken = a_runner_entry("echo", function="target:nowhere") | {"fallbacks": ["spare"]}
    folder.write_runners({**broken, "function": "broken:answer"}, a_runner_entry("spare"))
    (folder.root / "broken.py").write_text("def answer(prompt, runner=None):\n    raise OSError('no line')\n")

    folder.sweep_once()

    assert folder.take_calls() == ["spare/a", "spare/b"]
    assert folder.ask("SELECT runner, answered_by, completed FROM target_executions WHERE case_id = 'a'") == [
        ("echo", "spare", True)
    ]


def test_a_suites_own_wishes_come_before_the_projects_and_after_what_is_asked(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "project", defaults={"repeat": 3, "threshold": 0.3})
    half = [contains("2"), contains("nowhere")]
    folder.write_suite(a_test("a", *half), execution={"trials": {"count": 2}, "threshold": 0.6})
    folder.write_suite(a_test("a", *half), name="plain")
    defaults = folder.session().project.defaults

    assert folder.sweep(defaults=defaults).failed == 2
    assert folder.sweep("plain", defaults=defaults).passed == 3
    assert folder.sweep(defaults=defaults, repetitions=1, threshold=0.5).passed == 1


@pytest.mark.parametrize(("second", "status"), [("2", "passed"), ("crash", "error"), ("nothing", "failed")])
def test_a_case_that_has_to_pass_every_time_is_not_passed_when_one_repetition_crashed(
    folder: ProjectFolder, second: str, status: str
) -> None:
    folder.write_suite(a_test("a"), execution={"trials": {"count": 2, "strategy": "pass_all"}})
    folder.sweep_once(repetitions=1)
    folder.write_answers(a=second)
    folder.sweep()

    assert folder.ask("SELECT status FROM case_results") == [(status,)]


def test_a_set_of_evaluators_goes_by_the_threshold_of_the_sweep(folder: ProjectFolder) -> None:
    mean = {"type": "weighted_average"}
    half = {"type": "composite", "name": "half", "aggregator": mean, "assertions": [contains("2"), contains("x")]}
    folder.write_suite(a_test("a", {"type": "assert-set", "assertions": [half, contains("2")]}))

    def passes(**options: Any) -> list[tuple[Any, ...]]:
        folder.sweep(**options)
        return folder.ask("SELECT passes FROM current_scores")

    assert [passes(), passes(threshold=0.4)] == [[(False,)], [(True,)]]
