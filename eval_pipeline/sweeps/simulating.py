"""Calls of simulators. Any runner can play a user; it is called as graders are, but never answered from their cache:
two conversations of one case are two samples."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from eval_pipeline.executions.conversations import SpeechFailure
from eval_pipeline.executions.model import Plan, Runner, TargetFailure
from eval_pipeline.executions.simulated_user import (
    Ask,
    Line,
    Review,
    SimulatorReply,
    SimulatorRequest,
    instructions,
    json_object,
)
from eval_pipeline.failures import SIMULATOR_FAULT
from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.scores.grader_client import GraderFailure, GraderReply
from eval_pipeline.suites.model import Message
from eval_pipeline.suites.simulation import SimulatedUser
from eval_pipeline.sweeps.context import SweepContext
from eval_pipeline.sweeps.costs import of_reply
from eval_pipeline.sweeps.pairs import Pair, reviewer_of, simulator_of

_LOG = logging.getLogger(__name__)
_SEED_DIGITS = 7
_REVIEW = """\
You check the words of a person whom a model plays in a test of an assistant. Below is what the model was told, the
conversation so far (JSON; "assistant" is the person, "user" the assistant), and what it says next (JSON).

What it was told:
{instructions}

Conversation:
{conversation}

What it says next:
{line}

A line is at fault if it states a fact about the person or the matter that the model was not told and that nobody said
("invented-fact"), or if "end" is true although the person has not got what they came for and has no reason to give up
("ended-early"). Small talk and vague words are no fault.
Reply with one JSON object and nothing else: {{"fault": null, "why": "one sentence"}}
"""
_FAULTS = {"invented-fact": "it makes facts up", "ended-early": "it ends the conversation too early"}


def ask_simulator(user: SimulatedUser, plan: Plan, pair: Pair, context: SweepContext) -> Ask:
    """Return the function that asks the simulator of a plan; what it spends counts against the budgets."""
    simulator = simulator_of(user, pair, context.options)
    given = {"temperature": user.temperature, "model": user.model}
    settings = {name: value for name, value in given.items() if value is not None}

    async def ask(request: SimulatorRequest) -> SimulatorReply:
        if simulator is None:
            raise TargetFailure(SIMULATOR_FAULT, "a scripted user has no simulator")
        seed = seed_of(plan, request)
        try:
            reply = await context.graders.ask(
                simulator,
                request.messages,
                settings,
                f"simulate-{plan.key[:12]}-{request.turn}",
                repetition=request.attempt + 1,
                seed=seed,
                state=request.state,
            )
        except GraderFailure as failure:
            problem = f"the simulator '{simulator.name}' failed: {failure}"
            raise SpeechFailure(TargetFailure(SIMULATOR_FAULT, problem), {"simulator": simulator.name}) from failure
        context.budget.spend(plan, of_reply(reply.usage))
        changed = {"state": reply.state} if reply.state is not None else {}
        facts = {"simulator": reply.grader, **_facts(reply), "seed": seed, **changed}
        return SimulatorReply(text=reply.text, facts=facts)

    return ask


def review_line(
    user: SimulatedUser, plan: Plan, pair: Pair, context: SweepContext
) -> Callable[[SimulatorRequest, Line], Awaitable[Review]] | None:
    """Return the function that has a line of a simulator reviewed; None where no reviewer is named."""
    reviewer = reviewer_of(user, pair)
    if reviewer is None:
        return None

    async def review(request: SimulatorRequest, line: Line) -> Review:
        name = f"review-{plan.key[:12]}-{request.turn}"
        asked = [Message(role="user", content=_question(user, request, line))]
        try:
            reply = await context.graders.ask(reviewer, asked, {}, name, repetition=request.attempt + 1)
        except GraderFailure as failure:
            found = Review(fault=None, facts={"reviewer": reviewer.name, "error": str(failure)})
        else:
            context.budget.spend(plan, of_reply(reply.usage))
            found = _read(reply, reviewer)
        _report_failure(found, context)
        return found

    return review


def _report_failure(review: Review, context: SweepContext) -> None:
    """Report a reviewer that does not review, once for each reviewer: its lines are used as if there were none."""
    name, error = review.facts["reviewer"], review.facts.get("error")
    if error is not None and name not in context.failed_reviewers:
        context.failed_reviewers.add(name)
        _LOG.warning(
            "reviewer '%s' did not review a line of a simulated user, which is used unreviewed (view simulator_faults "
            "counts such lines): %s", name, error,
        )  # fmt: skip


def seed_of(plan: Plan, request: SimulatorRequest) -> int:
    """Return the seed of a line: the same for the same case, repetition, turn and try."""
    parts = [plan.suite, plan.case.id, plan.repetition, request.turn, request.attempt]
    return int(fingerprint(parts)[:_SEED_DIGITS], 16)


def _facts(reply: GraderReply) -> dict[str, Any]:
    return {"model": reply.model, "usage": asdict(reply.usage), "duration_ms": reply.duration_ms}


def _question(user: SimulatedUser, request: SimulatorRequest, line: Line) -> str:
    said = [{"role": message.role, "text": message.text} for message in request.messages if message.role != "system"]
    return _REVIEW.format(
        instructions=instructions(user),
        conversation=json.dumps(said, ensure_ascii=False),
        line=json.dumps({"message": line.text, "end": line.ends}, ensure_ascii=False),
    )


def _read(reply: GraderReply, reviewer: Runner) -> Review:
    """Return the review in a reply. One that cannot be read finds no fault, and is kept."""
    value = json_object(reply.text)
    facts = {"reviewer": reviewer.name, **_facts(reply)}
    if value is None or "fault" not in value:
        return Review(fault=None, facts={**facts, "error": f"cannot be read: {reply.text[:200]}"})
    fault, why = value["fault"], str(value.get("why") or "")
    words = _FAULTS.get(str(fault))
    return Review(fault=f"{words}: {why}" if words else None, facts={**facts, "fault": fault, "why": why})
