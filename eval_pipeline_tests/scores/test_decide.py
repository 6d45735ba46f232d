"""From scores to a verdict: the weighted mean, gates, the threshold, what was expected, and what nobody can tell."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.scores.decide import decide, weighted_mean
from eval_pipeline.scores.model import DEFAULT_THRESHOLD, Score, Status, Verdict
from eval_pipeline_tests.builders import a_case
from eval_pipeline_tests.scores.single_scores import a_report

STEADY = settings(derandomize=True, deadline=None)
LARGEST = 1.7976931348623157e308


def a_score(value: float | None, weight: float = 1.0, minimum: float | None = None, **fields: Any) -> Score:
    defaults = {"execution_id": "e1", "spec_key": "k", "evaluator": "check", "type": "contains", "reason": "because"}
    return Score(**{**defaults, **fields}, value=value, weight=weight, minimum=minimum)


def verdict_on(*scores: Score, report: Any = None, threshold: float = DEFAULT_THRESHOLD, **case_fields: Any) -> Verdict:
    return decide(a_case(**case_fields), report or a_report("x"), scores, threshold)


@pytest.mark.parametrize(
    ("scores", "mean"),
    [
        pytest.param([a_score(1.0), a_score(0.0)], 0.5, id="equal-weights"),
        pytest.param([a_score(1.0, 3), a_score(0.0, 1)], 0.75, id="weights"),
        pytest.param([a_score(1.0, 0), a_score(0.25, 2)], 0.25, id="weight-of-zero-does-not-count"),
        pytest.param([a_score(1.0, 0), a_score(1.0, 0)], 0.0, id="all-weights-zero"),
        pytest.param([a_score(0.4)], 0.4, id="one"),
        pytest.param([a_score(1.0, LARGEST), a_score(0.0, LARGEST)], 0.5, id="weights-whose-sum-overflows"),
        pytest.param([a_score(1.0, 5e-324), a_score(1.0, 5e-324)], 1.0, id="weights-next-to-zero"),
        pytest.param([a_score(1.0), a_score(None)], None, id="one-without-a-value"),
        pytest.param([a_score(1.0), a_score(None, 0)], 1.0, id="one-without-a-value-nor-weight"),
    ],
)
def test_the_score_is_the_weighted_mean(scores: list[Score], mean: float | None) -> None:
    assert weighted_mean(scores) == mean


@STEADY
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, LARGEST, allow_subnormal=True)), min_size=1, max_size=6))
def test_a_weighted_mean_lies_between_the_least_and_the_greatest_that_count(pairs: list[tuple[float, float]]) -> None:
    mean = weighted_mean([a_score(value, weight) for value, weight in pairs])

    counted = [value for value, weight in pairs if weight] or [0.0]
    assert mean is not None
    assert min(counted) - 1e-9 <= mean <= max(counted) + 1e-9


@pytest.mark.parametrize(
    ("value", "suite_threshold", "case_threshold", "status"),
    [
        pytest.param(0.8, 0.8, None, Status.PASSED, id="at-the-threshold"),
        pytest.param(0.79, 0.8, None, Status.FAILED, id="below"),
        pytest.param(0.1 + 0.2, 0.3, None, Status.PASSED, id="last-bit-above"),
        pytest.param(math.nextafter(0.3, 0), 0.3, None, Status.PASSED, id="last-bit-below"),
        pytest.param(0.5, 0.8, 0.5, Status.PASSED, id="the-cases-own-wins"),
        pytest.param(0.5, 0.4, 0.6, Status.FAILED, id="the-cases-own-wins-when-stricter"),
        pytest.param(0.0, 0.8, 0.0, Status.PASSED, id="threshold-of-zero"),
        pytest.param(1.0, 1.0, None, Status.PASSED, id="threshold-of-one"),
    ],
)
def test_a_score_passes_at_its_threshold(
    value: float, suite_threshold: float, case_threshold: float | None, status: Status
) -> None:
    case = a_case(threshold=case_threshold)

    assert decide(case, a_report("x"), [a_score(value)], suite_threshold).status is status


@pytest.mark.parametrize(
    ("gate", "others", "status", "score", "ungated"),
    [
        pytest.param(a_score(0.8, minimum=0.8), [a_score(0.9)], Status.PASSED, 0.85, 0.85, id="gate-reached"),
        pytest.param(a_score(0.7, minimum=0.8), [a_score(1.0)], Status.FAILED, 0.0, 0.85, id="gate-missed"),
        pytest.param(a_score(0.0, 0, minimum=0.1), [a_score(1.0)], Status.FAILED, 0.0, 1.0, id="gate-without-weight"),
        pytest.param(a_score(0.1 + 0.2, minimum=0.3), [a_score(1.0, 9)], Status.PASSED, 0.93, 0.93, id="last-bit"),
        pytest.param(a_score(0.0, minimum=0.5), [a_score(None)], Status.FAILED, 0.0, None, id="missed-beside-unscored"),
        pytest.param(
            a_score(1.0, minimum=0.5), [a_score(None)], Status.ERROR, None, None, id="reached-beside-unscored"
        ),
        pytest.param(a_score(None, minimum=0.5), [a_score(1.0)], Status.ERROR, None, None, id="gate-itself-unscored"),
    ],
)
def test_a_required_score_below_its_minimum_fails_whatever_the_others_say(
    gate: Score, others: list[Score], status: Status, score: float | None, ungated: float | None
) -> None:
    verdict = verdict_on(gate, *others)

    assert verdict.status is status
    assert verdict.score == pytest.approx(score)
    assert verdict.ungated_score == pytest.approx(ungated)


GOOD, BAD, UNKNOWN = a_score(1.0), a_score(0.0), a_score(None)
TIMED_OUT = a_report(None, failure_class="timeout", error="took 30 s")


@pytest.mark.parametrize(
    ("scores", "report", "plain", "when_failing_is_expected"),
    [
        pytest.param([GOOD], None, "passed", "unexpected-passed", id="good"),
        pytest.param([BAD], None, "failed", "expected-failed", id="bad"),
        pytest.param([a_score(0.0, minimum=0.8)], None, "failed", "failed", id="gate-missed"),
        pytest.param([UNKNOWN], None, "error", "error", id="unscored"),
        pytest.param([GOOD, UNKNOWN], None, "error", "error", id="one-of-two-unscored"),
        pytest.param([], None, "error", "error", id="nothing-looks-at-it"),
        pytest.param([], TIMED_OUT, "error", "error", id="never-completed"),
        pytest.param([GOOD], TIMED_OUT, "error", "error", id="never-completed-but-scored"),
    ],
)
def test_a_verdict_is_seen_in_the_light_of_what_was_expected(
    scores: list[Score], report: Any, plain: str, when_failing_is_expected: str
) -> None:
    verdicts = [verdict_on(*scores, report=report, expected_fail=expected) for expected in (False, True)]

    assert [verdict.status.value for verdict in verdicts] == [plain, when_failing_is_expected]


@pytest.mark.parametrize(
    ("status", "graded", "as_expected"),
    [
        (Status.PASSED, True, True),
        (Status.FAILED, True, False),
        (Status.EXPECTED_FAILED, True, True),
        (Status.UNEXPECTED_PASSED, True, False),
        (Status.ERROR, False, False),
    ],
)
def test_an_expected_failure_counts_as_passed_and_an_unexpected_pass_does_not(
    status: Status, graded: bool, as_expected: bool
) -> None:
    assert (status.graded, status.as_expected) == (graded, as_expected)


@pytest.mark.parametrize(
    ("scores", "fields", "failure_class", "message"),
    [
        pytest.param([GOOD], {}, None, "reaches 0.8", id="passed"),
        pytest.param([BAD], {}, "assertion", "check: because", id="failed"),
        pytest.param([a_score(0.0, failure_class="wrong-alias")], {}, "wrong-alias", "check", id="failed-with-its-own"),
        pytest.param([a_score(0.2), a_score(0.1, evaluator="worst")], {}, "assertion", "worst: ", id="worst-is-named"),
        pytest.param(
            [a_score(0.0, 0, evaluator="idle"), BAD], {}, "assertion", "check: ", id="weightless-is-not-worst"
        ),
        pytest.param([a_score(0.5, minimum=0.8)], {}, "gate", "required check is 0.5, below 0.8", id="gate"),
        pytest.param([UNKNOWN], {}, "evaluator", "check: because", id="unscored"),
        pytest.param([], {}, "no-evaluators", "no evaluator scores this case", id="nothing-looks-at-it"),
        pytest.param([], {"report": TIMED_OUT}, "timeout", "took 30 s", id="never-completed"),
        pytest.param([], {"report": a_report(None, failure_class="timeout")}, "timeout", "Timeout", id="without-words"),
        pytest.param([BAD], {"expected_fail": True}, "assertion", "check: because", id="expected-failed"),
        pytest.param([GOOD], {"expected_fail": True}, "unexpected-passed", "reaches", id="unexpected-passed"),
    ],
)
def test_a_verdict_says_why(
    scores: list[Score], fields: dict[str, Any], failure_class: str | None, message: str
) -> None:
    verdict = verdict_on(*scores, **fields)

    assert verdict.failure_class == failure_class
    assert message in verdict.reason


def test_what_could_not_be_graded_has_no_score_at_all() -> None:
    verdict = verdict_on(GOOD, UNKNOWN)

    assert (verdict.score, verdict.ungated_score) == (None, None)


@pytest.mark.parametrize(("threshold", "status"), [(0.8, Status.FAILED), (0.0, Status.PASSED)])
def test_a_case_whose_weights_are_all_zero_scores_zero(threshold: float, status: Status) -> None:
    verdict = verdict_on(a_score(1.0, 0), a_score(1.0, 0), threshold=threshold)

    assert (verdict.score, verdict.status) == (0.0, status)


# A judge decides by itself.


@pytest.mark.parametrize(
    ("decision", "value", "others", "status"),
    [
        (True, 0.1, [], Status.PASSED),
        (False, 1.0, [], Status.FAILED),
        (None, 1.0, [], Status.PASSED),
        (None, 0.1, [], Status.FAILED),
        (True, 0.1, [a_score(1.0)], Status.PASSED),
        (True, 1.0, [a_score(0.5)], Status.FAILED),
        (True, 1.0, [a_score(0.0, 0)], Status.PASSED),
        (False, 1.0, [a_score(1.0)], Status.FAILED),
        (True, 1.0, [a_score(0.5, minimum=0.9)], Status.FAILED),
    ],
)
def test_a_judge_decides_whether_a_case_passes_and_others_still_have_to_reach_the_threshold(
    decision: bool | None, value: float, others: list[Score], status: Status
) -> None:
    assert verdict_on(a_score(value, type="judge", passes=decision), *others).status is status


def test_a_judge_without_weight_decides_nothing() -> None:
    assert verdict_on(a_score(0.0, 0, type="judge", passes=False), a_score(1.0)).status is Status.PASSED
