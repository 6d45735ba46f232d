"""What a grading program printed → Outcome.

JSON is AgentV's protocol: `score`, `assertions` (or `checks`), `pass`, `reason`, `details`. What says neither a score
nor anything that gives one leaves the outcome open with the text in the reason, never 0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import Any, Literal

from eval_pipeline.scores.grader_client import GraderFailure
from eval_pipeline.scores.model import Finding, Outcome

OnError = Literal["unscored", "fail"]
"""What becomes of a score when the program or code breaks: it stays open, or is 0, as in AgentV."""
_SHOWN = 300
_NOT_STARTED = (126, 127)


def protocol_outcome(said: Mapping[str, Any]) -> Outcome:
    """The outcome that a JSON object tells."""
    findings = tuple(_findings(said))
    value = _value(said)
    details = said.get("details")
    kept = details if isinstance(details, Mapping) else {"details": details} if details is not None else {}
    if value is None:
        return Outcome(None, f"the program says no score: {_short(json.dumps(said))}", findings, kept)
    passes = said["pass"] if isinstance(said.get("pass"), bool) else None
    return Outcome(value, _reason(said, findings, value), findings, kept, passes=passes)


def json_object(text: str) -> Mapping[str, Any] | None:
    """The JSON object that a text is; None when it is not one."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def plain_outcome(text: str, exit_code: int) -> Outcome:
    """A program that says yes or no by its exit code, and why in plain text."""
    text = text.strip()
    if exit_code < 0 or exit_code in _NOT_STARTED:
        return Outcome(None, f"the program ended with {exit_code}: {_short(text) or 'nothing printed'}")
    passed = exit_code == 0
    reason = _short(text) or f"exit code {exit_code}"
    return Outcome(float(passed), reason, (Finding(reason, passed),))


def not_understood(text: str) -> Outcome:
    """Nothing that could be read as an answer."""
    return Outcome(None, f"the program printed no JSON object: {_short(text.strip()) or 'nothing at all'}")


def counted(outcome: Outcome, on_error: OnError) -> Outcome:
    """The outcome, one without a value being 0 when that is asked for."""
    if outcome.value is not None or on_error == "unscored":
        return outcome
    return outcome._replace(value=0.0, passes=False)


async def told(outcome: Awaitable[Outcome], on_error: OnError) -> Outcome:
    """The outcome that is waited for; when it cannot be told, 0 where that is asked for. Raises GraderFailure."""
    try:
        return counted(await outcome, on_error)
    except GraderFailure as failure:
        if on_error == "unscored":
            raise
        return counted(Outcome(None, str(failure)), on_error)


def _value(said: Mapping[str, Any]) -> float | None:
    """`score`; where there is none, what the checks say in the mean, or `pass`."""
    if "score" in said:
        return _share(said["score"])
    checks = [_share(check.get("score", _held(check))) for check in _checks(said)]
    known = [value for value in checks if value is not None]
    if known:
        return sum(known) / len(known)
    return float(said["pass"]) if isinstance(said.get("pass"), bool) else None


def _share(number: Any) -> float | None:
    """A number put into [0, 1]; None for what is none."""
    if isinstance(number, bool):
        return float(number)
    if not isinstance(number, (int, float)) or math.isnan(number):
        return None
    return float(min(1, max(0, number)))


def _findings(said: Mapping[str, Any]) -> Iterator[Finding]:
    for check in _checks(said):
        evidence = check.get("evidence", check.get("reason"))
        yield Finding(check["text"], _held(check), evidence if isinstance(evidence, str) else None)


def _checks(said: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The assertions or checks that have a text."""
    listed = said.get("assertions") or said.get("checks")
    found = listed if isinstance(listed, list) else []
    return [check for check in found if isinstance(check, dict) and isinstance(check.get("text"), str)]


def _held(check: Mapping[str, Any]) -> bool:
    return bool(check.get("passed", check.get("pass")))


def _reason(said: Mapping[str, Any], findings: Sequence[Finding], value: float) -> str:
    given = next((said[key] for key in ("reason", "reasoning") if isinstance(said.get(key), str) and said[key]), None)
    texts = [finding.text for finding in findings if not finding.passed] or [finding.text for finding in findings]
    return given or _short("; ".join(texts)) or f"the program scores {value:g}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
