"""How a session ended, by its report: the exit code of a coding agent's CLI is the same for every reason."""

from __future__ import annotations

from eval_pipeline.executions.model import Plan, RawExecution, TargetFailure
from eval_pipeline.failures import (
    AUTHENTICATION,
    CONNECTION,
    MODEL_REJECTED,
    RATE_LIMITED,
    SERVER_ERROR,
    TARGET_CRASH,
    failure_class,
)
from eval_pipeline.reports.normalize import RawSession, normalize_raw
from eval_pipeline.reports.recent_reports import remember
from eval_pipeline.reports.tool_kinds import TOOL_KINDS

_RETRIED = (RATE_LIMITED, SERVER_ERROR, CONNECTION)
"""What another attempt may not meet again."""
_CLOSING = (MODEL_REJECTED, AUTHENTICATION)
"""What every other session of the runner would meet as well."""


def session_end(plan: Plan, raw: RawExecution) -> TargetFailure | None:
    """Return the failure with which a session ended by its own report; None when the report has none.

    Only the session of a process, in the format of a coding agent, is read. Some CLIs end with exit code 0 whatever
    happened: such a session failed here only where another attempt, or none of any case, is the answer to it. Any
    other failure is in its report.
    """
    if raw.exit_code is None or TOOL_KINDS.find(raw.format) is None:
        return None
    try:
        report = normalize_raw(RawSession(execution_id="", raw=raw, case=plan.case))
    except Exception:  # noqa: BLE001 — a report that cannot be read does not tell how the session ended
        return None
    remember(raw, report)
    if report.failure_class in (None, TARGET_CRASH.id):
        return None
    failure = failure_class(report.failure_class)
    if raw.exit_code == 0 and failure not in (*_RETRIED, *_CLOSING):
        return None
    return TargetFailure(
        failure,
        f"{report.error or failure.label} (exit code {raw.exit_code})",
        retryable=failure in _RETRIED,
        closes_runner=failure in _CLOSING,
        raw=raw,
    )
