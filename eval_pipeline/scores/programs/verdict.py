"""What an expression or a service says of an answer, by the rules of `javascript`, `python` and `webhook` → Outcome.

A truth value, a number (put into [0, 1]), or a mapping with `pass`, `score`, `reason`, `assertions` and `details`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from eval_pipeline.scores.model import Outcome, Subject
from eval_pipeline.scores.programs.messages import authored, output_messages, token_usage, trace_summary
from eval_pipeline.scores.programs.reply import protocol_outcome


def said_outcome(said: Any, threshold: float | None) -> Outcome:
    """The outcome of what was said. A number passes from `threshold` on, without one when it is above 0."""
    if isinstance(said, bool):
        return Outcome(float(said), f"it says {'yes' if said else 'no'}", passes=said)
    if isinstance(said, (int, float)) and not math.isnan(said):
        return _with_word(Outcome(float(min(1, max(0, said))), f"it says {said:g}"), threshold)
    if isinstance(said, Mapping):
        return _with_word(protocol_outcome(said), threshold)
    return Outcome(None, f"expected a truth value, a number or a mapping with score or pass, got {said!r}")


def _with_word(outcome: Outcome, threshold: float | None) -> Outcome:
    if outcome.value is None or outcome.passes is not None:
        return outcome
    return outcome._replace(passes=outcome.value > 0 if threshold is None else outcome.value >= threshold)


def said_context(subject: Subject, config: Mapping[str, Any]) -> dict[str, Any]:
    """What an expression or service is told beside the output."""
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
