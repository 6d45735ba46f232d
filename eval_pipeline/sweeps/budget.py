"""What a sweep may spend, has spent, and holds back for what is under way.

A plan begins only while something is left of every budget that it counts against (the sweep's, its suite's, its
case's) after what is under way is taken off. What is under way counts with an estimate: the mean of what the runner's
executions cost in this sweep, else in earlier ones. A budget is therefore overshot by no more than the last execution
to begin, and by what those under way cost above their estimates. As long as nothing is known of a runner's cost, one
execution is under way at a time.

Processes that carry out one sweep together learn of each other's spending within two seconds
(`warehouse/shared_limits.py`): each overshoots by what it has under way, and by what it begins meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from eval_pipeline.executions.model import Plan
from eval_pipeline.sweeps.month_budgets import MonthBudget
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.shared_limits import Amounts


class Spending(NamedTuple):
    """What something cost: USD and tokens (None: unknown), and calls of targets and graders."""

    usd: float | None = None
    calls: int = 0
    tokens: int | None = None


NO_SPENDING = Spending()


class Limits(NamedTuple):
    """The most that may be spent; None: no limit."""

    usd: float | None = None
    calls: int | None = None
    tokens: int | None = None


MEASURES = Limits._fields
_GRADINGS = "(gradings)"
"""In place of a runner's name: what gradings cost that belong to no plan."""


@dataclass(slots=True)
class _Account:
    """What was spent against limits, and the plans under way: their estimates (None of a measure: unknown), and what
    their failed attempts cost so far. `elsewhere` is what other processes have spent, `before_usd` what earlier
    sweeps had."""

    name: str
    limits: Limits
    spent: dict[str, float] = field(default_factory=lambda: dict.fromkeys(MEASURES, 0.0))
    before_usd: float = 0.0
    under_way: dict[str, Spending] = field(default_factory=dict)
    attempted: dict[str, Spending] = field(default_factory=dict)
    elsewhere: Amounts = (0.0, 0.0, 0.0)

    def add(self, spending: Spending) -> None:
        for measure in MEASURES:
            self.spent[measure] += getattr(spending, measure) or 0

    def exhausted(self) -> str | None:
        """Return what is used up, in words; None while something is left."""
        for measure, limit in self._limited():
            if self.own(measure) + self.elsewhere[MEASURES.index(measure)] >= limit:
                return f"the budget of {self.name} is spent ({_amount(measure, limit)})"
        return None

    def is_held_back(self) -> bool:
        """Return whether those under way may need what is left."""
        for measure, limit in self._limited():
            reserved = [getattr(estimate, measure) for estimate in self.under_way.values()]
            spent = self.spent[measure] + self.elsewhere[MEASURES.index(measure)]
            if None in reserved or (reserved and spent + sum(reserved) >= limit):
                return True
        return False

    def own(self, measure: str) -> float:
        """Return what this process has spent, failed attempts of what is under way included."""
        attempted = list(self.attempted.values())
        return self.spent[measure] + sum(getattr(spending, measure) or 0 for spending in attempted)

    def here(self, measure: str) -> float:
        """Return what this process has spent since its sweep began."""
        return self.own(measure) - (self.before_usd if measure == "usd" else 0.0)

    def _limited(self) -> Iterator[tuple[str, float]]:
        return ((measure, limit) for measure, limit in zip(MEASURES, self.limits, strict=True) if limit is not None)


def _account_of_month(month: MonthBudget) -> _Account:
    account = _Account(month.title, Limits(usd=month.limit_usd))
    account.add(Spending(usd=month.spent_usd))
    account.before_usd = month.spent_usd
    return account


def _amount(measure: str, limit: float) -> str:
    return f"{limit:g} USD" if measure == "usd" else f"{limit:,.0f} {measure}"


class _Mean:
    """The mean of what is known; None before anything is."""

    def __init__(self) -> None:
        self._sum, self._known, self._count = 0.0, 0, 0

    def add(self, value: float | None) -> None:
        self._count += 1
        if value is not None:
            self._sum, self._known = self._sum + value, self._known + 1

    @property
    def value(self) -> float | None:
        return self._sum / self._known if self._known else None

    @property
    def is_unknown(self) -> bool:
        """Whether there were values, and all of them unknown."""
        return bool(self._count) and not self._known


class Budget:
    """The budgets of a sweep: `limits` of all of it, those that suites and cases have, and that of the month.

    `suite_limit` returns a suite's limit in USD, `earlier` what an execution of a pair cost on average in earlier
    sweeps (USD; None: unknown), `before` is what the sweep spent in other processes. `is_limited` is False where
    nothing has a limit.
    """

    def __init__(
        self,
        limits: Limits = Limits(),  # noqa: B008 — immutable
        suite_limit: Callable[[str], float | None] = lambda suite: None,
        earlier: Callable[[PairKey], float | None] = lambda pair: None,
        *,
        month: MonthBudget | None = None,
        before: Spending = NO_SPENDING,
        is_limited: bool = True,
    ) -> None:
        self.is_limited = is_limited
        self._sweep = _Account("the run", limits)
        self._sweep.add(before)
        self._month = _account_of_month(month) if month is not None else None
        self.month_account = month.account if month is not None else ""
        self._suite_limit = suite_limit
        self._earlier = earlier
        self._suites: dict[str, _Account] = {}
        self._elsewhere: Mapping[str, Amounts] = {}
        self._cases: dict[tuple[str, str, str], _Account] = {}
        self._means: dict[str, dict[str, _Mean]] = {}
        self._first: dict[PairKey, float | None] = {}
        self._waiting: list[asyncio.Future[None]] = []

    def totals(self) -> dict[str, Amounts]:
        """Return what this process has spent of the limits that several processes share: '' is the sweep's, others
        have the name of a suite, that of the month its own."""
        accounts = self._shared_accounts()
        spent = {name: tuple(map(account.here, MEASURES)) for name, account in accounts.items() if any(account.limits)}
        return {name: (usd, calls, tokens) for name, (usd, calls, tokens) in spent.items()}

    def _shared_accounts(self) -> dict[str, _Account]:
        months = {} if self._month is None else {self.month_account: self._month}
        return {"": self._sweep, **self._suites, **months}

    def see(self, elsewhere: Mapping[str, Amounts]) -> None:
        """Count what other processes of the sweep have spent, by the names that `totals` has."""
        self._elsewhere = elsewhere
        for name, account in self._shared_accounts().items():
            account.elsewhere = elsewhere.get(name, account.elsewhere)

    def refusal(self, plan: Plan) -> str | None:
        """Return why a plan must not begin (any more), None while something is left of its budgets."""
        accounts = self._accounts(plan)
        spent = next((reason for account in accounts if (reason := account.exhausted()) is not None), None)
        return spent or next((reason for account in accounts if (reason := self._uncounted(account, plan))), None)

    def grading_refusal(self, suite: str) -> str | None:
        """Return why nothing of a suite may be graded any more, None while something is left."""
        reasons = (account.exhausted() for account in self._of_suite(suite))
        return next((reason for reason in reasons if reason is not None), None)

    def hold(self, plan: Plan) -> asyncio.Future[None] | None:
        """Reserve the estimated cost of a plan that may begin. While those under way may need the rest, return what to
        wait for before asking again; a plan that is to be refused need not wait."""
        accounts = self._accounts(plan)
        if not accounts or self.refusal(plan) is not None:
            return None
        return self._hold(accounts, plan.key, self._estimate(plan))

    def _hold(self, accounts: Sequence[_Account], key: str, estimate: Spending) -> asyncio.Future[None] | None:
        if any(account.is_held_back() for account in accounts):
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            return future
        for account in accounts:
            account.under_way[key] = estimate
        return None

    def hold_grading(self, suite: str, key: str) -> asyncio.Future[None] | None:
        """Reserve for a grading that belongs to no plan of the sweep what the gradings before it cost on average: that
        of an anchor. See `hold`; `settle_grading` gives it back."""
        if self.grading_refusal(suite) is not None:
            return None
        usd, tokens = (0.0 if mean.is_unknown else mean.value for mean in self._means_of(_GRADINGS).values())
        estimate = Spending(usd, 1, None if tokens is None else int(tokens))
        return self._hold(self._of_suite(suite), key, estimate)

    def settle_grading(self, suite: str, key: str, spending: Spending) -> None:
        """Record what such a grading cost, and give its reservation back."""
        for measure, mean in self._means_of(_GRADINGS).items():
            mean.add(getattr(spending, measure))
        for account in self._of_suite(suite):
            account.add(spending)
            account.under_way.pop(key, None)
        self._wake()

    def retry(self, plan: Plan, attempted: Spending) -> None:
        """Record what the attempts of a plan under way have cost so far."""
        for account in self._accounts(plan):
            account.attempted[plan.key] = attempted

    def settle(self, plan: Plan, spending: Spending, *, completed: bool = True) -> None:
        """Record what an execution cost, its grading included, and give its reservation back."""
        if self.is_limited and spending.calls and completed:
            for measure, mean in self._means_of(plan.runner.name).items():
                mean.add(getattr(spending, measure))
        self.spend(plan, spending)
        self.release(plan)

    def spend(self, plan: Plan, spending: Spending) -> None:
        """Record what something beside an execution cost: the grading of a turn, or of a stored report."""
        for account in self._accounts(plan):
            account.add(spending)

    def release(self, plan: Plan) -> None:
        """Give back what is reserved for a plan, and let waiting plans try again."""
        for account in self._accounts(plan):
            account.under_way.pop(plan.key, None)
            account.attempted.pop(plan.key, None)
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _accounts(self, plan: Plan) -> list[_Account]:
        """The accounts with a limit that a plan counts against."""
        if not self.is_limited:
            return []
        accounts = self._of_suite(plan.suite)
        if plan.case.budget_usd is not None:
            key = (plan.suite, plan.runner.name, plan.case.id)
            name, limits = f"case '{plan.case.id}'", Limits(usd=plan.case.budget_usd)
            accounts.append(self._cases.setdefault(key, _Account(name, limits)))
        return accounts

    def _of_suite(self, suite: str) -> list[_Account]:
        if suite not in self._suites:
            account = _Account(f"suite '{suite}'", Limits(usd=self._suite_limit(suite)))
            account.elsewhere = self._elsewhere.get(suite, account.elsewhere)
            self._suites[suite] = account
        limited = [account for account in (self._sweep, self._suites[suite]) if any(account.limits)]
        return limited if self._month is None else [*limited, self._month]

    def _means_of(self, runner: str) -> dict[str, _Mean]:
        return self._means.setdefault(runner, {"usd": _Mean(), "tokens": _Mean()})

    def _estimate(self, plan: Plan) -> Spending:
        means = self._means_of(plan.runner.name)
        usd, tokens = (0.0 if mean.is_unknown else mean.value for mean in means.values())
        return Spending(usd if usd is not None else self._usd_before(plan), 1, None if tokens is None else int(tokens))

    def _usd_before(self, plan: Plan) -> float | None:
        pair = PairKey(plan.suite, plan.runner.name)
        if pair not in self._first:
            self._first[pair] = self._earlier(pair)
        return self._first[pair]

    def _uncounted(self, account: _Account, plan: Plan) -> str | None:
        """Return why an account cannot hold for a runner: nothing that it limits is reported."""
        limits = [*zip(MEASURES, account.limits, strict=True), *zip(MEASURES, self._sweep.limits, strict=True)]
        limited = {measure for measure, limit in limits if limit is not None}
        means = self._means_of(plan.runner.name)
        if any(measure not in means or not means[measure].is_unknown for measure in limited):
            return None
        what = "cost" if "usd" in limited else "tokens"
        return f"the budget of {account.name} cannot hold: {unknown_cost(plan.runner.name, what)}"


def unknown_cost(runner: str, what: str = "cost") -> str:
    """Return what is missing of a runner, and what to do."""
    if what == "tokens":
        return f"runner '{runner}' reports no tokens; set a budget in USD (--budget) or calls (--budget-calls)"
    return (
        f"the cost of runner '{runner}' is unknown: give it `prices` (`per_call: 0` where it is free), or limit the "
        "run by --budget-calls or --budget-tokens"
    )
