"""The argument of `classify_failure`: what became of a case. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.assertions.failed_checks import ClassTag


@dataclass(frozen=True, slots=True)
class FailureError:
    """What a failed execution raised: the name of the exception, and its message."""

    name: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """A failed execution as `classify_failure` sees it. `failure_class` is the class so far, `failure_origin` the id of
    the usual class of what failed (`assertion`, `assert-hook`, `timeout`, …)."""

    case_id: str
    passed: bool
    status: str
    failure_origin: str
    failure_class: ClassTag
    error: FailureError
    report: SessionReport
    duration_ms: float | None = None
    runner: str | None = None
