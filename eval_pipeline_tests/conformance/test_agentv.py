"""AgentV's recorded facts, one case per row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eval_pipeline.scores.evaluate import negated
from eval_pipeline.scores.model import Finding, Outcome
from eval_pipeline_tests.conformance.agentv_graders import GRADER_KINDS
from eval_pipeline_tests.conformance.agentv_loading import LOADING_KINDS
from eval_pipeline_tests.conformance.agentv_outputs import OUTPUT_KINDS
from eval_pipeline_tests.conformance.agentv_programs import is_about_programs
from eval_pipeline_tests.conformance.agentv_rows import (
    BUILT_KINDS,
    SESSION_KINDS,
    UNBUILT_KINDS,
    agrees,
    answer_of,
    asked_test,
    carry_out,
    kinds_of,
    verdict_of,
)
from eval_pipeline_tests.conformance.differences import difference_of
from eval_pipeline_tests.conformance.facts import Row, row_params

ELSEWHERE = GRADER_KINDS | OUTPUT_KINDS | LOADING_KINDS  # test_agentv_graders.py, _outputs.py, _loading.py


def _is_own(row: Row | None) -> bool:
    """What programs score is in test_agentv_programs.py."""
    return row is None or not (row.kind in ELSEWHERE or is_about_programs(row))


OWN_ROWS = [param for param in row_params("agentv") if _is_own(param.values[0])]


@pytest.mark.parametrize("row", OWN_ROWS)
def test_we_answer_as_agentv_does(row: Row, record_property: Callable[[str, object], None]) -> None:
    check = CHECKS.get(row.kind)
    if check is None:
        pytest.skip(f"not built yet: {row.file}: {row.kind}")
    _skip_what_is_not_built(row)
    difference = difference_of(row)
    if difference is not None:
        record_property("difference", difference.name)
        difference.check(row)
        return
    check(row)


def _skip_what_is_not_built(row: Row) -> None:
    data = row.data
    failed = data.get("failure_reason_code") == "provider_error"
    unbuilt = sorted({kind for kind in kinds_of(row) if kind in UNBUILT_KINDS})
    if row.kind == "test-aggregate" and data.get("execution_status") == "execution_error" and not failed:
        pytest.skip(f"not built yet: what fails here is {_what_failed(row)}")
    if row.kind == "test-aggregate" and "turns" in data["config"]:
        pytest.skip("not built yet: conversations with turns")
    if unbuilt:
        pytest.skip(f"not built yet: {', '.join(unbuilt)}")
    if row.kind in ("test-aggregate", "observed-test") and not kinds_of(row) and not failed:
        pytest.skip("not built yet: the default grader of a test without evaluators")
    if _lacks_its_own_measure(row):
        pytest.skip("the row does not hold the measure that its score comes from")


def _what_failed(row: Row) -> str:
    code = row.data.get("failure_reason_code")
    return str(code) if code is not None else "a transform, a dependency or a hook"


def _lacks_its_own_measure(row: Row) -> bool:
    """Whole-test rows record scores of measures that the target reported, but not always the measures."""
    needed = {"latency": "duration_ms", "cost": "cost_usd", "token-usage": "token_usage"}
    if row.kind != "test-aggregate":
        return False
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

    outcome = negated(Outcome(value, "as recorded", findings))

    assert value is None or agrees(outcome.value, row)
    assert verdict_of(outcome.value) == row.data.get("verdict", verdict_of(outcome.value))
    assert value is None or [one.passed for one in outcome.findings] == row.data["observed_passed"]


def _whole_test(row: Row) -> None:
    carried = carry_out(asked_test(row), answer_of(row))

    verdict, asserted = carried.verdict, row.data["asserted"]
    assert verdict is not None, carried.errors
    if row.data.get("execution_status") == "execution_error":
        assert (carried.status, verdict.score) == ("execution_error", None)
        return
    assert agrees(verdict.score, row) or not {"score", "score_bounds"} & set(asserted)
    assert carried.status == row.data.get("execution_status") or "execution_status" not in asserted
    names = ("name", "type", "score", "verdict")
    observed = [tuple(one[name] for name in names) for one in row.data["evaluator_scores_observed"]]
    assert [(one.evaluator, one.type, one.value, verdict_of(one.value)) for one in carried.scores] == observed


def _observed_test(row: Row) -> None:
    carried = carry_out(asked_test(row), answer_of(row))

    observed = row.data["observed"]
    assert carried.verdict is not None, carried.errors
    assert [_as_observed(score) for score in carried.scores] == observed["evaluators"]
    assert carried.verdict.score == pytest.approx(observed["score"], abs=1e-12)
    assert carried.status == observed["execution_status"]


def _as_observed(score: Any) -> dict[str, Any]:
    return {
        "name": score.evaluator,
        "type": score.type,
        "score": score.value,
        "weight": score.weight,
        "verdict": verdict_of(score.value),
    }


CHECKS: dict[str, Callable[[Row], None]] = {
    **dict.fromkeys(BUILT_KINDS, _one_evaluator),
    "negate": _negation,
    "test-aggregate": _whole_test,
    "observed-test": _observed_test,
}
