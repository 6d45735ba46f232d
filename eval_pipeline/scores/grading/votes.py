"""Several graders' verdicts → one outcome with a sub-score for each."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from eval_pipeline.scores.grader_client import GraderFailure
from eval_pipeline.scores.grading.grader_calls import GraderCall, total_usage
from eval_pipeline.scores.model import Finding, Outcome, SubScore, at_least

Vote = Literal["mean", "median", "majority"]
Answer = GraderCall | GraderFailure


def single_outcome(call: GraderCall, extra: Mapping[str, Any]) -> Outcome:
    """Return the outcome of a single grader."""
    verdict = call.verdict
    details = {**call.details(), **extra, "prompt": call.prompt()}
    if verdict is None:
        return Outcome(None, call.reason, details=details)
    return Outcome(verdict.value, call.reason, verdict.findings, details, passes=verdict.passes)


def combined_outcome(
    answers: Sequence[tuple[str, Answer]], type_: str, vote: Vote, extra: Mapping[str, Any], mark: float
) -> Outcome:
    """Return the outcome of several graders, each with its sub-score's name. Raises the failure if all of them failed.

    A grader's verdict passes by its own decision, else from `mark` on. Graders without a value are left out. With
    values from fewer than half of them, the outcome has none.
    """
    members = tuple(_member(name, answer, type_) for name, answer in answers)
    failure = next((answer for _, answer in answers if isinstance(answer, GraderFailure)), None)
    if failure is not None and all(isinstance(answer, GraderFailure) for _, answer in answers):
        raise failure
    calls = [answer for _, answer in answers if isinstance(answer, GraderCall)]
    counted = [member for member in members if member.value is not None]
    unscored = "; ".join(f"{member.name}: {member.reason}" for member in members if member.value is None)
    details = {"vote": vote, "prompt": calls[0].prompt(), **_usage(calls), **extra}
    if 2 * len(counted) < len(members):
        reason = f"{len(counted)} of {len(members)} graders returned a score; {unscored}"
        return Outcome(None, reason, details=details, members=members)
    value, method = _VOTES[vote](counted, mark)
    reason = f"{method} of {', '.join(f'{member.name} {member.value:g}' for member in counted)}"
    reason = f"{reason}; left out: {unscored}" if unscored else reason
    return Outcome(value, reason, _findings(counted, mark), details, members, _passes(calls))


def passed(member: SubScore, mark: float) -> bool:
    """Return whether a sub-score passes: by the grader's own decision, else from `mark` on."""
    decision = member.details.get("passes")
    return decision if isinstance(decision, bool) else at_least(member.value or 0.0, mark)


def _member(name: str, answer: Answer, type_: str) -> SubScore:
    if isinstance(answer, GraderFailure):
        return SubScore(name, type_, None, str(answer), details={"failure_class": answer.failure_class})
    verdict = answer.verdict
    details = {**answer.details(), "passes": verdict.passes if verdict is not None else None}
    return SubScore(name, type_, verdict.value if verdict else None, answer.reason, 1.0, answer.grader, details)


def _usage(calls: Sequence[GraderCall]) -> dict[str, Any]:
    replies = [reply for answer in calls for reply in answer.replies]
    return {"usage": total_usage(replies), "cached": all(reply.cached for reply in replies), "tries": len(replies)}


def _mean(members: Sequence[SubScore], mark: float) -> tuple[float, str]:
    return statistics.fmean(_values(members)), "mean"


def _median(members: Sequence[SubScore], mark: float) -> tuple[float, str]:
    return statistics.median(_values(members)), "median"


def _majority(members: Sequence[SubScore], mark: float) -> tuple[float, str]:
    """Return the mean of the larger group, those that pass or those that fail; of all in a tie."""
    passing = [member for member in members if passed(member, mark)]
    failing = [member for member in members if not passed(member, mark)]
    if len(passing) == len(failing):
        return statistics.fmean(_values(members)), f"tie {len(passing)} : {len(failing)}, mean"
    larger, decision = (passing, "pass") if len(passing) > len(failing) else (failing, "fail")
    return statistics.fmean(_values(larger)), f"majority {len(larger)} of {len(members)} for {decision}, its mean"


def _values(members: Sequence[SubScore]) -> list[float]:
    return [member.value for member in members if member.value is not None]


def _passes(calls: Sequence[GraderCall]) -> bool | None:
    """Return False when more than half of the verdicts report a failed gate; otherwise the value decides (None)."""
    decisions = [answer.verdict.passes for answer in calls if answer.verdict is not None]
    return False if 2 * decisions.count(False) > len(decisions) else None


def _findings(members: Sequence[SubScore], mark: float) -> tuple[Finding, ...]:
    return tuple(
        Finding(f"{member.name} scores {member.value:g}", passed(member, mark), member.reason) for member in members
    )


_VOTES: Mapping[Vote, Callable[[Sequence[SubScore], float], tuple[float, str]]] = {
    "mean": _mean,
    "median": _median,
    "majority": _majority,
}
