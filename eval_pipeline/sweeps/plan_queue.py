"""The order in which the plans of a pair begin: a plan that depends on another case waits for it, and a case that an
early repetition has settled needs no later one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from eval_pipeline.executions.model import Plan


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """What became of a plan: whether the target finished, whether the plan passed, what it cost in USD, and which
    repetition it is (0: not said)."""

    completed: bool
    passed: bool
    cost_usd: float | None = None
    repetition: int = 0


@dataclass(slots=True)
class PlanQueue:
    """The plans of one pair, each when it may begin.

    `reuse(plan)` returns what became of a plan that need not be executed (None: it has to be). With `one_by_one` the
    repetitions of a case follow each other, and `is_enough(plan, settled)` returns whether those so far make it
    needless; `skip` is called with what is left out. With `dependent` plans wait for those in their `after`.
    """

    plans: Iterator[Plan]
    reuse: Callable[[Plan], PlanOutcome | None]
    one_by_one: bool = False
    is_enough: Callable[[Plan, list[PlanOutcome]], bool] = lambda plan, settled: False
    skip: Callable[[Plan], None] = lambda plan: None
    dependent: bool = False
    _settled: dict[str, PlanOutcome] = field(default_factory=dict)
    _of_case: dict[str, list[PlanOutcome]] = field(default_factory=dict)
    _later: dict[str, deque[Plan]] = field(default_factory=dict)
    _waiting: dict[str, list[Plan]] = field(default_factory=dict)
    _missing: dict[str, int] = field(default_factory=dict)
    _ready: deque[Plan] = field(default_factory=deque)
    _drained: bool = False

    def next(self) -> Plan | None:
        """Return the next plan to execute; None while every other plan waits."""
        while self._ready or not self._drained:
            plan = self._ready.popleft() if self._ready else next(self.plans, None)
            if plan is None:
                self._drained = True
                continue
            settled = self.reuse(plan)
            if settled is not None:
                self.settle(plan, settled)
            elif not (self.one_by_one and self._is_later(plan)) and not (self.dependent and self._waits(plan)):
                return plan
        return None

    @property
    def over(self) -> bool:
        """Return whether no plan is left, not even one that waits."""
        return self._drained and not (self._ready or self._missing or any(self._later.values()))

    def settle(self, plan: Plan, settled: PlanOutcome) -> None:
        """Record what became of a plan: what waited for it may begin."""
        if self.one_by_one:
            self._of_case.setdefault(plan.case.id, []).append(replace(settled, repetition=plan.repetition))
            later = self._later.get(plan.case.id)
            if later:
                self._ready.append(later.popleft())
        if self.dependent:
            self._settled[plan.key] = settled
            self._release(plan.key)

    def lacks(self, plan: Plan) -> bool:
        """Return whether a plan that this one depends on was not carried out."""
        return any(not self._settled[key].completed for key in plan.after if key in self._settled)

    def _is_later(self, plan: Plan) -> bool:
        """Whether a repetition is not to begin now: an earlier one is under way, or has settled the case."""
        before = self._of_case.get(plan.case.id, [])
        if len(before) < plan.repetition - 1:
            self._later.setdefault(plan.case.id, deque()).append(plan)
            return True
        if before and self.is_enough(plan, before):
            self.skip(plan)
            self.settle(plan, PlanOutcome(completed=True, passed=True))
            return True
        return False

    def _waits(self, plan: Plan) -> bool:
        missing = [key for key in plan.after if key not in self._settled]
        for key in missing:
            self._waiting.setdefault(key, []).append(plan)
        if missing:
            self._missing[plan.key] = len(missing)
        return bool(missing)

    def _release(self, key: str) -> None:
        for plan in self._waiting.pop(key, ()):
            self._missing[plan.key] -= 1
            if not self._missing[plan.key]:
                del self._missing[plan.key]
                self._ready.append(plan)
