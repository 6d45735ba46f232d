"""Scores → Verdict: the weighted mean, gates, the threshold, and expected failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eval_pipeline.failures import (
    ASSERTION,
    DEPENDENCY,
    EVALUATOR,
    GATE,
    NO_EVALUATORS,
    UNEXPECTED_PASSED,
    FailureClass,
    Origin,
    failure_class,
)
from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.model import SessionReport, ToolResultEvent
from eval_pipeline.scores.model import DEFAULT_THRESHOLD, Score, Status, Verdict, at_least
from eval_pipeline.suites.incomplete import LIMITS
from eval_pipeline.suites.model import Case, Incomplete

DECISIVE = frozenset({"judge"})
"""Types of evaluators whose own decision is that of the case."""
_SHOWN_CALLS, _SHOWN_ARGUMENTS = 5, 200


def decide(
    case: Case,
    report: SessionReport,
    scores: Sequence[Score],
    threshold: float = DEFAULT_THRESHOLD,
    incomplete: Incomplete = "error",
) -> Verdict:
    """Return the verdict of an execution. The case's own threshold takes precedence over `threshold`.

    A session that did not complete, or a score without a value, leaves the execution ungraded (`error`), never 0. The
    exception is a failed gate: no other score can change its result. A judge decides by itself whether the case
    passes; beside it the mean of the other scores has to reach the threshold. The reason names the calls of tools for
    which there was no canned answer. `incomplete` is what becomes of a session that a time or step limit ended.
    """
    limit = report.failure_class if report.failure_class in LIMITS and incomplete != "error" else None
    if limit is None:
        verdict = _decided(case, report, scores, threshold)
    else:
        verdict = _decided_at_limit(case, report, scores, threshold, incomplete)
    unmatched = _unmatched_calls(report)
    if not unmatched:
        return verdict
    note = f"no canned answer matches {', '.join(unmatched)}"
    return replace(verdict, reason=f"{verdict.reason}; {note}")


def _decided_at_limit(
    case: Case, report: SessionReport, scores: Sequence[Score], threshold: float, incomplete: Incomplete
) -> Verdict:
    """Return the verdict of a session that a limit ended: by the scores of what it left, or failed."""
    known = failure_class(report.failure_class or "")
    why = f"the session did not end by itself: {report.error or known.label}"
    if incomplete == "fail":
        verdict = _counts_as_failed(report, known, case.threshold if case.threshold is not None else threshold)
        return replace(verdict, incomplete=known.id)
    verdict = _decided(case, replace(report, failure_class=None), scores, threshold)
    limit = known.id if verdict.status.graded else None
    return replace(verdict, reason=f"{verdict.reason}; {why}", incomplete=limit)


def _unmatched_calls(report: SessionReport) -> list[str]:
    """Return the calls of tools that no canned answer of the case is for, in order."""
    if not any(isinstance(event, ToolResultEvent) and event.unmatched for event in report.events):
        return []
    return [
        f"{use.tool}({to_json(use.call.arguments).decode()[:_SHOWN_ARGUMENTS]})"
        for use in report.tool_uses
        if use.result is not None and use.result.unmatched
    ][:_SHOWN_CALLS]


def _decided(case: Case, report: SessionReport, scores: Sequence[Score], threshold: float) -> Verdict:
    """Return the verdict without notes."""
    limit = case.threshold if case.threshold is not None else threshold
    if report.failure_class == DEPENDENCY.id:
        return _counts_as_failed(report, DEPENDENCY, limit)
    if report.failure_class is not None:
        return _ungraded(report.failure_class, report.error or failure_class(report.failure_class).label, limit)
    if not scores:
        return _ungraded(NO_EVALUATORS.id, "no evaluator scores this case", limit)
    mean = weighted_mean(scores)
    failed_gate = next((score for score in scores if score.passes_gate is False), None)
    if failed_gate is not None:
        return _gate_failed(failed_gate, mean, limit)
    if mean is None:
        unscored = next(score for score in scores if score.value is None and counts(score))
        return _unscored(unscored, limit)
    decisive = [score for score in scores if score.type in DECISIVE and counts(score) and score.passes is not None]
    verdict = _by_decision(decisive, scores, mean, limit) if decisive else _by_threshold(scores, mean, limit)
    return _apply_expectation(case, verdict)


def weighted_mean(scores: Sequence[Score]) -> float | None:
    """Return Σ weight·value / Σ weight; 0 when all weights are 0 (AgentV, spec §3).

    None when a counting score has no value. A score of weight 0 without a gate does not count, with or without a value.
    """
    heaviest = max((score.weight for score in scores), default=0.0) or 1.0
    total = weights = 0.0
    for score in scores:
        if score.value is None:
            if counts(score):
                return None
            continue
        weight = score.weight / heaviest  # scaled, because a sum of large weights may overflow
        total += weight * score.value
        weights += weight
    return total / weights if weights else 0.0


def counts(score: Score) -> bool:
    """Return whether a verdict depends on a score: it has a weight or a gate."""
    return score.weight > 0 or score.minimum is not None


def _ungraded(class_id: str, reason: str, limit: float) -> Verdict:
    known = failure_class(class_id)
    return Verdict(
        status=Status.ERROR, score=None, ungated_score=None, threshold=limit, failure_class=class_id, reason=reason,
        failure_label=known.label, failure_origin=known.origin.value,
    )  # fmt: skip


def _unscored(score: Score, limit: float) -> Verdict:
    """Return the verdict of an execution with an evaluator that has no result. The class that the evaluator itself gave
    is kept; the evaluator has to be mended all the same."""
    verdict = _ungraded(EVALUATOR.id, f"{score.evaluator}: {score.reason}", limit)
    if score.failure_label is None:
        return verdict
    return replace(verdict, failure_class=score.failure_class, failure_label=score.failure_label)


def _class_of(score: Score, usual: FailureClass) -> dict[str, str]:
    """Return class, label and origin of a score that failed: its own class, else the usual one. What failed is the
    target's answer, whatever the class is called."""
    class_id = score.failure_class or usual.id
    label = score.failure_label or (usual.label if class_id == usual.id else failure_class(class_id).label)
    return {"failure_class": class_id, "failure_label": label, "failure_origin": Origin.QUALITY.value}


def _counts_as_failed(report: SessionReport, class_: FailureClass, limit: float) -> Verdict:
    """Return the verdict of a case without scores that counts as failed, as its suite configures it."""
    return Verdict(
        status=Status.FAILED, score=0.0, ungated_score=None, threshold=limit, failure_class=class_.id,
        reason=report.error or class_.label, failure_label=class_.label, failure_origin=Origin.QUALITY.value,
    )  # fmt: skip


def _gate_failed(gate: Score, mean: float | None, limit: float) -> Verdict:
    return Verdict(
        status=Status.FAILED,
        score=0.0,
        ungated_score=mean,
        threshold=limit,
        **_class_of(gate, GATE),
        reason=f"required {gate.evaluator} is {gate.value:g}, below {gate.minimum:g}: {gate.reason}",
    )


def _by_threshold(scores: Sequence[Score], mean: float, limit: float) -> Verdict:
    if at_least(mean, limit):
        return Verdict(
            status=Status.PASSED, score=mean, ungated_score=mean, threshold=limit, failure_class=None,
            reason=f"score {mean:g} reaches {limit:g}",
        )  # fmt: skip
    worst = min(scores, key=lambda score: (score.weight == 0, score.value is None, score.value or 0.0))
    return Verdict(
        status=Status.FAILED,
        score=mean,
        ungated_score=mean,
        threshold=limit,
        **_class_of(worst, ASSERTION),
        reason=f"score {mean:g} is below {limit:g}; {worst.evaluator}: {worst.reason}",
    )


def _by_decision(decisive: Sequence[Score], scores: Sequence[Score], mean: float, limit: float) -> Verdict:
    """Return the verdict of a case that evaluators with a decision of their own decide, `scores` being all of them."""
    against = next((score for score in decisive if not score.passes), None)
    others = [score for score in scores if score not in decisive and score.weight > 0]
    if against is None and others:
        verdict = _by_threshold(others, weighted_mean(others) or 0.0, limit)
        if verdict.status is Status.FAILED:
            return verdict
    passed = against is None
    deciding = against or decisive[0]
    return Verdict(
        status=Status.PASSED if passed else Status.FAILED,
        score=mean,
        ungated_score=mean,
        threshold=limit,
        **({"failure_class": None} if passed else _class_of(deciding, ASSERTION)),
        reason=f"{deciding.evaluator} decides: {deciding.reason}",
    )


def _apply_expectation(case: Case, verdict: Verdict) -> Verdict:
    """Apply `expected_fail` to the verdict of graded checks. Nothing else can be expected to fail: neither a gate nor a
    dependency, nor what could not be graded."""
    if not case.expected_fail:
        return verdict
    if verdict.status is Status.FAILED:
        return replace(verdict, status=Status.EXPECTED_FAILED)
    return replace(
        verdict,
        status=Status.UNEXPECTED_PASSED,
        reason=f"{verdict.reason}, although the case expects a failure (expected_fail); without it the case passes",
        failure_class=UNEXPECTED_PASSED.id,
        failure_label=UNEXPECTED_PASSED.label,
        failure_origin=UNEXPECTED_PASSED.origin.value,
    )
