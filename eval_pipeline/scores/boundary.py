"""The boundary to evaluators: whatever one raises becomes an outcome without a value."""

from __future__ import annotations

from eval_pipeline.errors import error_text
from eval_pipeline.executions.threads import is_interruption
from eval_pipeline.scores.model import Outcome


def failed_outcome(error: BaseException) -> Outcome:
    """Return the outcome of an evaluator that raised. Raises the error again if it is an interruption."""
    if is_interruption(error):
        raise error
    return Outcome(None, f"evaluator failed: {error_text(error)}")
