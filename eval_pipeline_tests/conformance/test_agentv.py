"""AgentV's recorded facts, one case per row."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eval_pipeline.scores.evaluate import negate_outcome
from eval_pipeline.scores.model import Finding, Outcome
from eval_pipeline_tests.conformance.agentv_graders import GRADER_KINDS
from eval_pipeline_tests.conformance.agentv_hooks import HOOK_ROWS, check_hook
from eval_pipeline_tests.conformance.agentv_loading import LOADING_KINDS
from eval_pipeline_tests.conformance.agentv_programs import is_about_programs
from eval_pipeline_tests.conformance.agentv_rows import (
    KINDS_HERE,
    SESSION_KINDS,
    agrees,
    answer_of,
    asked_test,
    carry_out,
    stop_of,
    verdict_of,
)
from eval_pipeline_tests.conformance.agentv_stops import STOPS
from eval_pipeline_tests.conformance.agentv_whole_tests import (
    check_observed_test,
    check_whole_test,
    lacks_its_replies,
)
from eval_pipeline_tests.conformance.old_differences import difference_of
from eval_pipeline_tests.conformance.recorded_facts import Row, row_params
from eval_pipeline_tests.conformance.test_agentv_outputs import OUTPUT_KINDS

ELSEWHERE = GRADER_KINDS | OUTPUT_KINDS | LOADING_KINDS  # test_agentv_graders.py, _outputs.py, _loading.py


def _is_own(row: Row | None) -> bool:
    """What programs score is in test_agentv_programs.py."""
    return row is None or not (row.kind in ELSEWHERE or is_about_programs(row) or row.file == HOOK_ROWS)


def _is_about_hooks(row: Row | None) -> bool:
    return row is None or row.file == HOOK_ROWS


ROWS = row_params("agentv")
OWN_ROWS = [param for param in ROWS if _is_own(param.values[0])]


@pytest.mark.parametrize("row", OWN_ROWS)
def test_we_answer_as_agentv_does(row: Row, record_property: Callable[[str, object], None]) -> None:
    check = CHECKS.get(row.kind)
    if check is None:
        pytest.skip(f"nothing here knows how rows of this kind are carried out: {row.file}: {row.kind}")
    _skip_what_is_not_recorded(row)
    difference = difference_of(row)
    if difference is not None:
        record_property("difference", difference.name)
        difference.check(row)
        return
    check(row)


@pytest.mark.parametrize("row", [param for param in ROWS if _is_about_hooks(param.values[0])])
def test_our_hooks_are_told_what_agentvs_are(row: Row) -> None:
    check_hook(row)


def _skip_what_is_not_recorded(row: Row) -> None:
    """Rows that leave out what their number comes from cannot be carried out by anybody."""
    if row.kind not in ("test-aggregate", "observed-test"):
        return
    if row.kind == "test-aggregate" and _lacks_its_own_measure(row):
        pytest.skip("the row does not hold the measure that its score comes from")
    if lacks_its_replies(row):
        pytest.skip("the row does not hold the grader's reply")
    if stop_of(row) not in (None, *STOPS):
        pytest.skip(f"the row does not hold what stopped the test: {stop_of(row)}")


def _lacks_its_own_measure(row: Row) -> bool:
    """Whole-test rows record scores of measures that the target reported, but not always the measures."""
    needed = {"latency": "duration_ms", "cost": "cost_usd", "token-usage": "token_usage"}
    scored = {score["type"]: score["score"] for score in row.data.get("evaluator_scores_observed") or ()}
    answer = answer_of(row)
    unmeasured = {kind for kind, name in needed.items() if getattr(answer, name) is None}
    if answer.messages is None and answer.trace is None:
        unmeasured |= SESSION_KINDS
    return any(scored.get(kind) == 1 for kind in unmeasured)


def _one_evaluator(row: Row) -> None:
    carried = carry_out(asked_test(row), answer_of(row))

    (score,) = carried.scores
    asserted = row.data["asserted"]
    assert agrees(score.value, row) or not {"score", "score_bounds"} & set(asserted)
    assert verdict_of(score.value) == row.data.get("verdict") or "verdict" not in asserted


def _negation(row: Row) -> None:
    inner = row.data["inner_result"]
    value = None if inner["verdict"] == "skip" else inner["score"]
    findings = tuple(Finding(one["text"], one["passed"]) for one in inner["assertions"])

    outcome = negate_outcome(Outcome(value, "as recorded", findings))

    assert value is None or agrees(outcome.value, row)
    assert verdict_of(outcome.value) == row.data.get("verdict", verdict_of(outcome.value))
    assert value is None or [one.passed for one in outcome.findings] == row.data["observed_passed"]


CHECKS: dict[str, Callable[[Row], None]] = {
    **dict.fromkeys(KINDS_HERE, _one_evaluator),
    "negate": _negation,
    "test-aggregate": check_whole_test,
    "observed-test": check_observed_test,
}
