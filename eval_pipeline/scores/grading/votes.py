"""Several graders' opinions → one outcome with a member for each."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from eval_pipeline.scores.grader_client import GraderFailure
from eval_pipeline.scores.grading.grader_calls import GraderCall, usage_of
from eval_pipeline.scores.model import Finding, Outcome, SubScore, at_least

Vote = Literal["mean", "median", "majority"]
PASS_MARK = 0.8
"""The value at which a grader's opinion counts as passed, where it does not say so itself."""

Answer = GraderCall | GraderFailure


def outcome_of_one(asked: GraderCall, extra: Mapping[str, Any]) -> Outcome:
    """The outcome of a single grader."""
    opinion = asked.opinion
    details = {**asked.details(), **extra, "prompt": asked.prompt()}
    if opinion is None:
        return Outcome(None, asked.reason, details=details)
    return Outcome(opinion.value, asked.reason, opinion.findings, details, passes=opinion.passes)


def outcome_of_many(answers: Sequence[tuple[str, Answer]], type_: str, vote: Vote, extra: Mapping[str, Any]) -> Outcome:
    """The outcome of several graders' answers, each with its member's name. Raises the failure of all of them.

    Members without a value are left out; when fewer than half have one, nothing can be told.
    """
    members = tuple(_member(name, answer, type_) for name, answer in answers)
    failure = next((answer for _, answer in answers if isinstance(answer, GraderFailure)), None)
    if failure is not None and all(isinstance(answer, GraderFailure) for _, answer in answers):
        raise failure
    told = [answer for _, answer in answers if isinstance(answer, GraderCall)]
    counted = [member for member in members if member.value is not None]
    silent = "; ".join(f"{member.name}: {member.reason}" for member in members if member.value is None)
    details = {"vote": vote, "prompt": told[0].prompt(), **_spent(told), **extra}
    if 2 * len(counted) < len(members):
        reason = f"{len(counted)} of {len(members)} graders could tell; {silent}"
        return Outcome(None, reason, details=details, members=members)
    value, how = _VOTES[vote](counted)
    reason = f"{how} of {', '.join(f'{member.name} {member.value:g}' for member in counted)}"
    reason = f"{reason}; left out: {silent}" if silent else reason
    return Outcome(value, reason, _findings(counted), details, members, _passes(told))


def passed(member: SubScore) -> bool:
    """Whether a member's value counts as passed: by the grader's own word, else by the pass mark."""
    word = member.details.get("passes")
    return word if isinstance(word, bool) else at_least(member.value or 0.0, PASS_MARK)


def _member(name: str, answer: Answer, type_: str) -> SubScore:
    if isinstance(answer, GraderFailure):
        return SubScore(name, type_, None, str(answer), details={"failure_class": answer.failure_class})
    opinion = answer.opinion
    details = {**answer.details(), "passes": opinion.passes if opinion is not None else None}
    return SubScore(name, type_, opinion.value if opinion else None, answer.reason, 1.0, answer.grader, details)


def _spent(told: Sequence[GraderCall]) -> dict[str, Any]:
    replies = [reply for answer in told for reply in answer.replies]
    return {"usage": usage_of(replies), "cached": all(reply.cached for reply in replies), "tries": len(replies)}


def _mean(members: Sequence[SubScore]) -> tuple[float, str]:
    return statistics.fmean(_values(members)), "mean"


def _median(members: Sequence[SubScore]) -> tuple[float, str]:
    return statistics.median(_values(members)), "median"


def _majority(members: Sequence[SubScore]) -> tuple[float, str]:
    """The mean of those who agree on passing or failing and are more; of all in a tie."""
    for_it = [member for member in members if passed(member)]
    against = [member for member in members if not passed(member)]
    if len(for_it) == len(against):
        return statistics.fmean(_values(members)), f"tie {len(for_it)} : {len(against)}, mean"
    more, what = (for_it, "pass") if len(for_it) > len(against) else (against, "fail")
    return statistics.fmean(_values(more)), f"majority {len(more)} of {len(members)} for {what}, its mean"


def _values(members: Sequence[SubScore]) -> list[float]:
    return [member.value for member in members if member.value is not None]


def _passes(told: Sequence[GraderCall]) -> bool | None:
    """False when more than half of those who could tell say so of a gate of theirs, else the value decides."""
    words = [answer.opinion.passes for answer in told if answer.opinion is not None]
    return False if 2 * words.count(False) > len(words) else None


def _findings(members: Sequence[SubScore]) -> tuple[Finding, ...]:
    return tuple(Finding(f"{member.name} scores {member.value:g}", passed(member), member.reason) for member in members)


_VOTES: Mapping[Vote, Callable[[Sequence[SubScore]], tuple[float, str]]] = {
    "mean": _mean,
    "median": _median,
    "majority": _majority,
}
