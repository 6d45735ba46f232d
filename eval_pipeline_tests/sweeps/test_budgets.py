"""Budgets through whole sweeps: how far they can be overshot, what counts, and that all of them hold. And limits of
how much runs at the same time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.cli.checks import check_files
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.preflight import preflight
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test

SLOW = """
import json, pathlib, threading, time
from eval_pipeline.executions.model import TargetFailure
from eval_pipeline.failures import TARGET_ERROR
HERE = pathlib.Path(__file__).parent
LOCK, UNDER_WAY = threading.Lock(), {}


def note(name, step):
    with LOCK:
        UNDER_WAY[name] = UNDER_WAY.get(name, 0) + step
        file = HERE / f"most-{name}.txt"
        most = int(file.read_text()) if file.exists() else 0
        file.write_text(str(max(most, UNDER_WAY[name])))


def answer(prompt, case, runner="echo"):
    names = (case.id.split("-")[0], runner, "all")
    for name in names:
        note(name, 1)
    with (HERE / "calls.txt").open("a") as calls:
        calls.write(f"{runner}/{case.id}\\n")
    time.sleep(0.03)
    for name in names:
        note(name, -1)
    if "fail" in prompt:
        raise TargetFailure(TARGET_ERROR, "no line", retryable=True)
    return json.loads((HERE / "answer.json").read_text())
"""
REASONS = "SELECT DISTINCT error FROM target_executions WHERE failure_class = 'budget-exceeded'"


@pytest.fixture
def slow(folder: ProjectFolder) -> ProjectFolder:
    """A project whose target takes 30 ms and costs 0.40 USD and 100 tokens a call; 20 cases; ten at once."""
    (folder.root / "slow.py").write_text(SLOW)
    answers(folder, output="2", cost_usd=0.4, usage={"input_tokens": 90, "output_tokens": 10})
    folder.write_runners(slow_runner())
    folder.write_suite(*(a_test(f"a-{number}") for number in range(20)))
    return folder


def slow_runner(name: str = "echo", **fields: Any) -> dict[str, Any]:
    return a_runner_entry(name, **{"function": "slow:answer", "concurrency": 10, **fields})


def answers(folder: ProjectFolder, **answer: Any) -> None:
    (folder.root / "answer.json").write_text(json.dumps(answer))


def most(folder: ProjectFolder, name: str) -> int:
    """The most calls at the same time."""
    return int((folder.root / f"most-{name}.txt").read_text())


def reasons(folder: ProjectFolder) -> list[str]:
    return sorted(reason for (reason,) in folder.ask(REASONS))


# What is under way


def test_what_is_under_way_is_reserved(slow: ProjectFolder) -> None:
    """Item 13: ten calls under way at 0.40 USD overshot a budget of 1.00 USD by 3.00 USD."""
    counts = slow.sweep(budget_usd=1.0)

    assert counts.cost_usd == pytest.approx(1.2)
    assert (len(slow.take_calls()), counts.refused) == (3, 17)
    assert reasons(slow) == ["not executed: the budget of the run is spent (1 USD)"]


def test_what_earlier_sweeps_cost_is_the_estimate_of_the_next(slow: ProjectFolder) -> None:
    slow.sweep(budget_usd=0.1)

    counts = slow.sweep(budget_usd=2.0, refresh="all")

    assert counts.cost_usd == pytest.approx(2.0)
    assert most(slow, "all") == 5


def test_two_runners_share_what_is_left(slow: ProjectFolder) -> None:
    slow.write_runners(slow_runner("one"), slow_runner("two"))

    slow.sweep_cells([PairKey("sums", "one"), PairKey("sums", "two")], budget_usd=2.0)

    assert len(slow.take_calls()) == 5


@pytest.mark.parametrize(("limits", "calls"), [({"budget_calls": 7}, 7), ({"budget_tokens": 450}, 5)])
def test_calls_and_tokens_can_be_limited(slow: ProjectFolder, limits: dict[str, Any], calls: int) -> None:
    slow.sweep(**limits)

    assert len(slow.take_calls()) == calls


# What counts


def test_failed_attempts_count_and_retries_end_with_the_budget(slow: ProjectFolder) -> None:
    """Item 10 of what money does: failed attempts were free."""
    slow.write_suite(*(a_test(f"a-{number}", text="fail") for number in range(5)))
    retries = {"max_retries": 3, "initial_delay_s": 0.01}
    slow.write_runners(slow_runner(prices={"per_call": 0.1}, retries=retries, concurrency=1))

    slow.sweep(budget_usd=0.25)

    assert len(slow.take_calls()) == 3


def test_failed_attempts_cost_the_same_when_a_report_is_priced_again(slow: ProjectFolder) -> None:
    early = 'len((HERE / "calls.txt").read_text().split()) < 3'
    (slow.root / "slow.py").write_text(SLOW.replace('"fail" in prompt', early))
    answers(slow, output="2")
    slow.write_suite(a_test("a-1"))
    retries = {"max_retries": 3, "initial_delay_s": 0.01}
    cost = "SELECT cost_usd FROM session_reports"
    slow.write_runners(slow_runner(prices={"per_call": 0.1}, retries=retries))
    slow.sweep()
    assert slow.ask(cost) == [(pytest.approx(0.3),)]
    slow.write_runners(slow_runner(prices={"per_call": 0.2}, retries=retries))

    slow.sweep()

    assert slow.ask(cost) == [(pytest.approx(0.6),)]


def test_what_was_never_attempted_costs_nothing(slow: ProjectFolder) -> None:
    """Item 10 of what money does: a budget of 0.50 USD ended after 1 call, with 20 charged."""
    answers(slow, output="2")
    slow.write_runners(slow_runner(prices={"per_call": 0.1}))

    counts = slow.sweep(budget_usd=0.5)

    assert len(slow.take_calls()) == 5
    assert counts.cost_usd == pytest.approx(0.5)
    assert slow.ask("SELECT DISTINCT cost_usd FROM session_reports WHERE failure_class IS NOT NULL") == [(None,)]


def test_a_budget_of_unknown_costs_stops_after_the_first_answer(slow: ProjectFolder) -> None:
    """Item 13: it never stopped."""
    answers(slow, output="2")

    slow.sweep(budget_usd=5.0)

    assert len(slow.take_calls()) == 1
    assert "the cost of runner 'echo' is unknown: give it `prices`" in reasons(slow)[0]


def test_a_budget_of_calls_holds_where_costs_are_unknown(slow: ProjectFolder) -> None:
    answers(slow, output="2")

    slow.sweep(budget_usd=5.0, budget_calls=6)

    assert len(slow.take_calls()) == 6


def test_a_target_that_is_free_may_have_a_budget(slow: ProjectFolder) -> None:
    slow.write_runners({"name": "echo", "adapter": "mock", "response": "2"})

    assert slow.sweep(budget_usd=0.01).passed == 20


# All of them hold


def test_a_budget_of_the_run_does_not_switch_a_suites_own_off(slow: ProjectFolder) -> None:
    slow.write_suite(*(a_test(f"a-{number}") for number in range(20)), execution={"total_budget_usd": 0.8})

    slow.sweep(budget_usd=100.0)

    assert len(slow.take_calls()) == 2
    assert reasons(slow) == ["not executed: the budget of suite 'sums' is spent (0.8 USD)"]


@pytest.mark.parametrize("name", ["budget_usd", "total_budget_usd", "budgetUsd"])
def test_a_test_has_a_budget_of_its_own(slow: ProjectFolder, name: str) -> None:
    slow.write_suite(a_test("a-1", execution={name: 0.7}), a_test("b-1"))

    slow.sweep(repetitions=4)

    assert slow.take_calls() == ["echo/a-1"] * 2 + ["echo/b-1"] * 4
    assert reasons(slow) == ["not executed: the budget of case 'a-1' is spent (0.7 USD)"]


# At the same time


def test_one_worker_of_a_suite_holds_against_the_runners_concurrency(slow: ProjectFolder) -> None:
    slow.write_suite(*(a_test(f"a-{number}") for number in range(6)), execution={"workers": 1})
    slow.write_suite(*(a_test(f"b-{number}") for number in range(12)), name="other")

    slow.sweep_cells([PairKey("sums", "echo"), PairKey("other", "echo")])

    assert most(slow, "a") == 1
    assert most(slow, "b") > 1


def test_a_runners_concurrency_holds_against_a_suites_workers(slow: ProjectFolder) -> None:
    slow.write_runners(slow_runner(concurrency=2))
    slow.write_suite(*(a_test(f"a-{number}") for number in range(12)), execution={"workers": 8})

    slow.sweep()

    assert most(slow, "all") == 2


def test_the_projects_concurrency_is_of_all_runners_together(slow: ProjectFolder, tmp_path: Path) -> None:
    (slow.root / "eval-pipeline.yaml").write_text(json.dumps({"suites": ["suites"], "defaults": {"concurrency": 3}}))
    slow.write_runners(slow_runner("one"), slow_runner("two"))
    defaults = slow.session().project.defaults

    slow.sweep_cells([PairKey("sums", "one"), PairKey("sums", "two")], defaults=defaults)

    assert most(slow, "all") == 3


# Before anything runs


def chat(folder: ProjectFolder, **fields: Any) -> None:
    """A model that nothing can reach, and a suite that a model grades."""
    model = {"adapter": "chat", "model": "m", "base_url": "http://127.0.0.1:9", "api_key": "k"}
    folder.write_runners({"name": "one", **model, **fields}, {"name": "two", **model})
    folder.write_suite({"id": "a", "input": "x", "assertions": ["Is polite"]})


def test_a_budget_of_a_model_without_prices_is_an_error_before_anything_runs(folder: ProjectFolder) -> None:
    chat(folder)
    session = folder.session()
    session.load_suites()
    pairs = session.pairs([PairKey("sums", "one")])

    (error,) = preflight(session, pairs, SweepOptions(budget_usd=5)).errors.values()

    assert "the budget of the run (5 USD) cannot hold: the cost of runner 'one' is unknown" in str(error)
    assert preflight(session, pairs, SweepOptions(budget_usd=5, budget_calls=9)).errors == {}
    assert preflight(session, pairs, SweepOptions()).errors == {}


@pytest.mark.parametrize(
    ("grader", "warnings"),
    [(None, ["runner 'one' grades its own answers in"]), ("two", ["('two' is the same model)"]), ("other", [])],
)
def test_a_model_that_grades_itself_is_a_warning(
    folder: ProjectFolder, grader: str | None, warnings: list[str]
) -> None:
    chat(folder)
    entries = json.loads((folder.root / "runners.yaml").read_text())["runners"]
    folder.write_runners(*entries, {"name": "other", "adapter": "mock", "response": "{}"})
    session = folder.session()
    session.load_suites()

    reported = preflight(session, session.pairs([PairKey("sums", "one")]), SweepOptions(grader=grader)).warnings

    assert [part in text for part, text in zip(warnings, reported, strict=True)] == [True] * len(warnings)


def test_validate_warns_of_a_model_that_grades_itself(folder: ProjectFolder) -> None:
    chat(folder)

    checked = check_files(folder.session(), (), folder.root)

    warnings = [finding.message for finding in checked.findings if finding.severity == "warning"]
    assert len(warnings) == 2
    assert warnings[0].startswith("runner 'one' grades its own answers")
