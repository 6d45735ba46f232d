"""What a pair has planned in all, whatever part of it a sweep selects: boards know by it what is still missing."""

from __future__ import annotations

from eval_pipeline.executions.planning import CaseFilter, pair_cases
from eval_pipeline.executions.sampling import difficulty_of
from eval_pipeline.suites.model import Case
from eval_pipeline.sweeps.decisions import PairRules
from eval_pipeline.sweeps.pairs import (
    ends_early,
    groups_of_case,
    repeat_budget_of,
    repetitions_of,
    repetitions_of_case,
    tries_of,
    weights_of,
)
from eval_pipeline.warehouse.pair_statistics import PlannedCase, PlannedPair


def planned_pair(rules: PairRules, sweep_id: str) -> PlannedPair:
    """Return everything that a pair has planned: its cases of the statuses that the options name. Repetitions that
    options set hold for the cases that they select."""
    pair, options = rules.pair, rules.options
    suite = pair.ready.suite
    cases = pair_cases(suite, pair.runner, options.cases.whole, any_runner=options.any_runner)
    chosen = options.cases.on(suite)
    return PlannedPair(
        pair=pair.name,
        sweep_id=sweep_id,
        suite_revision=suite.revision,
        runner_revision=pair.revision,
        broken=len(pair.ready.errors) * repetitions_of(pair, options),
        cases=[_planned_case(case, rules, chosen) for case in cases],
    )


def _planned_case(case: Case, rules: PairRules, chosen: CaseFilter) -> PlannedCase:
    pair, options = rules.pair, rules.options
    if not chosen(case):
        options = options.model_copy(update={"repetitions": None, "on_failure": None})
    planned, tries = repetitions_of_case(pair, case, options), tries_of(pair, case, options)
    least = min(groups_of_case(pair, case, options), tries) if tries > 1 else planned
    early = ends_early(pair, case) or repeat_budget_of(pair, case) is not None
    return PlannedCase(
        case_id=case.id,
        planned=planned,
        least=1 if early else least,
        decision_key=rules.decision_key_of(case),
        cluster=_cluster(case, options.defaults.cluster_by),
        weight=weights.get(difficulty_of(case), 1.0) if (weights := weights_of(pair, options)) else None,
    )


def _cluster(case: Case, key: str | None) -> str | None:
    value = case.metadata.get(key) if key is not None else None
    return None if value is None else str(value)
