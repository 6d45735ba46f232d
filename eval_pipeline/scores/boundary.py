"""The boundary to evaluators: whatever one raises becomes an outcome without a value; values are in range."""

from __future__ import annotations

import math

from eval_pipeline.errors import error_text
from eval_pipeline.executions.threads import is_interruption
from eval_pipeline.scores.model import Finding, Outcome


def failed_outcome(error: BaseException) -> Outcome:
    """Return the outcome of an evaluator that raised. Raises the error again if it is an interruption."""
    if is_interruption(error):
        raise error
    return Outcome(None, f"evaluator failed: {error_text(error)}")


def validated_outcome(outcome: Outcome) -> Outcome:
    """Return the outcome with its value clipped to [0, 1]. Raises for another type, for NaN and for infinities."""
    value = outcome.value
    if value is None or 0.0 <= value <= 1.0:
        return outcome
    if not math.isfinite(value):
        raise ValueError(f"its value is not a finite number: {value}")
    return outcome._replace(value=min(1.0, max(0.0, value)))


def negate_outcome(outcome: Outcome) -> Outcome:
    """Return the opposite outcome. An outcome without a value stays unchanged."""
    if outcome.value is None:
        return outcome
    findings = tuple(Finding(finding.text, not finding.passed, finding.evidence) for finding in outcome.findings)
    passes = None if outcome.passes is None else not outcome.passes
    reason = f"not: {outcome.reason}"  # the class of what failed is no class of its opposite
    return Outcome(1.0 - outcome.value, reason, findings, outcome.details, outcome.members, passes)
