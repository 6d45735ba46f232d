"""Limits hold over the processes of a shared warehouse: pauses of providers, and budgets of sweeps."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from eval_pipeline.sweeps.budget import Budget, Limits
from eval_pipeline.sweeps.month_budgets import MonthBudget
from eval_pipeline.warehouse.ducklake import DuckLakeWarehouse
from eval_pipeline.warehouse.leases import Leases
from eval_pipeline_tests.team.conftest import machine
from eval_pipeline_tests.team.test_machines import until


@pytest.fixture
def two(url: str, lake: DuckLakeWarehouse, tmp_path: Path) -> tuple[Leases, Leases]:
    """The leases of one warehouse, as two processes have them."""
    other = machine(url, tmp_path / "two").leases
    assert lake.leases is not None
    assert other is not None
    return lake.leases, other


def test_a_pause_that_one_process_reports_holds_for_the_others(two: tuple[Leases, Leases]) -> None:
    one, other = two

    with one.held("a"), other.held("b"):
        one.pauses.report("api.example.com", 30.0)
        until(lambda: other.pauses.until("api.example.com") > time.monotonic() + 20.0, within_s=20)
        other.pauses.report("api.example.com", 1.0)  # a shorter one ends nothing
        other.pauses.exchange()
        one.pauses.exchange()

        assert one.pauses.until("api.example.com") > time.monotonic() + 5.0
        assert other.pauses.until("elsewhere.example.com") == -math.inf


def test_the_budget_of_a_sweep_counts_what_its_other_processes_spend(two: tuple[Leases, Leases]) -> None:
    one, other = two
    spent = {"": (0.0, 0.0, 0.0)}
    same, another = Budget(Limits(usd=1.0)), Budget(Limits(usd=1.0))

    with one.held("a") as first, other.held("a") as second, one.held("b") as third:
        first.spending.share(lambda: dict(spent), lambda others: None)
        second.spending.share(same.totals, same.see)
        third.spending.share(another.totals, another.see)
        assert same.grading_refusal("s") is None
        spent[""] = (1.5, 2.0, 0.0)
        until(lambda: same.grading_refusal("s") is not None, within_s=20)

        third.spending.exchange()
        assert another.grading_refusal("s") is None


def test_a_process_that_joins_later_knows_what_a_dead_one_spent(two: tuple[Leases, Leases]) -> None:
    one, other = two
    with one.held("a") as dead:
        dead.spending.share(lambda: {"": (0.75, 3.0, 0.0), "s": (0.75, 0.0, 0.0)}, lambda others: None)
    budget = Budget(Limits(usd=0.7))

    with other.held("a") as alive:
        alive.spending.share(budget.totals, budget.see)

        assert budget.grading_refusal("s") == "the budget of the run is spent (0.7 USD)"


def test_processes_share_the_concurrency_that_a_runner_sets(two: tuple[Leases, Leases]) -> None:
    one, other = two
    assert [one.pauses.sharers("chat"), other.pauses.sharers("chat")] == [1, 1]

    with one.held("a"), other.held("b"):
        until(lambda: one.pauses.sharers("chat") == other.pauses.sharers("chat") == 2, within_s=20)

        assert one.pauses.sharers("elsewhere") == 1


def test_the_budget_of_a_month_counts_what_sweeps_of_its_name_spend_meanwhile(two: tuple[Leases, Leases]) -> None:
    one, other = two
    stored = {"a": 0.25}  # what the warehouse had of the first sweep when the second began
    month = MonthBudget("nightly", 1.0, 0.25, month="2026-11", by_sweep=stored)
    budget = Budget(month=month)
    spent = {month.account: (0.5, 0.0, 0.0)}

    with one.held("a") as first, other.held("b") as second:
        first.spending.share(lambda: dict(spent), lambda others: None, {month.account: {}})
        second.spending.share(budget.totals, budget.see, {month.account: month.by_sweep})
        assert budget.grading_refusal("s") is None, "0.25 stored, 0.25 more under way elsewhere"
        spent[month.account] = (1.0, 0.0, 0.0)
        until(lambda: budget.grading_refusal("s") is not None, within_s=20)

    another = Budget(month=MonthBudget("weekly", 1.0, 0.0, month="2026-11"))
    with other.held("c") as third:
        third.spending.share(another.totals, another.see, {another.month_account: {}})
        assert another.grading_refusal("s") is None
