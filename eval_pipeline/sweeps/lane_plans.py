"""The order in which the pairs of one runner are carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from eval_pipeline.executions.model import Plan
from eval_pipeline.sweeps.pair_execution import PairExecution


class LanePlans:
    """The plans of a lane that need the target, pair after pair. `checked` is called with a pair that has none now.

    The iterator may be exhausted and yield more later: plans that wait for others begin when those are settled.
    """

    def __init__(self, executions: Sequence[PairExecution], checked: Callable[[PairExecution], None]) -> None:
        self._open = list(executions)
        self._checked = checked

    def __iter__(self) -> Iterator[Plan]:
        return self

    def __next__(self) -> Plan:
        for execution in list(self._open):
            if execution.under_way >= execution.most_under_way:
                continue
            plan = self._next_of(execution)
            if plan is not None:
                execution.under_way += 1
                return plan
            self._checked(execution)
            if execution.over:
                self._open.remove(execution)
        raise StopIteration

    @staticmethod
    def _next_of(execution: PairExecution) -> Plan | None:
        try:
            return execution.next_plan()
        except Exception as error:  # noqa: BLE001 — a pair whose history cannot be read must not stop the others
            execution.fault = execution.fault or error
            return None
