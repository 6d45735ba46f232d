"""Output of a grading program → Outcome.

A JSON object has `score`, `assertions` (or `checks`), `pass`, `reason`, `details`. Output without a
score, and without fields that imply one, yields an outcome without a value and the text in the reason, never 0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import Any, Literal

from eval_pipeline.scores.grader_client import GraderFailure
from eval_pipeline.scores.model import Finding, Outcome

OnError = Literal["unscored", "fail"]
"""The score of a program or code that fails: no value, or 0 where the format of the suite has it so."""
_SHOWN = 300
_NOT_STARTED = (126, 127)


def protocol_outcome(reply: Mapping[str, Any]) -> Outcome:
    """Return the outcome of a JSON reply."""
    findings = tuple(_findings(reply))
    value = _value(reply)
    details = reply.get("details")
    kept = details if isinstance(details, Mapping) else {"details": details} if details is not None else {}
    if value is None:
        return Outcome(None, f"the program returned no score: {_short(json.dumps(reply))}", findings, kept)
    passes = reply["pass"] if isinstance(reply.get("pass"), bool) else None
    return Outcome(value, _reason(reply, findings, value), findings, kept, passes=passes)


def json_object(text: str) -> Mapping[str, Any] | None:
    """Parse a text that is one JSON object; None otherwise."""
    try:
        reply = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return reply if isinstance(reply, dict) else None


def plain_outcome(text: str, exit_code: int) -> Outcome:
    """Return the outcome of a program whose exit code is the result and whose plain text is the reason."""
    text = text.strip()
    if exit_code < 0 or exit_code in _NOT_STARTED:
        return Outcome(None, f"the program ended with {exit_code}: {_short(text) or 'nothing printed'}")
    passed = exit_code == 0
    reason = _short(text) or f"exit code {exit_code}"
    return Outcome(float(passed), reason, (Finding(reason, passed),))


def unreadable_outcome(text: str) -> Outcome:
    """Return the outcome of output that is not a JSON object."""
    return Outcome(None, f"the program printed no JSON object: {_short(text.strip()) or 'nothing at all'}")


def apply_error_policy(outcome: Outcome, on_error: OnError) -> Outcome:
    """Return the outcome, with 0 for a missing value if the policy is `fail`."""
    if outcome.value is not None or on_error == "unscored":
        return outcome
    return outcome._replace(value=0.0, passes=False, reason=f"unknown: {outcome.reason}")


async def with_error_policy(outcome: Awaitable[Outcome], on_error: OnError) -> Outcome:
    """Await an outcome and apply the policy to a failure. Raises GraderFailure for `unscored`."""
    try:
        return apply_error_policy(await outcome, on_error)
    except GraderFailure as failure:
        return failure_outcome(failure, on_error)


def failure_outcome(failure: GraderFailure, on_error: OnError) -> Outcome:
    """Return the outcome of a program that failed: 0 if the policy is `fail`. Raises the failure for `unscored`."""
    if on_error == "unscored":
        raise failure
    return apply_error_policy(Outcome(None, str(failure)), on_error)


def _value(reply: Mapping[str, Any]) -> float | None:
    """Return `score`; without it, the mean of the checks that passed or failed, or `pass`."""
    if "score" in reply:
        return _clip(reply["score"])
    checks = [_clip(check.get("score", check.get("passed", check.get("pass")))) for check in _checks(reply)]
    known = [value for value in checks if value is not None]
    if known:
        return sum(known) / len(known)
    return float(reply["pass"]) if isinstance(reply.get("pass"), bool) else None


def _clip(number: Any) -> float | None:
    """Clip a number to [0, 1]; None for anything else."""
    if isinstance(number, bool):
        return float(number)
    if not isinstance(number, (int, float)) or not math.isfinite(number):
        return None
    return float(min(1, max(0, number)))


def _findings(reply: Mapping[str, Any]) -> Iterator[Finding]:
    for check in _checks(reply):
        evidence = check.get("evidence", check.get("reason"))
        yield Finding(check["text"], _has_passed(check), evidence if isinstance(evidence, str) else None)


def _checks(reply: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the assertions or checks that have a text."""
    listed = reply.get("assertions") or reply.get("checks")
    entries = listed if isinstance(listed, list) else []
    return [check for check in entries if isinstance(check, dict) and isinstance(check.get("text"), str)]


def _has_passed(check: Mapping[str, Any]) -> bool:
    return bool(check.get("passed", check.get("pass")))


def _reason(reply: Mapping[str, Any], findings: Sequence[Finding], value: float) -> str:
    reasons = (reply.get(key) for key in ("reason", "reasoning"))
    reason = next((reason for reason in reasons if isinstance(reason, str) and reason), None)
    texts = [finding.text for finding in findings if not finding.passed] or [finding.text for finding in findings]
    return reason or _short("; ".join(texts)) or f"the program scores {value:g}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
