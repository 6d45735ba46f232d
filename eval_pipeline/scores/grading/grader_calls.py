"""One grader asked one question until its reply can be read: tries, one repair, and everything that was said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_pipeline.scores.grader_client import GraderClient, GraderFailure, GraderReply
from eval_pipeline.scores.grading.prompts import Question, as_stored, repair
from eval_pipeline.scores.grading.replies import GraderVerdict, Unreadable
from eval_pipeline.suites.model import Message

TRIES = 3


@dataclass(slots=True)
class GraderCall:
    """What became of asking one grader: its opinion, or the problem with its last reply, and all its replies."""

    messages: Sequence[Message]
    replies: list[GraderReply] = field(default_factory=list)
    opinion: GraderVerdict | None = None
    problem: str = ""

    @property
    def grader(self) -> str | None:
        """Who replied."""
        return self.replies[-1].grader if self.replies else None

    @property
    def reason(self) -> str:
        """Why the value is what it is, or why there is none."""
        if self.opinion is None:
            return f"the grader's reply could not be read after {len(self.replies)} tries: {self.problem}"
        if self.opinion.missing:
            return f"{self.opinion.reason}; nothing was said about {', '.join(self.opinion.missing)}"
        return self.opinion.reason

    def details(self) -> dict[str, Any]:
        """What is stored with the score, the prompt left to the caller."""
        last = self.replies[-1]
        told: dict[str, Any] = {
            "grader": last.grader,
            "model": last.model,
            "settings": dict(last.settings),
            "reply": last.text,
            "tries": len(self.replies),
            "usage": usage_of(self.replies),
            "cached": all(reply.cached for reply in self.replies),
            "duration_ms": last.duration_ms,
        }
        if len(self.replies) > 1:
            told["earlier_replies"] = [reply.text for reply in self.replies[:-1]]
        return told | dict(self.opinion.details if self.opinion is not None else {})

    def prompt(self) -> list[dict[str, Any]]:
        """The messages of the question as they are stored."""
        return as_stored(self.messages)


async def opinion_of(
    client: GraderClient, question: Question, *, grader: str | None, settings: Mapping[str, Any], vote: int = 0
) -> GraderCall:
    """What a grader says to a question. Raises GraderFailure.

    A reply that cannot be read, or that leaves a criterion out, is asked for anew, `TRIES` times in all; then the
    grader is shown its reply and what is wrong with it. Of replies that leave something out, the fullest one counts,
    unless what it leaves out has to be met.
    """
    asked = GraderCall(question.messages)
    try:
        await _ask_until_read(asked, client, question, grader, settings, vote * TRIES)
    except GraderFailure:
        if asked.opinion is None:
            raise
    if asked.opinion is not None and asked.opinion.open_gates:
        asked.problem = f"the required {', '.join(asked.opinion.open_gates)} was not judged"
        asked.opinion = None
    return asked


async def _ask_until_read(
    asked: GraderCall,
    client: GraderClient,
    question: Question,
    grader: str | None,
    settings: Mapping[str, Any],
    first: int,
) -> None:
    for number in range(first, first + TRIES):
        reply = await client.ask(question.messages, grader=grader, settings=settings, sample=number)
        if _read(asked, question, reply):
            return
    last = asked.replies[-1].text
    if last.strip():
        messages = repair(question, last, asked.problem)
        _read(asked, question, await client.ask(messages, grader=grader, settings=settings, sample=first))


def usage_of(replies: Iterable[GraderReply]) -> dict[str, Any]:
    """Tokens of all replies, and the money that they cost now: replies from the cache cost nothing."""
    replies = list(replies)
    costs = [reply.usage.cost_usd for reply in replies if not reply.cached]
    return {
        "input_tokens": _sum(reply.usage.input_tokens for reply in replies),
        "output_tokens": _sum(reply.usage.output_tokens for reply in replies),
        "cost_usd": _sum(costs) if costs else 0.0,
    }


def _read(asked: GraderCall, question: Question, reply: GraderReply) -> bool:
    """Takes a reply in; whether it says all there is to say."""
    asked.replies.append(reply)
    try:
        opinion = question.form.read(reply.text, question.fences, question.judged)
    except Unreadable as unreadable:
        asked.problem = str(unreadable)
        return False
    if asked.opinion is None or len(opinion.missing) <= len(asked.opinion.missing):
        asked.opinion = opinion
    asked.problem = f"it says nothing about {', '.join(opinion.missing)}" if opinion.missing else ""
    return not opinion.missing


def _sum(numbers: Iterable[float | None]) -> float | None:
    """The sum of what is known; None when nothing is."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
