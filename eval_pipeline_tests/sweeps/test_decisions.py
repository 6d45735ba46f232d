"""What happens to a plan, decided from what is stored of it: a table of every situation. That plan and run follow these
decisions alike is in `test_plan.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eval_pipeline.executions.model import Plan
from eval_pipeline.reports.normalize import normalizer_version
from eval_pipeline.scores.evaluate import EvaluatorSet
from eval_pipeline.suites.model import SuiteSettings
from eval_pipeline.sweeps.decisions import Decision, PairRules, decide_plan, decision_key, is_settled
from eval_pipeline.sweeps.options import EXECUTE, SweepOptions
from eval_pipeline.sweeps.pairs import Pair, ValidatedSuite
from eval_pipeline.sweeps.plan_queue import PlanOutcome
from eval_pipeline.warehouse.stored_pairs import StoredExecution
from eval_pipeline_tests.builders import a_case, a_runner, a_suite, an_evaluator

EXECUTED = StoredExecution(
    key="k",
    execution_id="e1",
    valid=True,
    format="replay",
    sweep_id="earlier",
    report_normalizer=normalizer_version("replay"),
    decision_key="as now",
    normalizer=normalizer_version("replay"),
    status="passed",
    suite_revision="old",
    failure_class=None,
    cost_usd=None,
    tags="",
)
"""An execution that passed; its decision key is filled in with what applies now."""
FAILED = EXECUTED._replace(status="failed", failure_class="wrong-answer")
NOT_GRADED = EXECUTED._replace(status="error", failure_class="evaluator")
INVALID = EXECUTED._replace(valid=False, status="error", failure_class="timeout")
ASKS_A_MODEL = {"evaluators": (an_evaluator("llm-grader"),)}

SITUATIONS: dict[str, tuple[StoredExecution | None, dict[str, Any], dict[str, Any], Decision]] = {
    "never-executed": (None, {}, {}, Decision.EXECUTE),
    "passed": (EXECUTED, {}, {}, Decision.REUSE),
    "failed": (FAILED, {}, {}, Decision.REUSE),
    "target-failed": (INVALID, {}, {}, Decision.EXECUTE),
    "passed-and-failures-anew": (EXECUTED, {"refresh": "failed"}, {}, Decision.REUSE),
    "failed-and-failures-anew": (FAILED, {"refresh": "failed"}, {}, Decision.EXECUTE),
    "without-verdict-and-failures-anew": (EXECUTED._replace(status=None), {"refresh": "failed"}, {}, Decision.EXECUTE),
    "all-anew": (EXECUTED, {"refresh": "all"}, {}, Decision.EXECUTE),
    "all-anew-but-resumed": (EXECUTED, {"refresh": "all", "resume": "earlier"}, {}, Decision.REUSE),
    "all-anew-resumed-but-invalid": (INVALID, {"refresh": "all", "resume": "earlier"}, {}, Decision.EXECUTE),
    "all-anew-and-another-resumed": (EXECUTED, {"refresh": "all", "resume": "other"}, {}, Decision.EXECUTE),
    "case-without-cache": (EXECUTED, {}, {"cache": False}, Decision.EXECUTE),
    "case-without-cache-when-nothing-is-executed": (
        EXECUTED, {"stages": ("session_reports", "evaluator_scores")}, {"cache": False}, Decision.REUSE,
    ),
    "decided-otherwise": (EXECUTED._replace(decision_key="other"), {}, {}, Decision.RESCORE),
    "another-threshold": (EXECUTED, {"threshold": 0.1}, {}, Decision.RESCORE),
    "without-verdict": (EXECUTED._replace(decision_key=None, status=None), {}, {}, Decision.RESCORE),
    "older-normalizer": (EXECUTED._replace(normalizer="replay/0"), {}, {}, Decision.RESCORE),
    "decided-otherwise-but-only-executing": (
        EXECUTED._replace(decision_key="other"), {"stages": (EXECUTE,)}, {}, Decision.REUSE,
    ),
    "grader-was-down": (NOT_GRADED, {}, ASKS_A_MODEL, Decision.RESCORE),
    "grader-was-down-and-failures-anew": (NOT_GRADED, {"refresh": "failed"}, ASKS_A_MODEL, Decision.RESCORE),
    "other-tags": (EXECUTED, {}, {"tags": ("t",)}, Decision.UPDATE),
    "other-prices": (EXECUTED._replace(prices="other"), {}, {}, Decision.UPDATE),
    "cost-as-reported": (EXECUTED._replace(prices="reported"), {}, {}, Decision.REUSE),
    "tried-again-in-vain": (EXECUTED._replace(superseded=True), {}, {}, Decision.EXECUTE),
    "tried-again-in-vain-when-nothing-is-executed": (
        EXECUTED._replace(superseded=True), {"stages": ("session_reports", "evaluator_scores")}, {}, Decision.REUSE,
    ),
    "evaluator-broke": (NOT_GRADED, {}, {}, Decision.REUSE),
}  # fmt: skip


@pytest.mark.parametrize(("stored", "options", "case", "expected"), SITUATIONS.values(), ids=SITUATIONS)
def test_what_happens_to_a_plan(
    stored: StoredExecution | None, options: dict[str, Any], case: dict[str, Any], expected: Decision
) -> None:
    the_case = a_case(**{"evaluators": (an_evaluator("contains", value="4"),), **case})
    suite = a_suite(the_case)
    pair = Pair(ready=ValidatedSuite(suite=suite, errors=()), runner=a_runner(), revision="r")
    evaluators = EvaluatorSet(suite)
    now = decision_key(the_case, [bound.key for bound in evaluators.of(the_case)], 0.8)
    if stored is not None and stored.decision_key == "as now":
        stored = stored._replace(decision_key=now)
    threshold = options.get("threshold", 0.8)
    rules = PairRules(pair=pair, options=SweepOptions(**options), evaluators=evaluators, threshold=threshold)

    plan = Plan(suite=suite.name, case=the_case, runner=pair.runner, repetition=1, key="k")

    assert decide_plan(stored, plan, rules) is expected


PASSED, NOT_PASSED = PlanOutcome(True, True, 0.4), PlanOutcome(True, False, 0.4)


@pytest.mark.parametrize(
    ("settings", "outcomes", "expected"),
    [
        pytest.param({}, [PASSED], False, id="every-repetition-counts"),
        pytest.param({"early_exit": True}, [], False, id="nothing-yet"),
        pytest.param({"early_exit": True}, [NOT_PASSED], False, id="none-passed"),
        pytest.param({"early_exit": True}, [NOT_PASSED, PASSED], True, id="one-passed"),
        pytest.param({"early_exit": True}, [PlanOutcome(False, True)], False, id="one-did-not-complete"),
        pytest.param({"repeat_budget_usd": 1.0}, [PASSED, PASSED], False, id="budget-left"),
        pytest.param({"repeat_budget_usd": 0.8}, [NOT_PASSED, NOT_PASSED], True, id="budget-spent"),
        pytest.param({"repeat_budget_usd": 0.8}, [PlanOutcome(True, False, None)] * 9, False, id="cost-unknown"),
    ],
)
def test_earlier_repetitions_settle_a_case(
    settings: dict[str, Any], outcomes: list[PlanOutcome], expected: bool
) -> None:
    suite = replace(a_suite(), settings=SuiteSettings(**settings))
    pair = Pair(ready=ValidatedSuite(suite=suite, errors=()), runner=a_runner(), revision="r")

    later = Plan(suite="s", case=suite.cases[0], runner=pair.runner, repetition=len(outcomes) + 1, key="k")
    assert is_settled(pair, later, outcomes, SweepOptions()) is expected
