"""Result of an expression or service, by the rules of `javascript`, `python` and `webhook` → Outcome.

Accepted are a truth value, a number (clipped to [0, 1]), or a mapping with `pass`, `score`, `reason`, `assertions` and
`details`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from eval_pipeline.reports.messages import output_messages
from eval_pipeline.scores.model import Outcome, Subject
from eval_pipeline.scores.programs.messages import authored, token_usage, trace_summary
from eval_pipeline.scores.programs.reply import protocol_outcome


def value_outcome(value: Any, threshold: float | None) -> Outcome:
    """Return the outcome of a result. A number passes from `threshold` on; without one, above 0."""
    if isinstance(value, bool):
        return Outcome(float(value), f"returned {'true' if value else 'false'}", passes=value)
    if isinstance(value, (int, float)) and math.isfinite(value):
        return _with_decision(Outcome(float(min(1, max(0, value))), f"returned {value:g}"), threshold)
    if isinstance(value, Mapping):
        return _with_decision(protocol_outcome(value), threshold)
    return Outcome(None, f"expected a truth value, a number or a mapping with score or pass, got {value!r}")


def _with_decision(outcome: Outcome, threshold: float | None) -> Outcome:
    if outcome.value is None or outcome.passes is not None:
        return outcome
    return outcome._replace(passes=outcome.value > 0 if threshold is None else outcome.value >= threshold)


def check_context(subject: Subject, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the context that an expression or service receives beside the output."""
    case, report = subject.case, subject.report
    messages = output_messages(report)
    return {
        "criteria": case.criteria or "",
        "expected_output": authored(case.expected_output),
        "input": authored(case.input),
        "metadata": dict(case.metadata),
        "trace": trace_summary(report, messages),
        "messages": messages,
        "token_usage": token_usage(report.usage),
        "cost_usd": report.usage.cost_usd,
        "duration_ms": report.duration_ms,
        "file_changes": report.file_changes,
        "workspace_path": str(subject.workspace) if subject.workspace is not None else None,
        "config": dict(config),
        "test": {"id": case.id, "metadata": dict(case.metadata), "tags": list(case.tags)},
        "prompt": case.input[-1].text if case.input else "",
    }
