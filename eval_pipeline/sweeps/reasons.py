"""Why plans whose content was never executed are to be executed: compared with what was executed of the same cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from eval_pipeline.executions.identity import PlanIdentity
from eval_pipeline.executions.model import Plan
from eval_pipeline.sweeps.pairs import Pair
from eval_pipeline.warehouse.store import Warehouse
from eval_pipeline.warehouse.stored_identities import LastExecution, last_executions, stored_runner

NEW_PAIR = "never executed with this runner"
NEW_CASE = "new case"
NEW_REPETITION = "new repetition"
OLDER = "changed since an older version stored it"
_PARTS = {
    "input": "changed input",
    "conversation": "changed conversation",
    "user": "changed simulated user or canned answers of tools",
    "case": "changed fields of the case that the target reads",
    "workspace": "changed workspace",
    "metadata": "changed metadata, which hooks receive",
}
MOST_NAMES = 4


def reasons_of_new(warehouse: Warehouse, pair: Pair, plans: Sequence[Plan]) -> Counter[str]:
    """Return how many of these plans, of which nothing is stored, are executed for which reason."""
    last = last_executions(warehouse, pair.name) if plans else {}
    if not last:
        return Counter({NEW_PAIR: len(plans)} if plans else {})
    comparison = _Comparison(warehouse, pair, last)
    return Counter(comparison.reason(plan) for plan in plans)


class _Comparison:
    """The plans of a pair against what was executed of it last."""

    def __init__(self, warehouse: Warehouse, pair: Pair, last: Mapping[tuple[str, int], LastExecution]) -> None:
        self._warehouse = warehouse
        self._pair = pair
        self._last = last
        self._cases = {case_id for case_id, _ in last}
        self._identity = PlanIdentity(pair.name.suite, pair.runner_identity, pair.content_of)
        self._runners: dict[str, str] = {}

    def reason(self, plan: Plan) -> str:
        """Return the reason of one plan."""
        before = self._last.get((plan.case.id, plan.repetition))
        if before is None:
            return NEW_REPETITION if plan.case.id in self._cases else NEW_CASE
        changes = [] if before.runner_revision == self._pair.revision else [self._runner(before.runner_revision)]
        if before.identity is not None:
            now = self._identity.parts(plan.case)
            changes += [text for part, text in _PARTS.items() if before.identity.get(part) != now.get(part)]
        return ", ".join(changes) or OLDER

    def _runner(self, revision: str) -> str:
        if revision not in self._runners:
            self._runners[revision] = self._changes_of_runner(revision)
        return self._runners[revision]

    def _changes_of_runner(self, revision: str) -> str:
        before = stored_runner(self._warehouse, self._pair.name.runner, revision)
        if before is None:
            return "changed runner"
        runner = self._pair.runner
        names = [*_differing(before.settings, runner.public_settings)]
        if before.content is not None:
            names += _differing(before.content, self._pair.runner_identity.content)
        if before.adapter != runner.adapter:
            names.insert(0, "adapter")
        more = [f"{len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []
        return f"changed runner ({', '.join([*names[:MOST_NAMES], *more])})" if names else "changed runner"


def _differing(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
