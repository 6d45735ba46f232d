"""Limits hold over the processes of a shared warehouse: pauses of providers, and budgets of sweeps."""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from eval_pipeline.executions.pauses import limit_of
from eval_pipeline.sweeps.budget import Budget, Limits
from eval_pipeline.sweeps.month_budgets import MonthBudget
from eval_pipeline.warehouse.ducklake import DuckLakeWarehouse
from eval_pipeline.warehouse.leases import Leases
from eval_pipeline_tests.builders import a_runner
from eval_pipeline_tests.local_server import Received, Reply, chat_reply, serve
from eval_pipeline_tests.team.conftest import machine
from eval_pipeline_tests.team.sweeping import CountedProject
from eval_pipeline_tests.team.test_machines import ended, until


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


def test_refusals_that_one_process_sees_make_the_others_slower(two: tuple[Leases, Leases]) -> None:
    one, other = two
    calls = a_runner("chat", "chat", settings={"base_url": "https://api.example.com/v1"})
    refused, alone = (limit_of(calls, 16, time.monotonic, leases.pauses) for leases in two)

    with one.held("a"), other.held("b"):
        for _ in range(5):
            refused.record_result(refused.record_start(), refused=True)  # without Retry-After
        until(lambda: other.pauses.slowed("api.example.com")[0] != 0, within_s=20)
        asyncio.run(alone.acquire())

        assert alone.limit == 12
        assert one.pauses.slowed("api.example.com")[0] == 0, "its own refusals are no news to it"


@pytest.mark.slow
def test_two_processes_share_the_limit_of_a_provider(url: str, tmp_path: Path) -> None:
    provider = _Provider()
    with serve(provider.answer) as server:
        roots = [provider.project(tmp_path / name, url, server.url) for name in ("one", "two")]
        sweeps = [CountedProject(tmp_path, url).start(root, "--refresh", "all") for root in roots]
        for sweep, root in zip(sweeps, roots, strict=True):
            ended(sweep, root)

    assert provider.most_at_once(both_since_s=3.0) <= 4
    assert len(provider.calls) == 2 * provider.CASES


class _Provider:
    """A provider that answers after a while once both processes have called it, and knows when it was called."""

    CASES = 48

    def __init__(self) -> None:
        self.calls: list[tuple[float, float, str]] = []
        self._callers: set[str] = set()
        self._both = threading.Event()

    def answer(self, request: Received) -> Reply:
        model = request.json["model"]
        self._callers.add(model)
        if len(self._callers) == 2:
            self._both.set()
        self._both.wait(60)
        begun = time.monotonic()
        time.sleep(0.4)
        self.calls.append((begun, time.monotonic(), model))
        return chat_reply("answer")

    def project(self, root: Path, url: str, address: str) -> Path:
        """Write a project with a runner that is called as the folder is."""
        (root / "suites").mkdir(parents=True)
        tests = [{"id": f"c{n}", "input": f"c{n}", "assertions": [{"type": "contains", "value": "answer"}]}
                 for n in range(self.CASES)]  # fmt: skip
        (root / "suites" / "s.json").write_text(json.dumps({"name": "s", "tests": tests}))
        runner = {"name": root.name, "adapter": "chat", "base_url": f"{address}/v1", "model": root.name}
        (root / "runners.yaml").write_text(json.dumps({"runners": [runner]}))
        limits = {urlsplit(address).netloc: {"concurrency": 4}}
        settings = {"suites": ["suites"], "warehouse": url, "defaults": {"providers": limits}}
        (root / "eval-pipeline.yaml").write_text(json.dumps(settings))
        return root

    def most_at_once(self, both_since_s: float) -> int:
        """Return the most calls at once, from so long after both processes had begun until the first had ended."""
        by_process = [[call for call in self.calls if call[2] == name] for name in ("one", "two")]
        since = max(calls[0][0] for calls in by_process) + both_since_s
        up_to = min(calls[-1][1] for calls in by_process)
        times = [begun for begun, _, _ in self.calls if since <= begun <= up_to]
        assert len(times) > 10, "they were not called at the same time"
        return max(sum(begun <= at < ended for begun, ended, _ in self.calls) for at in times)


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
