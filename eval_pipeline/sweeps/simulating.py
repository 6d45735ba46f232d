"""Calls of simulators. Any runner can play a user; it is called as graders are, but never answered from their cache:
two conversations of one case are two samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from eval_pipeline.executions.model import Plan, TargetFailure
from eval_pipeline.executions.simulated_user import Ask, SimulatorReply
from eval_pipeline.failures import SIMULATOR_FAULT
from eval_pipeline.scores.grader_client import GraderFailure
from eval_pipeline.suites.model import Message
from eval_pipeline.suites.simulation import SimulatedUser
from eval_pipeline.sweeps.context import SweepContext
from eval_pipeline.sweeps.costs import of_reply
from eval_pipeline.sweeps.pairs import Pair, simulator_of


def ask_simulator(user: SimulatedUser, plan: Plan, pair: Pair, context: SweepContext) -> Ask:
    """Return the function that asks the simulator of a plan; what it spends counts against the budgets."""
    simulator = simulator_of(user, pair, context.options)
    turns = 0

    async def ask(messages: Sequence[Message], attempt: int) -> SimulatorReply:
        nonlocal turns
        turns += attempt == 0
        if simulator is None:
            raise TargetFailure(SIMULATOR_FAULT, "a scripted user has no simulator")
        settings = {"temperature": user.temperature} if user.temperature is not None else {}
        try:
            name = f"simulate-{plan.key[:12]}-{turns}"
            reply = await context.graders.ask(simulator, messages, settings, name, repetition=attempt + 1)
        except GraderFailure as failure:
            raise TargetFailure(SIMULATOR_FAULT, f"the simulator '{simulator.name}' failed: {failure}") from failure
        context.budget.spend(plan, of_reply(reply.usage))
        facts = {
            "simulator": reply.grader,
            "model": reply.model,
            "usage": asdict(reply.usage),
            "duration_ms": reply.duration_ms,
        }
        return SimulatorReply(text=reply.text, facts=facts)

    return ask
