"""One call of a grader until its reply is readable: tries, one repair request, and a record of all replies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_pipeline.scores.grader_client import GraderClient, GraderFailure, GraderReply
from eval_pipeline.scores.grading.prompts import Question, repair, stored_messages
from eval_pipeline.scores.grading.replies import GraderVerdict, UnreadableReply
from eval_pipeline.suites.model import Message

TRIES = 3
MAX_VOTES = 25
_MOST_ROUNDS = 100
"""How many runs ask again after replies that could not be read."""


@dataclass(slots=True)
class GraderCall:
    """The calls of one grader: its verdict, or the problem with its last reply, and all its replies."""

    messages: Sequence[Message]
    replies: list[GraderReply] = field(default_factory=list)
    verdict: GraderVerdict | None = None
    problem: str = ""

    @property
    def grader(self) -> str | None:
        """The runner that replied."""
        return self.replies[-1].grader if self.replies else None

    @property
    def reason(self) -> str:
        """The reason for the value, or for its absence."""
        if self.verdict is None:
            return f"the grader's reply could not be read after {len(self.replies)} tries: {self.problem}"
        if self.verdict.missing:
            return f"{self.verdict.reason}; no check for {', '.join(self.verdict.missing)}"
        return self.verdict.reason

    def details(self) -> dict[str, Any]:
        """Return the details stored with the score, without the prompt."""
        last = self.replies[-1]
        details: dict[str, Any] = {
            "grader": last.grader,
            "model": last.model,
            "settings": dict(last.settings),
            "reply": last.text,
            "tries": len(self.replies),
            "usage": total_usage(self.replies),
            "cached": all(reply.cached for reply in self.replies),
            "duration_ms": last.duration_ms,
        }
        if len(self.replies) > 1:
            details["earlier_replies"] = [reply.text for reply in self.replies[:-1]]
        return details | dict(self.verdict.details if self.verdict is not None else {})

    def prompt(self) -> list[dict[str, Any]]:
        """Return the messages of the question in their stored form."""
        return stored_messages(self.messages)


async def call_grader(
    client: GraderClient, question: Question, *, grader: str | None, settings: Mapping[str, Any], vote: int = 0
) -> GraderCall:
    """Call a grader until its reply is readable. Raises GraderFailure.

    The first reply that is unreadable or leaves out a criterion is shown to the grader, once, with the problem with it.
    What stays unreadable, and a reply without text, is requested again, `TRIES` times in all. Of incomplete replies the
    most complete one counts, unless it leaves out a required criterion. Where nothing but stored replies are
    unreadable, a run before asked, and this one asks anew.
    """
    for asked in range(_MOST_ROUNDS):
        call = await _round(client, question, grader, settings, (asked * MAX_VOTES + vote) * TRIES)
        if call.verdict is not None or not all(reply.cached for reply in call.replies):
            break
    return call


async def _round(
    client: GraderClient, question: Question, grader: str | None, settings: Mapping[str, Any], first: int
) -> GraderCall:
    """Return the tries that begin with the sample `first`, and their verdict. Raises GraderFailure."""
    call = GraderCall(question.messages)
    try:
        await _call_until_readable(call, client, question, grader, settings, first)
    except GraderFailure:
        if call.verdict is None:
            raise
    if call.verdict is not None and call.verdict.open_gates:
        call.problem = f"the required {', '.join(call.verdict.open_gates)} was not graded"
        call.verdict = None
    return call


async def _call_until_readable(
    call: GraderCall,
    client: GraderClient,
    question: Question,
    grader: str | None,
    settings: Mapping[str, Any],
    first: int,
) -> None:
    repaired = False
    for number in range(first, first + TRIES):
        reply = await client.complete(question.messages, grader=grader, settings=settings, sample=number)
        if _read(call, question, reply):
            return
        if reply.text.strip() and not repaired:
            repaired, messages = True, repair(question, reply.text, call.problem)
            if _read(call, question, await client.complete(messages, grader=grader, settings=settings, sample=first)):
                return


def total_usage(replies: Iterable[GraderReply]) -> dict[str, Any]:
    """Return the tokens of all replies and the cost of the new ones: cached replies cost nothing."""
    replies = list(replies)
    costs = [reply.usage.cost_usd for reply in replies if not reply.cached]
    return {
        "input_tokens": _sum(reply.usage.input_tokens for reply in replies),
        "output_tokens": _sum(reply.usage.output_tokens for reply in replies),
        "cost_usd": _sum(costs) if costs else 0.0,
    }


def _read(call: GraderCall, question: Question, reply: GraderReply) -> bool:
    """Record a reply and return whether it is complete."""
    call.replies.append(reply)
    try:
        verdict = question.reply_format.read(reply.text, question.fences, question.judged)
    except UnreadableReply as unreadable:
        call.problem = str(unreadable)
        return False
    if call.verdict is None or len(verdict.missing) <= len(call.verdict.missing):
        call.verdict = verdict
    call.problem = f"it says nothing about {', '.join(verdict.missing)}" if verdict.missing else ""
    return not verdict.missing


def _sum(numbers: Iterable[float | None]) -> float | None:
    """Return the sum of the known numbers; None when all are unknown."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
