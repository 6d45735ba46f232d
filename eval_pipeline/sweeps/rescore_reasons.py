"""Why stored answers are scored again, or their verdicts updated: compared with what they were decided from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import orjson

from eval_pipeline.executions.model import Plan
from eval_pipeline.fingerprints import to_json
from eval_pipeline.sweeps.decisions import PairRules, is_ungraded
from eval_pipeline.sweeps.evaluator_specs import graders_of
from eval_pipeline.sweeps.grading import Graders
from eval_pipeline.warehouse import rows
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.store import Warehouse
from eval_pipeline.warehouse.stored_identities import LastDecision, last_decisions, stored_specs
from eval_pipeline.warehouse.stored_pairs import StoredExecution, has_other_tags

NEVER = "never scored"
UNGRADED = "not graded last time"
THRESHOLD = "changed threshold"
NORMALIZER = "another normalizer"
TAGS = "changed tags"
PRICES = "changed prices"
OLDER = "evaluators that an older version did not record"
OTHER = "changed expectation of the case"
FACETS = {
    "evaluator": "name", "type": "type", "version": "version", "arguments": "arguments", "negated": "negation",
    "files": "files", "graders": "grader", "reads": "fields of the case that it reads", "pass_mark": "threshold",
    "weight": "weight", "minimum": "gate", "failure_class": "failure class",
}  # fmt: skip
"""What of an evaluator may have changed, by column of `evaluator_specs`."""

Stored = tuple[Plan, StoredExecution]


def reasons_of_stored(
    warehouse: Warehouse, rules: PairRules, graders: Graders, stored: Sequence[Stored]
) -> Counter[str]:
    """Return how many stored answers are scored again, or updated, for which reason."""
    if not stored:
        return Counter()
    comparison = _Comparison(warehouse, rules, graders)
    return Counter(comparison.reason(plan, execution) for plan, execution in stored)


class _Comparison:
    """The evaluators of a pair against those that its stored verdicts were decided by."""

    def __init__(self, warehouse: Warehouse, rules: PairRules, graders: Graders) -> None:
        self._warehouse = warehouse
        self._rules = rules
        self._graders = graders

    @cached_property
    def _decisions(self) -> Mapping[str, LastDecision]:
        return last_decisions(self._warehouse, self._rules.pair.name)

    @cached_property
    def _specs(self) -> Mapping[str, Row]:
        return stored_specs(self._warehouse, self._rules.pair.name)

    def reason(self, plan: Plan, stored: StoredExecution) -> str:
        """Return the reason of one answer."""
        before = self._decisions.get(stored.execution_id)
        if before is None:
            return NEVER
        if is_ungraded(stored, plan.case, self._rules):
            return UNGRADED
        return ", ".join(dict.fromkeys(self._changes(plan, stored, before))) or OTHER

    def _changes(self, plan: Plan, stored: StoredExecution, before: LastDecision) -> Iterable[str]:
        limit = plan.case.threshold if plan.case.threshold is not None else self._rules.threshold
        if before.threshold != limit:
            yield THRESHOLD
        if stored.normalizer != self._rules.normalizer_of(stored.format or ""):
            yield NORMALIZER
        if stored.decision_key != self._rules.decision_key_of(plan.case):
            yield from self._evaluators(plan, before.score_keys)
        if has_other_tags(stored, plan.case):
            yield TAGS
        if self._rules.has_other_prices(stored):
            yield PRICES

    def _evaluators(self, plan: Plan, keys: Sequence[str]) -> Iterable[str]:
        if any(key not in self._specs for key in keys):
            yield OLDER
            return
        now, before = self._today(plan), [self._specs[key] for key in keys]
        if not before:
            return
        for row in now:
            same = _same(row, before)
            if same is None:
                yield f"new evaluator '{row['evaluator']}'"
                continue
            before.remove(same)
            facets = [text for name, text in FACETS.items() if row[name] != same[name]]
            if facets:
                yield f"changed evaluator '{row['evaluator']}' ({', '.join(facets)})"
        yield from (f"evaluator '{row['evaluator']}' left out" for row in before)

    def _today(self, plan: Plan) -> list[Row]:
        """The evaluators of a case as they would be stored."""
        pair = self._rules.pair
        made = [
            rows.spec_row(bound, graders_of(bound, pair, self._graders), pair.name.suite, pair.name.runner)
            for bound in self._rules.evaluators.of(plan.case)
        ]
        stored: list[Row] = orjson.loads(to_json(made))
        return stored


def _same(row: Row, before: Sequence[Row]) -> Row | None:
    """Return the earlier evaluator that is the same: by its key, else its name, else what decides its value."""
    for name in ("spec_key", "evaluator", "score_key"):
        for each in before:
            if each[name] == row[name]:
                return each
    return None
